import assert from 'node:assert/strict'
import { test } from 'vitest'
import { inGrowingSpans } from '../../support/spans.ts'
import { aNamespace } from '../candidates.ts'
import type { GuardsCandidate } from './opening.ts'
import { digest, GuardStage, longMs, shortMs, until } from './stage.ts'

/** Whether a state was notified recently. */
export function windowsContract({ open, isShared }: GuardsCandidate): void {
  test('the first call in a window is to notify, later calls are not', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    assert.equal(await stage.seen('venue 1 is free'), false)
    for (let n = 0; n < 3; n++) assert.equal(await stage.seen('venue 1 is free'), true)
    assert.equal(await stage.seen('venue 1 is taken'), false)
  })

  test('a window ends on time, and repeats do not extend it', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    await inGrowingSpans('a repeat was notified', async (windowMs) => {
      const window = `w ${windowMs}`
      assert.equal(await stage.seen(window, { windowMs }), false)
      let repeats = 0
      await until('the window ends', async () => {
        const seen = await stage.seen(window, { windowMs: longMs })
        if (seen) repeats++
        return !seen
      })
      assert.equal(await stage.seen(window, { windowMs: shortMs }), true, 'and the next one began')
      return repeats > 0 || undefined
    })
  })

  test('another value in the same window is notified and replaces the first', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const say = (value: string) => stage.seen('venue 1', { value })
    assert.deepEqual(
      [await say('A'), await say('A'), await say('B'), await say('A'), await say('A')],
      [false, true, false, false, true],
    )
    assert.equal(await stage.seen('venue 1'), false, 'no value is another value')
  })

  test('another value starts a new window with its own length', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    assert.equal(await stage.seen('w', { value: 'A', windowMs: longMs }), false)
    assert.equal(await stage.seen('w', { value: 'B', windowMs: shortMs }), false)
    await stage.pass(shortMs)
    assert.equal(await stage.seen('w', { value: 'B' }), false)
  })

  test('one call asks for many windows; the second of two equal ones is a repeat', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const asks = ['a', 'b', 'a', 'c', 'b'].map((text) => ({
      window: digest(text),
      value: '',
      windowMs: longMs,
    }))
    assert.deepEqual(await stage.store.seen(asks), [false, false, true, false, true])
    assert.deepEqual(await stage.store.seen(asks), [true, true, true, true, true])
    const values = ['A', 'A', 'B', 'A'].map((value) => ({
      window: digest('w'),
      value: digest(value),
      windowMs: longMs,
    }))
    assert.deepEqual(await stage.store.seen(values), [false, true, false, false])
    assert.deepEqual(await stage.store.seen([]), [])
  })

  test('of 20 callers that ask at once through two backends, one is to notify', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using two = isShared ? await open({ namespace }) : undefined
    const stages = [new GuardStage(one), new GuardStage(two ?? one)]
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) => stages[n % 2]!.seen(`round ${round}`, { value: 'A' })),
      )
      assert.equal(answers.filter((seen) => !seen).length, 1)
    }
  })

  test('of 20 callers that come after a window ended, one is to notify', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    await stage.seen('w', { windowMs: shortMs })
    await stage.pass(shortMs)
    const answers = await Promise.all(Array.from({ length: 20 }, () => stage.seen('w')))
    assert.equal(answers.filter((seen) => !seen).length, 1)
  })

  test('a window is not listed as a guard', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    await stage.seen('w')
    assert.deepEqual(await stage.all(), [])
    await stage.run(digest('w'))
    assert.equal(await stage.seen('w'), true)
  })
}
