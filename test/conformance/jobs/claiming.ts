import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedRecord } from '../../../src/jobs/index.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import type { Candidate } from '../candidates.ts'
import { aNamespace } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
  find,
  ids,
  lapsedJob,
  leaseNo,
  longMs,
  settleOne,
  shortMs,
  until,
  verdictOf,
} from './making.ts'

/** Due jobs are claimed in order, each by one claimer, and only the requested kinds. */
export function claimingContract({ open, sql }: Candidate): void {
  test('a claimed job is running, belongs to its claimer and has a lease', async () => {
    await using backend = await open()
    const id = await addOne(backend, { maxAttempts: 3 })
    const claimed = await claimOne(backend, { workerId: 'worker 7', leaseMs: 60_000 })
    assert.equal(claimed.id, id)
    assert.equal(claimed.state, 'running')
    assert.equal(claimed.attempt, 1)
    assert.equal(claimed.workerId, 'worker 7')
    assert.match(claimed.token, /^\d+\.[0-9a-f]{16}$/)
    assert.ok(claimed.startedAt !== null && claimed.startedAt >= claimed.createdAt)
    assert.ok(Math.abs(claimed.leaseEndsAt - claimed.startedAt - 60_000) <= 1_000)

    const { token: _, ...record } = claimed
    assert.deepEqual(await find(backend, id), record)
  })

  test('a claim without a ready job returns an empty list', async () => {
    await using backend = await open()
    assert.deepEqual(await claim(backend), [])
    await addOne(backend)
    assert.deepEqual(await claim(backend, { queues: ['other'] }), [])
    assert.deepEqual(await claim(backend, { queues: [] }), [])
    assert.deepEqual(await claim(backend, { kinds: [] }), [])
  })

  test('a claim returns at most as many jobs as asked for, and no job twice', async () => {
    await using backend = await open()
    const jobs = Array.from({ length: 5 }, () => aJob({ due: { runAt: 1_000 } }))
    await backend.jobs.add(jobs)
    const claims = [await claim(backend, { limit: 2 }), await claim(backend, { limit: 2 })]
    assert.deepEqual(claims.map(ids), [ids(jobs.slice(0, 2)), ids(jobs.slice(2, 4))])
    assert.deepEqual(ids(await claim(backend)), [jobs[4]!.id])
    assert.deepEqual(await claim(backend), [])
  })

  test('a higher priority goes first, then the earlier due time, then the smaller id', async () => {
    await using backend = await open()
    const at = (priority: number, runAt: number) => aJob({ priority, due: { runAt } })
    const inOrder = [at(9, 3_000), at(1, 1_000), at(1, 1_000), at(1, 2_000), at(0, 1_000), at(-5, 1)]
    const shuffled = [3, 1, 5, 0, 4, 2].map((i) => inOrder[i]!)
    for (const job of shuffled) await backend.jobs.add([job])
    const claimed = [...(await claim(backend, { limit: 4 })), ...(await claim(backend, { limit: 4 }))]
    assert.deepEqual(ids(claimed), ids(inOrder))
  })

  test('jobs of one call that are due at once are claimed in the order of their ids', async () => {
    await using backend = await open()
    const jobs = Array.from({ length: 30 }, () => aJob({ due: { runAt: 5 } }))
    await backend.jobs.add([...jobs].reverse())
    assert.deepEqual(ids(await claim(backend, { limit: 100 })), ids(jobs))
  })

  test('the order holds across all queues of a claim, in whatever order the claim names them', async () => {
    await using backend = await open()
    const at = (queue: string, priority: number, runAt: number) => aJob({ queue, priority, due: { runAt } })
    const inOrder = [
      at('b', 5, 9),
      at('a', 4, 9),
      at('c', 4, 10),
      at('a', 0, 1),
      at('b', 0, 2),
      at('a', 0, 3),
    ]
    await backend.jobs.add([...inOrder].reverse())
    await addOne(backend, { queue: 'd', priority: 100 })
    assert.deepEqual(
      ids(await claim(backend, { queues: ['a', 'b', 'c'], limit: 3 })),
      ids(inOrder.slice(0, 3)),
    )
    assert.deepEqual(ids(await claim(backend, { queues: ['c', 'b', 'a', 'a'] })), ids(inOrder.slice(3)))
  })

  test('the lowest and the highest priority are kept in order', async () => {
    await using backend = await open()
    const priorities = [2_147_483_647, 2_147_483_646, 1, 0, -1, -2_147_483_647, -2_147_483_648]
    const jobs = priorities.map((priority) => aJob({ priority, due: { runAt: 1 } }))
    await backend.jobs.add([4, 6, 0, 2, 5, 1, 3].map((i) => jobs[i]!))
    const claimed = await claim(backend)
    assert.deepEqual(
      claimed.map(({ priority }) => priority),
      priorities,
    )
  })

  test('a job is not claimed before it is due', async () => {
    await using backend = await open()
    const id = await addOne(backend, { due: { delayMs: 80 } })
    let claimed: readonly ClaimedRecord[] = []
    await until('the delayed job is handed out', async () => {
      claimed = await claim(backend)
      return claimed.length > 0
    })
    assert.deepEqual(ids(claimed), [id])
    assert.ok(claimed[0]!.startedAt! >= claimed[0]!.runAt, 'claimed once due')
    assert.ok(claimed[0]!.runAt >= claimed[0]!.createdAt + 80)
  })

  test('a delayed job of high priority goes first as soon as it is due', async () => {
    await using backend = await open()
    await inGrowingSpans('another one went first', async (delayMs) => {
      const [queue, queues] = [`in ${delayMs} ms`, [`in ${delayMs} ms`]]
      await backend.jobs.add(Array.from({ length: 20 }, () => aJob({ queue })))
      const urgent = await addOne(backend, { queue, priority: 10, due: { delayMs } })
      const first = await claimOne(backend, { queues })
      if (first.id === urgent) {
        assert.ok(first.startedAt! >= first.runAt, 'not before it was due')
        return undefined
      }
      await until('it is due', async () => (await find(backend, urgent)).state === 'ready')
      assert.equal((await claimOne(backend, { queues })).id, urgent)
      return true
    })
  })

  test('a claim returns only the kinds it asks for, however many other jobs come first', async () => {
    await using backend = await open()
    await backend.jobs.add(Array.from({ length: 300 }, () => aJob({ kind: 'unknown', priority: 9 })))
    const a = await addOne(backend, { kind: 'a' })
    const b = await addOne(backend, { kind: 'b', priority: 1 })
    assert.deepEqual(ids(await claim(backend, { kinds: ['a', 'b', 'c'], limit: 2 })), [b, a])
    assert.deepEqual(await claim(backend, { kinds: ['a', 'b', 'c'] }), [])
    assert.equal((await backend.jobs.list({ kind: 'unknown', state: 'ready', limit: 400 })).length, 300)
  })

  test('a paused queue gives no jobs until it is resumed, and blocks no other queue', async () => {
    await using backend = await open()
    const held = await addOne(backend, { queue: 'paused', priority: 9 })
    const other = await addOne(backend, { queue: 'open' })
    await backend.jobs.pause('paused')
    await backend.jobs.pause('paused')
    assert.deepEqual(ids(await claim(backend, { queues: ['paused', 'open'] })), [other])
    assert.equal((await find(backend, held)).state, 'ready')
    const later = await addOne(backend, { queue: 'paused' })
    await backend.jobs.resume('paused')
    await backend.jobs.resume('paused')
    assert.deepEqual(ids(await claim(backend, { queues: ['paused', 'open'] })), [held, later])
  })

  test('a queue can be paused before it has a job', async () => {
    await using backend = await open()
    await backend.jobs.pause('mail')
    await addOne(backend)
    assert.deepEqual(await claim(backend), [])
  })

  test('jobs that run when their queue is paused can be renewed and settled', async () => {
    await using backend = await open()
    await addOne(backend)
    const claimed = await claimOne(backend)
    await backend.jobs.pause('mail')
    const lease = { jobId: claimed.id, token: claimed.token }
    assert.equal((await backend.jobs.renew([lease], longMs)).length, 1)
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('ten claimers at once get every job once', async () => {
    await using backend = await open()
    const jobs = Array.from({ length: 120 }, () => aJob())
    await backend.jobs.add(jobs)
    const taken: string[] = []
    const claimer = async (workerId: string) => {
      for (;;) {
        const claimed = await claim(backend, { workerId, limit: 5 })
        taken.push(...ids(claimed))
        // Another open claim may hide jobs for a moment. The loop ends only when the count is complete.
        if (claimed.length === 0 && taken.length >= jobs.length) return
      }
    }
    await Promise.all(Array.from({ length: 10 }, (_, i) => claimer(`w${i}`)))
    assert.deepEqual(taken.toSorted(), ids(jobs))
    for (const { attempt } of await backend.jobs.list({ limit: 200 })) assert.equal(attempt, 1)
  })

  test.runIf(sql)('two backends of one namespace share its jobs, each job to one of them', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using other = await open({ namespace })
    const jobs = Array.from({ length: 40 }, () => aJob())
    await one.jobs.add(jobs)
    const taken: string[] = []
    const drain = async (backend: typeof one) => {
      while (taken.length < jobs.length) taken.push(...ids(await claim(backend, { limit: 3 })))
    }
    await Promise.all([drain(one), drain(other), drain(one), drain(other)])
    assert.deepEqual(taken.toSorted(), ids(jobs))
  })

  test.runIf(sql)('a job that another backend adds is claimed in order within a second', async () => {
    const namespace = aNamespace()
    await using one = await open({ namespace })
    await using other = await open({ namespace })
    await one.jobs.add(Array.from({ length: 900 }, () => aJob({ payload: '0' })))
    for (let i = 0; i < 3; i++) await claim(one, { limit: 5 })
    const urgent = await addOne(other, { priority: 5 })
    await until(
      'the urgent job is handed out',
      async () => ids(await claim(one, { limit: 1 })).includes(urgent),
      1_100,
    )
  })

  test('every claim counts an attempt, and its token has a greater number', async () => {
    await using backend = await open()
    await addOne(backend)
    let last = -1n
    for (let attempt = 1; attempt <= 4; attempt++) {
      const claimed = await claimOne(backend)
      assert.equal(claimed.attempt, attempt)
      assert.ok(leaseNo(claimed.token) > last)
      last = leaseNo(claimed.token)
      assert.equal(await settleOne(backend, claimed, { state: 'ready' }), true)
    }
  })

  test('a job that another worker let lapse is claimed again, under a new lease', async () => {
    await using backend = await open()
    const first = await lapsedJob(backend)
    const second = await claimOne(backend, { workerId: 'w2' })
    assert.equal(second.id, first.id)
    assert.equal(second.attempt, 2)
    assert.equal(second.workerId, 'w2')
    assert.equal(second.runAt, first.runAt)
    assert.ok(leaseNo(second.token) > leaseNo(first.token))
  })

  test('a job whose lease expired keeps its position in the queue', async () => {
    await using backend = await open()
    const first = await lapsedJob(backend, { priority: 5, due: { runAt: 2_000 } })
    const after = await addOne(backend, { priority: 5, due: { runAt: 2_001 } })
    const before = await addOne(backend, { priority: 5, due: { runAt: 1_999 } })
    assert.deepEqual(ids(await claim(backend)), [before, first.id, after])
  })

  test('a job whose last attempt lapsed is never claimed again', async () => {
    await using backend = await open()
    await addOne(backend, { maxAttempts: 2 })
    let grants = 0
    await until('it is dead', async () => {
      const claimed = await claim(backend, { leaseMs: shortMs })
      grants += claimed.length
      const [job] = await backend.jobs.list({ limit: 1 })
      return job?.state === 'dead'
    })
    assert.deepEqual(await claim(backend), [])
    assert.equal(grants, 2)
  })

  test('a claim skips lapsed jobs of paused queues and of other kinds', async () => {
    await using backend = await open()
    const paused = await lapsedJob(backend, { queue: 'paused' })
    const unknown = await lapsedJob(backend, { kind: 'unknown' })
    await backend.jobs.pause('paused')
    assert.deepEqual(await claim(backend, { queues: ['paused', 'mail'], kinds: ['welcome'] }), [])
    assert.equal((await find(backend, paused.id)).state, 'ready')
    assert.equal((await find(backend, unknown.id)).state, 'ready')
  })

  test('a job that is added as claimed behaves like any other claimed job', async (context) => {
    await using backend = await open()
    if (backend.jobs.addClaimed === undefined) return context.skip('adds and claims apart')
    const job = aJob()
    const request = { queues: [job.queue], kinds: [job.kind], workerId: 'w', limit: 1, leaseMs: 60_000 }
    const claimed = await backend.jobs.addClaimed(job, request)
    const { state, attempt, payload, workerId } = await find(backend, job.id)
    assert.deepEqual([state, attempt, payload, workerId], ['running', 1, job.payload, 'w'])
    assert.deepEqual(await backend.jobs.claim(request), [])
    const lease = { jobId: job.id, token: claimed!.token }
    assert.equal((await backend.jobs.renew([lease], 60_000)).length, 1)
    assert.deepEqual(await backend.jobs.settle([verdictOf(claimed!)]), [true])
    assert.equal((await find(backend, job.id)).state, 'completed')
  })

  test('a job is added as claimed only when no job waits before it', async (context) => {
    await using backend = await open()
    const { jobs } = backend
    if (jobs.addClaimed === undefined) return context.skip('adds and claims apart')
    const refused = async (queue: string) => {
      const job = aJob({ queue })
      const request = { queues: [queue], kinds: [job.kind], workerId: 'w', limit: 1, leaseMs: 60_000 }
      assert.equal(await jobs.addClaimed!(job, request), undefined)
      assert.equal(await jobs.find(job.id), undefined)
    }
    await jobs.add([aJob({ queue: 'ready' })])
    await refused('ready')
    await jobs.add([aJob({ queue: 'due', due: { delayMs: 1 } })])
    await until('it is due', async () => (await jobs.list({ queue: 'due', limit: 1 }))[0]!.state === 'ready')
    await refused('due')
    await jobs.pause('paused')
    await refused('paused')
    await lapsedJob(backend, { queue: 'lapsed' })
    await refused('lapsed')
  })
}
