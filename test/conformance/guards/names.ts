import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace } from '../candidates.ts'
import type { GuardsCandidate } from './opening.ts'
import { ask, GuardStage } from './stage.ts'

/** Keys are any text; two that differ in any character are different, and no key affects another. */
export function namesContract({ open }: GuardsCandidate): void {
  test('keys that look alike are different keys', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const tokens = new Map<string, string>()
    for (const key of keys) tokens.set(key, (await stage.run(key)).token)
    assert.deepEqual(
      (await stage.all('once', undefined, 7)).map(({ key }) => key).toSorted(),
      keys.toSorted(),
    )
    for (const key of keys)
      assert.equal(await stage.settle(key, tokens.get(key)!, 'done', { result: JSON.stringify(key) }), true)
    for (const key of keys)
      assert.deepEqual(await stage.claim(key), { status: 'done', result: JSON.stringify(key) })
    assert.equal(await stage.store.forget('once', keys[0]!), true)
    for (const key of keys.slice(1)) assert.equal(await stage.status(key), 'done')
  })

  test('keys that look alike stay separate within one call', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const first = await stage.store.claim(keys.map((key) => ask(key)))
    assert.deepEqual(new Set(first.map(({ status }) => status)), new Set(['run']))
    const took = await stage.store.settle(
      keys.map((key, n) => ({
        ...{ space: 'once', key, result: JSON.stringify(key), end: 'done' },
        token: (first[n] as { token: string }).token,
      })),
    )
    assert.ok(took.every(Boolean))
    assert.deepEqual(
      await stage.store.claim(keys.map((key) => ask(key))),
      keys.map((key) => ({ status: 'done', result: JSON.stringify(key) })),
    )
  })

  test('keys of the greatest length are accepted, also when only their last characters differ', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    for (const character of ['k', 'ß', '😀']) {
      const [one, two] = [`${character.repeat(190)}1`, `${character.repeat(190)}2`]
      const fingerprint = character.repeat(191)
      const { token } = await stage.run(one, { fingerprint })
      await stage.run(two, { fingerprint })
      assert.equal(await stage.settle(one, token, 'done'), true)
      assert.deepEqual(
        [await stage.status(one, { fingerprint }), await stage.status(two, { fingerprint })],
        ['done', 'running'],
      )
      assert.deepEqual(
        (await stage.all('once', character.repeat(190))).map(({ key }) => key),
        [one, two],
      )
    }
  })

  test('the same key in another space is a different key', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const spaces = ['once', 'processing', 'monitor.task', 'monitor.event']
    const { token } = await stage.run('a', { space: 'once' })
    for (const space of spaces.slice(1)) {
      assert.equal(await stage.settle('a', token, 'done', { space }), false)
      await stage.run('a', { space })
      assert.equal(await stage.store.renew({ space, key: 'a', token }, 1_000), undefined)
    }
    assert.equal(await stage.store.forget('processing', 'a'), true)
    assert.deepEqual(
      await Promise.all(spaces.map(async (space) => (await stage.all(space)).length)),
      [1, 0, 1, 1],
    )
    assert.equal(await stage.settle('a', token, 'done'), true)
  })

  test('a space and a key cannot be mistaken for another space and key', async () => {
    await using backend = await open()
    const stage = new GuardStage(backend)
    const pairs = [
      ['monitor', 'task:a'],
      ['monitor:task', 'a'],
      ['monitor.task', 'a'],
      ['monitor', '.task.a'],
    ] as const
    for (const [space, key] of pairs) await stage.run(key, { space })
    for (const [space, key] of pairs) assert.equal(await stage.status(key, { space }), 'running')
    for (const space of ['monitor:task', 'monitor.task'])
      assert.deepEqual(
        (await stage.all(space)).map(({ key }) => key),
        ['a'],
      )
    assert.equal((await stage.all('monitor')).length, 2)
  })

  test('keys and windows of another namespace are separate', async () => {
    await using backend = await open({ namespace: aNamespace() })
    const here = new GuardStage(backend)
    const name = aNamespace()
    for (const other of [name, `${name}:once`, name.toUpperCase()]) {
      const there = new GuardStage(backend.within(other))
      const { token } = await there.run('a')
      assert.equal(await there.seen('w'), false)
      assert.equal(await here.settle('a', token, 'done'), false)
      assert.equal(await here.store.forget('once', 'a'), false)
      assert.deepEqual(await here.all(), [])
    }
    await here.run('a')
    assert.equal(await here.seen('w'), false)
    assert.equal(await new GuardStage(backend.within(name)).status('a'), 'running', 'and it is still there')
  })
}

const keys = [
  'a:b',
  'a::b',
  'a%3Ab',
  '%3A',
  '%',
  '_',
  '{x}',
  '{',
  '}{',
  'x',
  'X',
  'x ',
  ' x',
  'x  ',
  'é',
  'e',
  'e\u0301',
  'E',
  'ß',
  'ss',
  'ı',
  'i',
  'ﬀ',
  'ff',
  '\u200b',
  '\u2028',
  '\ufeff',
  '*',
  '?',
  '[a-z]',
  '\\',
  '\\%',
  "'; DROP TABLE once_guard; --",
  "return redis.call('FLUSHALL')",
  '$1',
  ':key',
  '🙂',
  '🙃',
  '👩‍👩‍👧',
  '__proto__',
  'null',
  'undefined',
  '0',
  '00',
  '-0',
]
