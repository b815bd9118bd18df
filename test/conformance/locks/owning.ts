import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { LocksCandidate } from '../candidates.ts'
import { clockMs, keyOf, longMs, longTimes, named, Stage, shortMs } from './stage.ts'

/** The rights of a holder and of others, and values that come back as they were written. */
export function owningContract({ open }: LocksCandidate): void {
  test('only the holder, with its token and its request, can renew, shorten or release', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const key = keyOf('pull')
    const { token } = await stage.granted('pull', 'A')
    await stage.queued('pull', 'B', 1)
    const before = await stage.look('pull')
    const others = [
      { ...named('B'), token },
      { ...named('A'), token: token + 1 },
      { ...named('A'), token: token - 1 },
      { ...named('A'), token: 1 },
      { node: 'A', requestId: 'other', token },
      { node: 'a', requestId: 'A', token },
      { node: 'A', requestId: 'a', token },
      { node: 'A ', requestId: 'A', token },
    ]
    for (const other of others) {
      const answers = [
        await stage.store.renew(key, other, { ttlMs: longMs, progress: '1' }, longTimes),
        await stage.store.shorten(key, other, 0, longTimes),
        await stage.store.release(key, other, { outcome: 'success', value: '1', terminal: false }, longTimes),
        await stage.store.release(key, other, { outcome: 'failure', value: '1', terminal: true }, longTimes),
      ] as const
      const [renewed, shortened, success, failure] = answers
      assert.equal(renewed.expiresAt, undefined)
      assert.equal(shortened.shortened, false)
      assert.equal(success.released, undefined)
      assert.equal(failure.released, undefined)
      for (const { notified, revision } of answers) {
        assert.deepEqual(notified, { requesters: [], everyone: false, changed: false })
        assert.equal(revision, before.revision)
      }
    }
    const after = await stage.look('pull')
    assert.ok(Math.abs(after.holder!.expiresAt - before.holder!.expiresAt) <= clockMs)
    assert.deepEqual(withoutExpiry(after), withoutExpiry(before))
    assert.deepEqual((await stage.end('pull', 'A', token, 'failure')).released, { next: named('B') })
  })

  test('a turn is released once; a second release changes nothing, also for a later holder', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { token } = await stage.granted('pull', 'A')
    assert.deepEqual((await stage.end('pull', 'A', token, 'success')).released, { next: null })
    const again = await stage.end('pull', 'A', token, 'success')
    assert.equal(again.released, undefined)
    assert.equal(again.notified.changed, false)
    const next = await stage.granted('pull', 'A')
    assert.ok(next.token > token, 'the same request again is a new turn')
    assert.equal((await stage.end('pull', 'A', token, 'failure')).released, undefined)
    assert.equal((await stage.granted('pull', 'A')).token, next.token)
  })

  test('an unused lock refuses release, renew, keep, leave and evict', async () => {
    await using backend = await open()
    const { store } = new Stage(backend)
    const [key, who] = [keyOf('unknown'), { ...named('A'), token: 1 }]
    const end = { outcome: 'success', value: null, terminal: false } as const
    const answers = [
      await store.release(key, who, end, longTimes),
      await store.renew(key, who, { ttlMs: longMs, progress: null }, longTimes),
      await store.shorten(key, who, 0, longTimes),
      await store.keep(key, who, { isStreamed: false }, longTimes),
      await store.leave(key, who, longTimes),
      await store.evict(key, who, longTimes),
    ]
    for (const { notified, revision } of answers)
      assert.deepEqual([notified.requesters, notified.changed, revision], [[], false, 0])
    const [released, renewed, shortened, kept, left, evicted] = answers as unknown as [
      { released: unknown },
      { expiresAt: unknown },
      { shortened: unknown },
      { standing: unknown },
      { left: unknown },
      { evicted: unknown },
    ]
    assert.deepEqual(
      [released.released, renewed.expiresAt, shortened.shortened],
      [undefined, undefined, false],
    )
    assert.deepEqual([kept.standing, left.left, evicted.evicted], [undefined, false, false])
  })

  test('renewing never shortens a lease; shortening never lengthens one', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const key = keyOf('pull')
    const { token, expiresAt } = await stage.granted('pull', 'A')
    const who = { ...named('A'), token }
    const renew = async (ttlMs: number) =>
      (await stage.store.renew(key, who, { ttlMs, progress: undefined }, longTimes)).expiresAt!
    assert.ok(Math.abs((await renew(shortMs)) - expiresAt) <= clockMs)
    const longer = await renew(2 * longMs)
    assert.ok(longer > expiresAt + longMs / 2, 'longer')
    assert.ok(Math.abs((await renew(longMs)) - longer) <= clockMs)

    assert.equal((await stage.store.shorten(key, who, 10 * longMs, longTimes)).shortened, true)
    assert.ok(Math.abs((await stage.look('pull')).holder!.expiresAt - longer) <= clockMs)
    await stage.store.shorten(key, who, longMs / 10, longTimes)
    assert.ok((await stage.look('pull')).holder!.expiresAt < expiresAt, 'shorter')
    assert.ok((await renew(longMs)) > expiresAt - clockMs, 'and it can be renewed again')
    await stage.store.shorten(key, who, 0, longTimes)
    await stage.lapsed('pull')
    const renewal = await stage.store.renew(key, who, { ttlMs: longMs, progress: null }, longTimes)
    assert.equal(renewal.expiresAt, undefined)
  })

  test('a renewal without a time extends the lease by the time of the grant', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const key = keyOf('pull')
    for (const ttlMs of [5_000, 600_000]) {
      const { token } = await stage.granted('pull', 'A', { ttlMs })
      const who = { ...named('A'), token }
      await stage.store.shorten(key, who, 1_000, longTimes)
      const renew = async (givenMs: number | undefined) => {
        const before = (await stage.look('pull')).holder!.expiresAt
        const terms = { ttlMs: givenMs, progress: undefined }
        return (await stage.store.renew(key, who, terms, longTimes)).expiresAt! - before
      }
      const gainedMs = await renew(undefined)
      assert.ok(gainedMs > ttlMs - 1_000 - clockMs && gainedMs < 1.5 * ttlMs, `${gainedMs} ms`)
      // From now on the lease of the last renewal is its own lease time.
      await renew(2 * ttlMs)
      await stage.store.shorten(key, who, 1_000, longTimes)
      const laterMs = await renew(undefined)
      assert.ok(laterMs > 2 * ttlMs - 1_000 - clockMs && laterMs < 2.5 * ttlMs, `${laterMs} ms`)
      const end = { outcome: 'success', value: null, terminal: false } as const
      await stage.store.release(key, who, end, longTimes)
    }
  })

  test('asking or renewing takes up a grant, which then no longer lapses as unused', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const asks = async (queue: string) => (await stage.ask(queue, 'B')).status === 'granted'
    const renews = async (queue: string, token: number) => {
      const who = { ...named('B'), token }
      const renewal = { ttlMs: longMs, progress: null }
      return (await stage.store.renew(keyOf(queue), who, renewal, longTimes)).expiresAt !== undefined
    }
    for (const takeUp of [asks, renews]) {
      const { queue, token, windowMs } = await takenUp(stage, takeUp)
      await stage.pass(windowMs)
      assert.equal((await stage.granted(queue, 'B')).token, token)
      await stage.queued(queue, 'C', 1)
    }
  })

  test('keeping a position does not take up a grant, so the grant lapses', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { queue, windowMs } = await takenUp(stage, async () => true)
    await stage.pass(windowMs)
    const { standing } = await stage.store.keep(keyOf(queue), named('B'), { isStreamed: true }, longTimes)
    assert.deepEqual(standing, { status: 'ended', kind: 'lost', value: null })
    await stage.granted(queue, 'C')
  })

  test('the progress that the holder reports is shown, replaced, and kept when it reports none', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { token } = await stage.granted('pull', 'A')
    const renew = async (progress: string | null | undefined) => {
      const who = { ...named('A'), token }
      await stage.store.renew(keyOf('pull'), who, { ttlMs: longMs, progress }, longTimes)
      return (await stage.look('pull')).holder!.progress
    }
    assert.equal(await renew('{"done":1}'), '{"done":1}')
    assert.equal(await renew(undefined), '{"done":1}')
    assert.equal(await renew('2'), '2')
    assert.equal(await renew(null), null)
    await renew('3')
    await stage.end('pull', 'A', token, 'success')
    await stage.granted('pull', 'B')
    assert.equal((await stage.look('pull')).holder!.progress, null, 'a new turn has no progress yet')
  })

  test('results, errors and progress are returned byte for byte', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    for (const [index, value] of texts.entries()) {
      const queue = `op${index}`
      const { token } = await stage.granted(queue, 'A')
      for (const node of ['B', 'C']) await stage.ask(queue, node)
      const who = { ...named('A'), token }
      await stage.store.renew(keyOf(queue), who, { ttlMs: longMs, progress: value }, longTimes)
      const refused = await stage.ask(queue, 'X', { wait: false })
      assert.ok(refused.status === 'refused')
      assert.equal(refused.holder?.progress, value)
      assert.equal((await stage.look(queue)).holder?.progress, value)
      assert.equal(
        (await stage.store.list({ operation: queue, limit: 10 }))[0]?.holder?.progress,
        value,
        'in the list',
      )
      const outcome = index % 2 === 0 ? 'success' : 'failure'
      await stage.end(queue, 'A', token, outcome, { value, terminal: outcome === 'failure' })
      assert.equal((await stage.look(queue)).lastOutcome?.value, value)
      const asked = await stage.ask(queue, 'B')
      assert.ok(asked.status === 'ended')
      assert.equal(asked.value, value)
      const kept = (await stage.store.keep(keyOf(queue), named('C'), { isStreamed: true }, longTimes))
        .standing
      assert.ok(kept?.status === 'ended')
      assert.equal(kept.value, value)
    }
  })

  test('a release without a result or error is stored without one', async () => {
    await using backend = await open()
    const stage = new Stage(backend)
    const { token } = await stage.granted('pull', 'A')
    await stage.ask('pull', 'B')
    await stage.end('pull', 'A', token, 'success', { value: null })
    assert.deepEqual(await stage.ask('pull', 'B'), { status: 'ended', kind: 'completed', value: null })
    const { lastOutcome } = await stage.look('pull')
    assert.deepEqual(
      [lastOutcome?.outcome, lastOutcome?.node, lastOutcome?.attempt, lastOutcome?.value],
      ['success', 'A', 1, null],
    )
  })
}

/** A wait queue in which B got a short grant and took it up in time; a slow machine gets more time. */
async function takenUp(
  stage: Stage,
  takeUp: (queue: string, token: number) => Promise<boolean>,
): Promise<{ readonly queue: string; readonly token: number; readonly windowMs: number }> {
  for (const windowMs of [shortMs, 4 * shortMs, 16 * shortMs, 64 * shortMs]) {
    const queue = `${takeUp.name} within ${windowMs}`
    const a = await stage.granted(queue, 'A')
    for (const node of ['B', 'C']) await stage.ask(queue, node)
    const times = { ...longTimes, takeUpMs: windowMs, streamedTakeUpMs: windowMs }
    const end = { outcome: 'failure', value: null, terminal: false } as const
    await stage.store.release(keyOf(queue), { ...named('A'), token: a.token }, end, times)
    const { standing } = await stage.store.keep(keyOf(queue), named('B'), { isStreamed: false }, times)
    if (standing?.status === 'granted' && (await takeUp(queue, standing.token)))
      return { queue, token: standing.token, windowMs }
  }
  assert.fail('the lock was taken away from B within each of its windows')
}

/** JSON that a store would change if it parsed it: spaces, doubled keys, very precise numbers, and a large amount. */
const texts: readonly string[] = [
  '{"a":1,  "b" : [ ] ,"a":2}',
  '""',
  'null',
  '123456789012345678901234567890.10',
  '1E400',
  '"\\u0000\\ud83d\\ude00\\/"',
  '"ä 😀 \u2028 \u{10ffff} \' \\" `"',
  '"trailing space "',
  `"${'0123456789abcdef'.repeat(16_384)}"`,
  `"${'😀'.repeat(30_000)}"`,
]

function withoutExpiry<View extends { readonly holder: { readonly expiresAt: number } | null }>(
  view: View,
): View {
  return { ...view, holder: view.holder && { ...view.holder, expiresAt: 0 } }
}
