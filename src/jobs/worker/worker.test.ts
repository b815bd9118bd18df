/** A worker on a store that misbehaves: the memory store, with calls that fail, hang or lose their answer. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../test/support/deadline.ts'
import { inGrowingLeases } from '../../../test/support/spans.ts'
import { SignalboxError } from '../../core/errors.ts'
import { openMemory } from '../../storage/memory/index.ts'
import { createJobs } from '../api/create-jobs.ts'
import type { Jobs } from '../api/jobs-api.ts'
import type { Job } from '../job.ts'
import type { JobStore } from '../job-store.ts'

type Call = keyof JobStore

/** What a test puts before a call of the store; `next` makes the call itself. */
type Interceptor = (next: () => Promise<unknown>, name: Call) => Promise<unknown>

class Bench implements AsyncDisposable {
  readonly jobs: Jobs
  readonly calls: Call[] = []
  readonly #close: () => Promise<void>
  intercept: Interceptor = (next) => next()

  constructor(
    store: JobStore,
    notifier: Parameters<typeof createJobs>[0]['notifier'],
    close: () => Promise<void>,
  ) {
    this.#close = close
    const wrapped = new Proxy(store, {
      get:
        (target, name) =>
        (...args: unknown[]) => {
          this.calls.push(name as Call)
          const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>
          return this.intercept(() => method.apply(target, args), name as Call)
        },
    })
    this.jobs = createJobs({ store: wrapped, notifier })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.intercept = (next) => next()
    await this.jobs[Symbol.asyncDispose]()
    await this.#close()
  }
}

async function aBench(): Promise<Bench> {
  const memory = await openMemory({ namespace: 'test', migrate: true })
  return new Bench(memory.jobs, memory.notifier, () => memory.close())
}

function until(what: string, isSo: () => boolean | Promise<boolean>, limitMs = 5_000): Promise<void> {
  const look = async () => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return within(limitMs, what, look())
}

async function ended(jobs: Jobs, id: string): Promise<Job> {
  await until('the job ended', async () => ((await jobs.find(id))?.finishedAt ?? null) !== null)
  return (await jobs.find(id))!
}

const unavailable = () => new SignalboxError('store_unavailable', 'the store is down')
const never = new Promise<never>(() => undefined)

/** Intercepts only the first call of that name. */
function first(name: Call, act: (next: () => Promise<unknown>) => Promise<unknown>): Interceptor {
  let isFirst = true
  return (next, called) => {
    if (called !== name || !isFirst) return next()
    isFirst = false
    return act(next)
  }
}

test('a worker whose store fails for a while recovers, and ready resolves', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const worker = jobs.worker({ watchdogMs: 150, pollMs: 20, handlers: { mail: () => 'sent' } })
  assert.equal(worker.ready, false)
  await worker.start()
  await jobs.add('mail')
  await until('it works', () => worker.ready && worker.counts.completed === 1)
  const { id } = await jobs.add('mail', {}, { delayMs: 50 })
  let warnings = 0
  worker.on('warning', () => warnings++)
  bench.intercept = async (next, name) => {
    if (name === 'find') return next()
    throw unavailable()
  }
  await until('it says that it is not ready', () => !worker.ready)
  assert.ok(warnings > 0)
  bench.intercept = (next) => next()
  await until('it is ready again', () => worker.ready)
  assert.equal((await ended(jobs, id)).result, 'sent')
})

test('events have the job as its handler sees it', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const worker = jobs.worker({ handlers: { mail: () => 'sent' } })
  const completed = worker.once('completed')
  await worker.start()
  const { id } = await jobs.add('mail', { to: ['ada'] })
  const { job } = await completed
  assert.deepEqual([job.id, job.payload], [id, { to: ['ada'] }])
})

test('the watchdog replaces a hanging claim, and jobs that it finally returns are not lost', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const release = Promise.withResolvers<void>()
  const { id } = await jobs.add('mail', 'first')
  bench.intercept = first('claim', async (next) => {
    const claimed = await next()
    await release.promise
    return claimed
  })
  const worker = jobs.worker({ watchdogMs: 150, pollMs: 20, handlers: { mail: (job) => job.payload } })
  const warned = worker.once('warning')
  await worker.start()
  assert.match((await within(5_000, 'the watchdog', warned)).message, /jobs\.fetcher made no progress/)
  const second = await jobs.add('mail', 'second')
  assert.equal((await ended(jobs, second.id)).result, 'second')
  release.resolve()
  const job = await ended(jobs, id)
  assert.deepEqual([job.result, job.attempt], ['first', 1])
})

test('transactions of a worker end by its transactionTimeoutMs, unless one sets its own', async () => {
  await using bench = await aBench()
  const slow = () => new Promise((resolve) => setTimeout(resolve, 60))
  await using worker = bench.jobs.worker({
    transactionTimeoutMs: '20ms',
    handlers: {
      brief: (job) => job.transaction(slow),
      patient: (job) => job.transaction(slow, { timeoutMs: '5s' }),
    },
  })
  const brief = await bench.jobs.add('brief', null, { maxAttempts: 1 })
  const patient = await bench.jobs.add('patient', null, { maxAttempts: 1 })
  await worker.start()
  const { state, error } = await ended(bench.jobs, brief.id)
  assert.deepEqual([state, error?.code], ['dead', 'transaction_timeout'])
  assert.match(error!.message, /raise transactionTimeoutMs/)
  assert.equal((await ended(bench.jobs, patient.id)).state, 'completed')
  assert.throws(() => bench.jobs.worker({ handlers: { a: () => 1 }, transactionTimeoutMs: 0 }), {
    code: 'invalid_argument',
  })
})

test('a hanging renewal is repeated in time, and no lease is lost', async () => {
  await inGrowingLeases(900, async (leaseMs) => {
    await using bench = await aBench()
    const { jobs } = bench
    const done = Promise.withResolvers<void>()
    bench.intercept = first('renew', () => never)
    const worker = jobs.worker({ leaseMs, pollMs: 20, handlers: { long: () => done.promise } })
    await worker.start()
    const { id } = await jobs.add('long')
    const renewals = () => bench.calls.filter((name) => name === 'renew').length
    await until('it was renewed again', () => renewals() >= 4, 5_000 + 5 * leaseMs)
    done.resolve()
    const job = await ended(jobs, id)
    assert.deepEqual([job.state, job.attempt, worker.counts.lost], ['completed', 1, 0])
  })
}, 120_000)

test('a verdict whose answer was lost is written once and counted once', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  let runs = 0
  bench.intercept = first('settle', async (next) => {
    await next()
    throw unavailable()
  })
  const worker = jobs.worker({ pollMs: 20, handlers: { mail: () => ++runs } })
  await worker.start()
  const { id } = await jobs.add('mail')
  await until('it is counted', () => worker.counts.completed === 1)
  assert.deepEqual([(await ended(jobs, id)).state, runs, worker.counts.lost], ['completed', 1, 0])
})

test('Q13: a commit whose answer was lost is looked up, and the handler learns that it succeeded', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const answers: unknown[] = []
  bench.intercept = first('transact', async (next) => {
    await next()
    throw new SignalboxError('commit_unknown', 'the answer was lost')
  })
  const worker = jobs.worker({
    pollMs: 20,
    handlers: {
      charge: async (job) => {
        answers.push(await job.transaction(() => 'paid'))
      },
    },
  })
  await worker.start()
  const { id } = await jobs.add('charge')
  const job = await ended(jobs, id)
  await until('it is counted', () => worker.counts.completed === 1)
  assert.deepEqual([job.state, job.result, job.attempt, answers], ['completed', 'paid', 1, ['paid']])
})

test('Q13: a commit that never happened is also detected, and costs no attempt', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  bench.intercept = first('transact', () =>
    Promise.reject(new SignalboxError('commit_unknown', 'the answer was lost')),
  )
  const worker = jobs.worker({
    pollMs: 20,
    handlers: { charge: (job) => job.transaction(() => `attempt ${job.attempt}`) },
  })
  await worker.start()
  const { id } = await jobs.add('charge', {}, { maxAttempts: 1 })
  assert.equal((await ended(jobs, id)).result, 'attempt 1')
  assert.deepEqual([worker.counts.handedBack, worker.counts.lost, worker.counts.completed], [1, 0, 1])
})

test('a conflict in the database does not use up an attempt', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  bench.intercept = first('transact', () =>
    Promise.reject(new SignalboxError('transaction_conflict', 'deadlock')),
  )
  const worker = jobs.worker({
    pollMs: 20,
    handlers: { charge: (job) => job.transaction(() => `attempt ${job.attempt}`) },
  })
  await worker.start()
  const { id } = await jobs.add('charge', {}, { maxAttempts: 1 })
  assert.equal((await ended(jobs, id)).result, 'attempt 1')
  assert.deepEqual([worker.counts.handedBack, worker.counts.failed], [1, 0])
})

test('a renewal that misses a job whose transaction is committing does not lose it', async () => {
  await inGrowingLeases(300, async (leaseMs) => {
    const limitMs = 5_000 + 3 * leaseMs
    await using bench = await aBench()
    const { jobs } = bench
    const seen: unknown[] = []
    const renewals = () => bench.calls.filter((name) => name === 'renew').length
    bench.intercept = first('transact', async (next) => {
      await next()
      const before = renewals()
      await until('it was renewed', () => renewals() >= before + 2, limitMs)
    })
    const worker = jobs.worker({
      leaseMs,
      pollMs: 20,
      handlers: {
        charge: async (job, { signal }) => {
          seen.push(await job.transaction(() => 'paid'), signal.aborted)
        },
      },
    })
    await worker.start()
    const { id } = await jobs.add('charge')
    await until('the handler is told', () => seen.length === 2, limitMs)
    assert.deepEqual(seen, ['paid', false])
    assert.equal((await ended(jobs, id)).state, 'completed')
    assert.deepEqual([worker.counts.lost, worker.counts.completed], [0, 1])
  })
}, 120_000)

test('a lost lease of another job, thrown inside a transaction, fails this job and does not lose it', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const worker = jobs.worker({
    pollMs: 20,
    handlers: {
      charge: (job) => job.transaction(() => jobs.ack({ id: 'somebody-else', token: '1.0123456789abcdef' })),
    },
  })
  await worker.start()
  const { id } = await jobs.add('charge', {}, { maxAttempts: 1 })
  const job = await ended(jobs, id)
  assert.deepEqual([job.state, job.error?.code], ['dead', 'lease_lost'])
  assert.deepEqual([worker.counts.failed, worker.counts.lost], [1, 0])
})

test('an idle worker asks its store at most twice a second', async () => {
  await using bench = await aBench()
  const worker = bench.jobs.worker({ handlers: { mail: () => 'sent' } })
  const begunAt = performance.now()
  await worker.start()
  await until('it has polled twice', () => bench.calls.filter((name) => name === 'claim').length >= 3)
  const seconds = (performance.now() - begunAt) / 1_000
  // One look at the very beginning is free.
  assert.ok(bench.calls.length - 1 <= 2 * seconds, `${bench.calls.length} calls in ${seconds} s`)
})

test('long jobs are not claimed beyond the slots', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const worker = jobs.worker({ concurrency: 3, pollMs: 20, handlers: { long: () => never } })
  await jobs.addMany(Array.from({ length: 100 }, () => ({ kind: 'long' })))
  await worker.start()
  const polls = () => bench.calls.filter((name) => name === 'claim').length
  await until('all slots are taken', () => worker.load.running === 3)
  const [before, begunAt] = [polls(), performance.now()]
  await until('time has passed', () => performance.now() - begunAt > 200)
  assert.equal(worker.counts.claimed, 3)
  assert.equal(worker.load.buffered, 0)
  assert.equal(polls(), before)
  await worker.stop({ graceMs: 0 })
  assert.equal((await jobs.stats())[0]?.ready, 100)
})

test('a claim that returns while the worker stops is handed back', async () => {
  await using bench = await aBench()
  const { jobs } = bench
  await jobs.addMany([{ kind: 'mail' }, { kind: 'mail' }])
  const release = Promise.withResolvers<void>()
  bench.intercept = first('claim', async (next) => {
    const claimed = await next()
    await release.promise
    return claimed
  })
  const worker = jobs.worker({ handlers: { mail: () => 'sent' } })
  await worker.start()
  await until('it claims', () => bench.calls.includes('claim'))
  const stopped = worker.stop()
  release.resolve()
  await within(3_000, 'stopping', stopped)
  const { items } = await jobs.list()
  assert.deepEqual(
    items.map(({ state, attempt }) => [state, attempt]),
    [
      ['ready', 0],
      ['ready', 0],
    ],
  )
  assert.equal(worker.counts.handedBack, 2)
})

test("a handler that never ends blocks neither its worker's stop nor its job from another worker", async () => {
  await using bench = await aBench()
  const { jobs } = bench
  const worker = jobs.worker({ handlers: { stuck: () => never } })
  await worker.start()
  const { id } = await jobs.add('stuck')
  await until('it runs', () => worker.load.running === 1)
  const begunAt = performance.now()
  await worker.stop({ graceMs: 100 })
  assert.ok(performance.now() - begunAt < 10_000, 'long before it would have ended by itself')
  const job = await jobs.find(id)
  assert.deepEqual([job?.state, job?.attempt], ['ready', 0])
  assert.deepEqual(worker.load, { running: 0, buffered: 0, settling: 0 })
})

test('a worker that was never started stops at once, and starts no more', async () => {
  await using bench = await aBench()
  const worker = bench.jobs.worker({ handlers: { mail: () => 'sent' } })
  await worker.stop()
  await assert.rejects(worker.start(), { code: 'closed' })
  assert.throws(() => worker.stop({ graceMs: -1 }), { code: 'invalid_argument' })
})

test('a wake-up without a free slot is obeyed once a slot is free, not at the next poll', async () => {
  await using bench = await aBench()
  const { promise: isFree, resolve: free } = Promise.withResolvers<void>()
  const { promise: isAnswered, resolve: answer } = Promise.withResolvers<void>()
  let claims = 0
  // The first claim hangs, is given up by the watchdog, and finds nothing in the end: it is what makes the worker
  // believe that nothing more is likely, at a moment when the claim after it has filled all slots.
  bench.intercept = async (next, name) => {
    if (name !== 'claim' || ++claims > 1) return next()
    await isAnswered
    return []
  }
  const worker = bench.jobs.worker({
    concurrency: 2,
    prefetch: 0,
    pollMs: 3_600_000,
    watchdogMs: 100,
    handlers: { slow: () => isFree, late: () => 'at last' },
  })
  await bench.jobs.addMany([{ kind: 'slow' }, { kind: 'slow' }])
  await worker.start()
  await until('both slots are taken', () => worker.load.running === 2)
  answer()
  const { id } = await bench.jobs.add('late')
  // The wake-up has been heard by then, and there was no room.
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
  free()
  assert.equal((await ended(bench.jobs, id)).result, 'at last')
})
