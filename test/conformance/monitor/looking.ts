/** Lists and their pages, pruning, and namespaces. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { ids } from '../jobs/making.ts'
import {
  aBatch,
  aDecision,
  aSubject,
  aSubscription,
  aWrite,
  finish,
  hash,
  known,
  longMs,
  notification,
  notify,
  now,
  past,
  present,
  take,
} from './making.ts'

export function lookingContract({ open }: Candidate): void {
  test('decisions are listed newest first, by subject and by reason, in pages', async () => {
    await using backend = await open()
    const { monitor } = backend
    const decisions = [
      aDecision(),
      aDecision({ reason: 'new', fromHash: null, fromText: null }),
      aDecision(aSubject('court-2')),
      aDecision({ reason: 'new' }),
    ]
    await monitor.write(aBatch({ decisions }))
    const [first, second, third, fourth] = ids(decisions)
    assert.deepEqual(ids(await monitor.decisions({ limit: 2 })), [fourth, third])
    assert.deepEqual(ids(await monitor.decisions({ limit: 2, before: third! })), [second, first])
    const { subject } = aSubject()
    assert.deepEqual(ids(await monitor.decisions({ subject, limit: 10 })), [fourth, second, first])
    assert.deepEqual(ids(await monitor.decisions({ subject, reason: 'new', limit: 10 })), [fourth, second])
    const [one] = await monitor.decisions({ reason: 'new', limit: 1, before: fourth! })
    assert.deepEqual([one?.fromHash, one?.fromText], [null, null])
  })

  test('dead notifications are counted by subscription, with the time of the oldest death', async () => {
    await using backend = await open()
    const { monitor } = backend
    assert.deepEqual(await monitor.countDead(), [])
    const [first, second, third, fourth] = await notify(
      backend,
      {},
      aSubject('court-2'),
      { ...aSubject('court-3'), subscriptionId: 'sub-2' },
      aSubject('court-4'),
    )
    const ref = await take(backend)
    const before = await now(backend)
    for (const id of [first!, second!, third!]) await finish(backend, ref, id, { outcome: 'dead' })
    await finish(backend, ref, fourth!)
    const counts = (await monitor.countDead()).toSorted((a, b) => b.count - a.count)
    assert.deepEqual(
      counts.map(({ subscriptionId, count }) => [subscriptionId, count]),
      [
        ['sub-1', 2],
        ['sub-2', 1],
      ],
    )
    const died = (await notification(backend, first!)).finishedAt
    assert.ok(died !== null && died >= before)
    assert.equal(counts[0]!.since, died)
  })

  test('notifications are listed newest first, by subject, subscription, status and id, in pages', async () => {
    await using backend = await open()
    const { monitor } = backend
    const other = aSubject('court-2')
    const [first, second, third] = await notify(
      backend,
      {},
      { ...other, subscriptionId: 'sub-2' },
      { stateHash: hash('C'), from: null },
    )
    await finish(backend, await take(backend), first!)
    const list = async (query: Partial<Parameters<typeof monitor.notifications>[0]>) =>
      ids(await monitor.notifications({ limit: 10, ...query }))
    assert.deepEqual(await list({}), [third, second, first])
    assert.deepEqual(await list({ limit: 1, before: third! }), [second])
    assert.deepEqual(await list({ subject: other.subject }), [second])
    assert.deepEqual(await list({ subscriptionId: 'sub-1' }), [third, first])
    assert.deepEqual(await list({ status: 'pending' }), [third, second])
    assert.deepEqual(await list({ ids: [first!, third!, 'unknown'] }), [third, first])
    assert.deepEqual(await list({ ids: [] }), [])
    assert.equal(await monitor.notification('unknown'), undefined)
    assert.equal((await monitor.notification(third!))?.from, null)
  })

  test('subjects are listed by source, time slot and venue, by code points, in pages', async () => {
    await using backend = await open()
    const { monitor } = backend
    const names = [
      ['gym', '18:00', 'A'],
      ['gym', '18:00', 'a'],
      ['gym', '18:00', '\uffee'],
      ['gym', '18:00', '🎾'],
      ['gym', '19:00', 'A%_b'],
      ['pool', '08:00', 'A'],
    ] as const
    const subjects = names.map(([source, slot, venue]) => aWrite(aSubject(venue, source, slot)))
    await monitor.write(aBatch({ subjects: subjects.toReversed() }))
    const list = async (query: Partial<Parameters<typeof monitor.subjects>[0]>) =>
      (await monitor.subjects({ limit: 10, ...query })).map((one) => [one.source, one.group, one.name])
    assert.deepEqual(await list({}), names)
    assert.deepEqual(await list({ limit: 2 }), names.slice(0, 2))
    const after = { source: 'gym', group: '18:00', name: '\uffee' }
    assert.deepEqual(await list({ after, limit: 2 }), names.slice(3, 5))
    assert.deepEqual(await list({ source: 'pool' }), [names[5]])
    assert.deepEqual(await list({ search: 'a' }), [names[1]], 'as it is written')
    assert.deepEqual(await list({ search: '%_' }), [names[4]], 'nothing stands for anything else')
    const [one] = await monitor.subjects({ limit: 1 })
    const { changedAt, ...rest } = one!
    const { subject, source, group, name, state, stateHash, observedAt } = subjects[0]!
    assert.deepEqual(rest, { subject, source, group, name, version: 1, state, stateHash, observedAt })
    assert.ok(changedAt > 0)
  })

  test('pruning deletes settled and old entries only', async () => {
    await using backend = await open()
    const { monitor } = backend
    await present(backend)
    const ref = await take(backend)
    const decisions = [aDecision(), aDecision()]
    await monitor.write(aBatch({ decisions }))
    const states = ['over', 'open', 'dead', 'pending'].map(hash)
    const notified = async (stateHash: string, windowMs: number, outcome: 'sent' | 'dead') => {
      const [id] = await notify(backend, { stateHash, windowMs, channel: ref.channel })
      await finish(backend, ref, id!, { outcome })
    }
    await notified(states[1]!, longMs, 'sent')
    await notified(states[0]!, 1, 'sent')
    await notified(states[2]!, 1, 'dead')
    const [pending] = await notify(backend, { stateHash: states[3]! })
    await monitor.silence({ id: 's', match: '{}', comment: '', startsAt: null, forMs: 1 })
    const at = await now(backend)
    await past(backend, at + 30)

    assert.equal(await monitor.prune({ olderThanMs: longMs, limit: 10 }), 0)
    assert.equal(await monitor.prune({ olderThanMs: 5, limit: 1 }), 4, 'one of each')
    assert.equal(await monitor.prune({ olderThanMs: 5, limit: 10 }), 3, 'a decision and two notifications')
    assert.equal(await monitor.prune({ olderThanMs: 5, limit: 10 }), 0)

    assert.deepEqual(await monitor.decisions({ limit: 10 }), [])
    assert.deepEqual(ids(await monitor.notifications({ limit: 10 })), [pending])
    const { windows } = (await known(backend, aSubject()))!
    assert.deepEqual(windows.map(({ stateHash }) => stateHash).sort(), states.slice(1).sort())
  })

  test('a namespace sees nothing of another namespace’s monitor', async () => {
    await using backend = await open()
    await using other = await open()
    const apart = [backend.within(`${Date.now()}-apart`), other]
    await backend.monitor.subscribe(aSubscription())
    await present(backend)
    const [id] = await notify(backend, {})
    const decision = aDecision()
    const events = [{ key: hash('event'), keepMs: longMs }]
    await backend.monitor.write(aBatch({ revision: 1, events, decisions: [decision] }))
    await take(backend)
    for (const stores of apart) {
      assert.equal(await known(stores, aSubject()), undefined)
      assert.deepEqual(await stores.monitor.rules(), { revision: 0, subscriptions: [], silences: [] })
      assert.equal(await stores.monitor.notification(id!), undefined)
      assert.deepEqual(await stores.monitor.decisions({ limit: 10 }), [])
      assert.deepEqual(await stores.monitor.subjects({ limit: 10 }), [])
      await take(stores)
      const batch = aBatch({ events, subjects: [aWrite()] })
      assert.deepEqual(await stores.monitor.write(batch), { status: 'written' })
    }
  })
}
