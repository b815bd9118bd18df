import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'vitest'
import type { JobState } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
  endedJob,
  find,
  ids,
  lapse,
  lapsedJob,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  until,
} from './making.ts'

/** Every job is visible in its present state until it is pruned. */
export function lookingContract({ open }: Candidate): void {
  test('jobs of all states are listed together, newest first', async () => {
    await using backend = await open()
    const all = await oneOfEach(backend)
    const listed = await backend.jobs.list({ limit: 100 })
    assert.deepEqual(ids(listed), Object.values(all).sort().reverse())
    for (const record of listed) {
      assert.deepEqual(record, await find(backend, record.id))
      const alike = await backend.jobs.list({ state: record.state, limit: 100 })
      assert.deepEqual(
        alike.find(({ id }) => id === record.id),
        record,
      )
    }
  })

  test('a job is listed once at every moment while it ends and is retried repeatedly', async () => {
    await using backend = await open()
    const id = await addOne(backend, { maxAttempts: 1 })
    let moves = 0
    const move = async () => {
      for (; moves < 20; moves++) {
        const claimed = await claimOne(backend)
        await settleOne(backend, claimed, { state: moves % 2 === 0 ? 'dead' : 'completed' })
        assert.deepEqual(await backend.jobs.retry(id), { outcome: 'ready' })
      }
    }
    const watch = async (look: () => Promise<void>) => {
      while (moves < 20) {
        await look()
        await turn()
      }
    }
    await Promise.all([
      move(),
      watch(async () => void (await find(backend, id))),
      watch(async () => assert.deepEqual(ids(await backend.jobs.list({ limit: 10 })), [id])),
    ])
  })

  test('a list is read page by page, live and ended jobs together', async () => {
    await using backend = await open()
    const all: string[] = []
    for (let i = 0; i < 11; i++) {
      all.push(i % 2 === 0 ? await endedJob(backend, 'completed') : (await runningJob(backend)).id)
    }
    const read: string[] = []
    for (let before: string | undefined; ; before = read.at(-1)) {
      const page = await backend.jobs.list({ limit: 4, ...(before !== undefined && { before }) })
      assert.equal(page.length, Math.min(4, 11 - read.length))
      if (page.length === 0) break
      read.push(...ids(page))
    }
    assert.deepEqual(read, all.toReversed())
    assert.deepEqual(ids(await backend.jobs.list({ limit: 2, before: all[5]! })), [all[4], all[3]])
  })

  test('a list can stop at a given job, and the end of a page can be asked for', async () => {
    await using backend = await open()
    const { jobs } = backend
    const all: string[] = []
    for (let nth = 0; nth < 9; nth++) {
      const id = await addOne(backend, { queue: nth === 1 ? 'rare' : 'default' })
      if (nth % 3 === 0) await jobs.cancel(id)
      all.unshift(id)
    }
    // Six live and three ended: the window is as long as the shorter of the two stretches.
    const floor = (await jobs.reach({ rows: 2 }))!
    const window = ids(await jobs.list({ downTo: floor, limit: 100 }))
    assert.ok(window.length >= 2 && window.length <= 4, `${window.length}`)
    assert.deepEqual(window, all.slice(0, window.length))
    assert.equal(window.at(-1), floor)
    const rest = ids(await jobs.list({ before: floor, limit: 100 }))
    assert.deepEqual([...window, ...rest], all)
    assert.deepEqual(ids(await jobs.list({ queue: 'rare', downTo: floor, limit: 100 })), [])
    assert.deepEqual(ids(await jobs.list({ queue: 'rare', before: floor, downTo: all.at(-1)!, limit: 9 })), [
      all[7],
    ])
    assert.equal(await jobs.reach({ rows: 20 }), null)
    assert.equal(await jobs.reach({ before: all.at(-1)!, rows: 1 }), null)
    const ended = ids(await jobs.list({ state: 'cancelled', limit: 100 }))
    const second = await jobs.reach({ rows: 2, among: 'ended' })
    if (second !== null) assert.ok(second >= ended[1]!, 'no more than two ended jobs lie from it on')
  })

  test('jobs of Signalbox’s internal queues are listed by queue and state like any other', async () => {
    await using backend = await open()
    const queue = 'signalbox.dispatch'
    await addOne(backend)
    const older = await addOne(backend, { queue: 'signalbox.bulk' })
    const cancelled = await addOne(backend, { queue })
    await backend.jobs.cancel(cancelled)
    const ready = await addOne(backend, { queue })
    const later = await addOne(backend, { queue, due: { delayMs: longMs } })
    const listed = async (query: { state?: JobState; queue?: string; before?: string }) =>
      ids(await backend.jobs.list({ queue, limit: 10, ...query }))
    assert.deepEqual(await listed({}), [later, ready, cancelled])
    assert.deepEqual(await listed({ before: ready }), [cancelled])
    assert.deepEqual(await listed({ state: 'ready' }), [ready])
    assert.deepEqual(await listed({ state: 'scheduled' }), [later])
    assert.deepEqual(await listed({ state: 'cancelled' }), [cancelled])
    assert.deepEqual(await listed({ state: 'completed' }), [])
    assert.deepEqual(await listed({ queue: 'signalbox.bulk' }), [older])
  })

  test('a list can be filtered by queue, by kind and by state, alone or combined', async () => {
    await using backend = await open()
    const make = (queue: string, kind: string) => addOne(backend, { queue, kind })
    const [ax, ay, bx] = [await make('a', 'x'), await make('a', 'y'), await make('b', 'x')]
    const done = await endedJob(backend, 'completed', { queue: 'c', kind: 'x' })
    assert.deepEqual(ids(await backend.jobs.list({ queue: 'a', limit: 9 })), [ay, ax])
    assert.deepEqual(ids(await backend.jobs.list({ kind: 'x', limit: 9 })), [done, bx, ax])
    assert.deepEqual(ids(await backend.jobs.list({ kind: 'x', state: 'ready', limit: 9 })), [bx, ax])
    assert.deepEqual(ids(await backend.jobs.list({ kind: 'x', queue: 'b', state: 'ready', limit: 9 })), [bx])
    assert.deepEqual(ids(await backend.jobs.list({ kind: 'x', state: 'completed', limit: 9 })), [done])
    assert.deepEqual(await backend.jobs.list({ queue: 'A', limit: 9 }), [])
    assert.deepEqual(ids(await backend.jobs.list({ kind: 'x', limit: 1, before: done })), [bx])
  })

  test('each job is listed under its present state only', async () => {
    await using backend = await open()
    const lapsed = await lapsedJob(backend, { queue: 'lapsed' })
    const expired = await lapsedJob(backend, { queue: 'expired', maxAttempts: 1 })
    const { scheduled, ready, running, completed, dead, cancelled } = await oneOfEach(backend)
    const expected: Record<JobState, string[]> = {
      scheduled: [scheduled],
      ready: [lapsed.id, ready],
      waiting: [],
      running: [running],
      completed: [completed],
      dead: [expired.id, dead],
      cancelled: [cancelled],
    }
    for (const [state, those] of Object.entries(expected)) {
      const listed = await backend.jobs.list({ state: state as JobState, limit: 10 })
      assert.deepEqual(ids(listed).sort(), those.sort(), state)
      for (const record of listed) assert.equal(record.state, state)
    }
  })

  test('a scheduled job is ready as soon as it is due, without a sweep', async () => {
    await using backend = await open()
    await inGrowingSpans('it was scheduled before', async (delayMs) => {
      const id = await addOne(backend, { due: { delayMs } })
      const wasScheduled = (await find(backend, id)).state === 'scheduled'
      await until('it is ready', async () => (await find(backend, id)).state === 'ready')
      assert.deepEqual(ids(await backend.jobs.list({ state: 'ready', limit: 10 })), [id])
      assert.deepEqual(await backend.jobs.list({ state: 'scheduled', limit: 10 }), [])
      const [stats] = await backend.jobs.stats()
      assert.deepEqual([stats?.scheduled, stats?.ready], [0, 1])
      await backend.jobs.remove([id])
      return wasScheduled || undefined
    })
  })

  test('jobs are counted by queue and state', async () => {
    await using backend = await open()
    assert.deepEqual(await backend.jobs.stats(), [])
    await oneOfEach(backend)
    await endedJob(backend, 'dead', { queue: 'Mail' })
    await backend.jobs.add([aJob(), aJob()])
    await backend.jobs.pause('Mail')
    const zero = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0 }
    const none = { paused: false, limits: null, ...zero, approximate: false }
    const stats = [...(await backend.jobs.stats())].sort((a, b) => (a.queue < b.queue ? -1 : 1))
    const counts = stats.map(({ oldestReadyAt, ...count }) => ({
      ...count,
      hasReady: oldestReadyAt !== null,
    }))
    assert.deepEqual(counts, [
      { ...none, queue: 'Mail', paused: true, dead: 1, hasReady: false },
      { ...none, queue: 'mail', scheduled: 1, ready: 3, running: 1, dead: 1, hasReady: true },
    ])
  })

  test('a queue shows since when its oldest ready job has been ready', async () => {
    await using backend = await open()
    const first = await addOne(backend, { priority: -1 })
    await addOne(backend, { due: { delayMs: 60_000 } })
    const { runAt } = await find(backend, first)
    await addOne(backend, { priority: 5, due: { runAt: runAt + 1 } })
    const [stats] = await backend.jobs.stats()
    assert.equal(stats?.oldestReadyAt, runAt)
  })

  test('a job counts as ready since its run time or the end of its lease', async () => {
    await using backend = await open()
    const oldest = async () => (await backend.jobs.stats())[0]?.oldestReadyAt
    await addOne(backend, { due: { delayMs: longMs } })
    const running = await runningJob(backend, { due: { runAt: 1_000 } })
    assert.equal(await oldest(), null, 'neither a scheduled nor a running job is ready')
    const soon = await find(backend, await addOne(backend, { due: { delayMs: 60 } }))
    await until('it is due', async () => (await oldest()) !== null)
    assert.equal(await oldest(), soon.runAt)
    await addOne(backend, { due: { runAt: 5_000 } })
    await addOne(backend, { due: { runAt: 6_000 }, kind: 'other' })
    await addOne(backend, { due: { runAt: 2_000 }, queue: 'z' })
    assert.equal(await oldest(), 5_000)
    await settleOne(backend, running)
    await inGrowingSpans('the other one was the oldest while it ran', async (leaseMs) => {
      const lapsed = await claim(backend, { kinds: ['welcome'], limit: 1, leaseMs })
      const meanwhile = await oldest()
      await lapse(backend, ...lapsed)
      assert.equal(await oldest(), 5_000)
      return meanwhile === 6_000 || undefined
    })
  })

  test('the counts judge leases at the time of the call', async () => {
    await using backend = await open()
    await lapsedJob(backend)
    await lapsedJob(backend, { queue: 'mail', priority: 1, maxAttempts: 1 })
    const [stats] = await backend.jobs.stats()
    assert.deepEqual([stats?.ready, stats?.running, stats?.dead], [1, 0, 1])
  })

  test('pruning deletes only jobs that ended long enough ago', async () => {
    await using backend = await open()
    const { scheduled, ready, running, ...ended } = await oneOfEach(backend)
    assert.equal(await backend.jobs.prune({ olderThanMs: longMs, limit: 100 }), 0)
    let pruned = 0
    await until('all that ended are pruned', async () => {
      pruned += await backend.jobs.prune({ olderThanMs: 10, limit: 100 })
      return pruned >= 3
    })
    assert.equal(pruned, 3)
    for (const id of Object.values(ended)) assert.equal(await backend.jobs.find(id), undefined)
    const left = await backend.jobs.list({ limit: 10 })
    assert.deepEqual(ids(left).sort(), [scheduled, ready, running].sort())
    assert.equal(await backend.jobs.prune({ olderThanMs: 0, limit: 100 }), 0)
  })

  test('a pruning call deletes at most as many jobs as asked for', async () => {
    await using backend = await open()
    for (let i = 0; i < 5; i++) await endedJob(backend, 'completed')
    let pruned = 0
    await until('two are pruned', async () => {
      pruned = await backend.jobs.prune({ olderThanMs: 20, limit: 2 })
      return pruned > 0 && (await backend.jobs.list({ limit: 10 })).length <= 3
    })
    assert.ok(pruned <= 2)
    await until('all are pruned', async () => {
      pruned = await backend.jobs.prune({ olderThanMs: 0, limit: 2 })
      assert.ok(pruned <= 2)
      return (await backend.jobs.list({ limit: 10 })).length === 0
    })
  })

  test('a pruned job is gone for every call', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await settleOne(backend, claimed, { state: 'dead' })
    await until('it is pruned', async () => (await backend.jobs.prune({ olderThanMs: 0, limit: 9 })) === 1)
    assert.equal(await backend.jobs.find(claimed.id), undefined)
    assert.equal(await backend.jobs.retry(claimed.id), undefined)
    assert.equal(await backend.jobs.cancel(claimed.id), undefined)
    assert.equal(await backend.jobs.retryDead({ limit: 10 }), 0)
    assert.deepEqual(await backend.jobs.renew([leaseOf(claimed)], longMs), [])
    assert.deepEqual(await claim(backend), [])
  })
}

/** One job in each state that a job can be in, in the queue `mail`. */
async function oneOfEach(backend: Backend) {
  const completed = await endedJob(backend, 'completed')
  const dead = await endedJob(backend, 'dead')
  const cancelled = await endedJob(backend, 'cancelled')
  const running = (await runningJob(backend)).id
  const ready = await addOne(backend)
  const scheduled = await addOne(backend, { due: { delayMs: longMs } })
  return { completed, dead, cancelled, running, ready, scheduled }
}
