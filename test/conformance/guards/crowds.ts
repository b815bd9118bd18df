import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace } from '../candidates.ts'
import type { GuardsCandidate } from './opening.ts'
import { GuardStage, longMs, shortMs } from './stage.ts'

/** Many at once, through two backends on one store. */
export function crowdsContract({ open, isShared }: GuardsCandidate): void {
  const openTwo = async () => {
    const namespace = aNamespace()
    const one = await open({ namespace })
    const two = isShared ? await open({ namespace }) : undefined
    const stages = [new GuardStage(one), new GuardStage(two ?? one)] as const
    return {
      stages,
      async [Symbol.asyncDispose]() {
        await two?.[Symbol.asyncDispose]()
        await one[Symbol.asyncDispose]()
      },
    }
  }
  const twenty = Array.from({ length: 20 }, (_, n) => n)

  test('of 20 callers that claim a key at once, exactly one runs it', async () => {
    await using both = await openTwo()
    for (let round = 0; round < 5; round++) {
      const standings = await Promise.all(twenty.map((n) => both.stages[n % 2]!.claim(`round ${round}`)))
      assert.equal(standings.filter(({ status }) => status === 'run').length, 1)
      assert.equal(standings.filter(({ status }) => status === 'running').length, 19)
    }
  })

  test('of 20 callers that find an expired claim, exactly one takes it over', async () => {
    await using both = await openTwo()
    const { stages } = both
    for (let round = 0; round < 3; round++) {
      await stages[0].run(`round ${round}`, { leaseMs: shortMs })
      await stages[0].pass(shortMs)
      const standings = await Promise.all(twenty.map((n) => stages[n % 2]!.claim(`round ${round}`)))
      const runs = standings.filter(({ status }) => status === 'run')
      assert.equal(runs.length, 1)
      assert.ok(runs[0]?.status === 'run' && runs[0].attempt === 2)
    }
  })

  test('of 20 callers that claim a failed key, exactly one gets the next attempt', async () => {
    await using both = await openTwo()
    const { stages } = both
    let { token } = await stages[0].run('report')
    for (let attempt = 2; attempt < 6; attempt++) {
      await stages[attempt % 2]!.settle('report', token, 'failed')
      const standings = await Promise.all(twenty.map((n) => stages[n % 2]!.claim('report')))
      const runs = standings.flatMap((standing) => (standing.status === 'run' ? [standing] : []))
      assert.deepEqual(
        runs.map((run) => run.attempt),
        [attempt],
      )
      token = runs[0]!.token
    }
  })

  test('when one claim is ended several times at once, one end succeeds', async () => {
    await using both = await openTwo()
    const { stages } = both
    for (let round = 0; round < 3; round++) {
      const key = `round ${round}`
      const { token } = await stages[0].run(key)
      const took = await Promise.all(
        twenty.map((n) => stages[n % 2]!.settle(key, token, n % 3 ? 'failed' : 'done', { result: null })),
      )
      assert.equal(took.filter(Boolean).length, 1)
      const after = await stages[1].claim(key)
      assert.equal(after.status, took.findIndex(Boolean) % 3 ? 'run' : 'done')
    }
  })

  test('another backend sees claims, ends and windows at once', async () => {
    await using both = await openTwo()
    const [here, there] = both.stages
    const { token } = await here.run('report')
    assert.equal(await there.status('report'), 'running')
    assert.equal(await there.settle('report', token, 'done', { result: '[1]' }), true)
    assert.deepEqual(await here.claim('report'), { status: 'done', result: '[1]' })
    assert.equal(await there.seen('w'), false)
    assert.equal(await here.seen('w'), true)
    assert.equal(await here.store.forget('once', 'report'), true)
    assert.equal((await there.run('report')).attempt, 1)
  })

  test.runIf(isShared)('a reopened store keeps its claims, results and windows', async () => {
    const namespace = aNamespace()
    const tokens = new Map<string, string>()
    {
      await using backend = await open({ namespace })
      const stage = new GuardStage(backend)
      for (const key of ['running', 'done']) tokens.set(key, (await stage.run(key)).token)
      await stage.settle('done', tokens.get('done')!, 'done', { result: '"kept"' })
      await stage.seen('w')
    }
    await using backend = await open({ namespace })
    const stage = new GuardStage(backend)
    assert.deepEqual(await stage.claim('done'), { status: 'done', result: '"kept"' })
    assert.equal(await stage.status('running'), 'running')
    assert.equal(await stage.seen('w'), true)
    const ref = { space: 'once', key: 'running', token: tokens.get('running')! }
    assert.ok(await stage.store.renew(ref, 2 * longMs))
    assert.equal(await stage.settle('running', ref.token, 'done'), true)
  })
}
