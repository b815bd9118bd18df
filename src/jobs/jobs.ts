import { SignalboxError } from '../core/errors.ts'
import { encodeError } from '../core/failure.ts'
import { duration, onlyKeys, text, whole } from '../core/options.ts'
import { type AddBatcher, createAddBatcher } from './addbatch.ts'
import { type Announcer, createAnnouncer } from './announce.ts'
import { decodeBackoff, decodeClaimed, decodeJob } from './decode.ts'
import { RunningJob } from './handlerjob.ts'
import { createHandover, type Taker } from './handover.ts'
import type { ClaimedJob, Job } from './job.ts'
import { backoffDefaults, type Judged, judge } from './lifecycle.ts'
import { listPage } from './listpage.ts'
import {
  type AddOptions,
  type ClaimOptions,
  checkAddOptions,
  checkJobToAdd,
  isReserved,
  type JobToAdd,
  type ListOptions,
  leaseSpan,
  queueName,
  resolveAck,
  resolveClaim,
  resolveList,
  resolveNack,
  resolveNewJob,
} from './options.ts'
import { cancelTopic, type JobsParts, queueTopic } from './parts.ts'
import { RecentClaims } from './recentclaims.ts'
import { leaseLost } from './refusals.ts'
import type { Added, CancelAnswer, QueueStats, Verdict } from './store.ts'
import { createWorker, type Worker } from './worker.ts'
import type { WorkerOptions } from './workeroptions.ts'

/**
 * The verbs of the room: what users, the server and the command line say to jobs. Options become plain records here,
 * the store writes them, the bell rings after the commit.
 */
export interface Jobs extends AsyncDisposable {
  /** Puts one job in line. With `tx`, in that transaction of yours: it exists when you commit. */
  add(kind: string, payload?: unknown, options?: AddOptions & InTransaction): Promise<Added>
  /** Puts many in line, all or none; answers in order. */
  addMany(jobs: readonly JobToAdd[], options?: InTransaction): Promise<readonly Added[]>
  /** Takes due jobs in hand, each under a lease. */
  claim(options?: ClaimOptions): Promise<readonly ClaimedJob[]>
  /** The job is done. Throws `lease_lost` when it is not yours any more; then nothing was written. */
  ack(job: Held, options?: AckOptions): Promise<Ended>
  /**
   * The job failed: back in line after its back-off, or dead when no attempts are left; cancelled when that was asked
   * for. Answers which. Throws `lease_lost`.
   */
  nack(job: Held, options?: NackOptions): Promise<Ended>
  /** Keeps the job for another `leaseMs`; answers when that ends. Throws `lease_lost`. */
  renew(job: Held, leaseMs?: number | string): Promise<{ leaseEndsAt: number; cancelRequested: boolean }>
  find(id: string): Promise<Job | undefined>
  /**
   * A page of jobs, newest first. `cursor` is null at the end. Jobs of Signalbox's own queues are left out unless their
   * queue is named; where there are very many of them a page may come short, and its cursor goes on.
   */
  list(options?: ListOptions): Promise<{ items: readonly Job[]; cursor: string | null }>
  /** Ends a job that is not running, and asks the worker of one that is. Throws `not_found`. */
  cancel(id: string): Promise<CancelAnswer>
  /** Makes a job that ended ready again, with attempt 0. Throws `not_found`, `conflict`. */
  retry(id: string): Promise<{ id: string; state: 'ready' }>
  /** `retry` for dead jobs, oldest first; answers how many. */
  retryDead(options?: { queue?: string; kind?: string; limit?: number }): Promise<{ retried: number }>
  /** By queue, without Signalbox's own (`signalbox.…`). */
  stats(): Promise<readonly QueueStats[]>
  /** Nothing of the queue is handed out until it is resumed; what runs goes on. */
  pause(queue: string): Promise<void>
  resume(queue: string): Promise<void>
  /** Forgets jobs that ended longer ago than that; answers how many. */
  prune(options: { olderThanMs: number | string }): Promise<{ pruned: number }>
  /** Tells waiting workers to look now; for jobs added in a transaction of yours, after its commit. */
  wake(queue: string): void
  /** A worker on this store. It does nothing until it is started; closing the box stops it. */
  worker(options: WorkerOptions): Worker
}

/** What a claim was answered with; id and token are enough. */
export type Held = Pick<ClaimedJob, 'id' | 'token'> & Partial<ClaimedJob>

export interface InTransaction {
  /** Your own open transaction on the same database. */
  readonly tx?: unknown
}

export interface AckOptions extends InTransaction {
  /** Kept with the job: any JSON value. */
  readonly result?: unknown
  /** How long the handler ran, so that `startedAt` is its real start. @default since the claim */
  readonly ranMs?: number | undefined
}

export interface NackOptions extends InTransaction {
  /** Why; anything that was thrown, or text. */
  readonly error?: unknown
  /** Overrules the job's back-off. */
  readonly retryInMs?: number | string | undefined
  /** No further attempt. */
  readonly dead?: boolean | undefined
  /** Back in line at once without burning an attempt, as a stopping worker does; ten times a job, then it counts. */
  readonly handBack?: boolean | undefined
  /** How long the handler ran, so that `startedAt` is its real start. @default since the claim */
  readonly ranMs?: number | undefined
}

/** How an attempt ended: the state its job is in now. */
export interface Ended {
  readonly state: Verdict['state']
}

const maxAddMany = 10_000
const pruneBatch = 1_000

/** What a service knows, so that another one beside it can share it. */
interface Knowledge {
  readonly announcer: Announcer
  readonly recent: RecentClaims
}
const knowledge = new WeakMap<Jobs, Knowledge>()

export function createJobs({ store, bell, beside, reserved = false, contention }: JobsParts): Jobs {
  const workers = new Set<Worker & Taker>()
  const handover = createHandover(store, workers)
  const known: Knowledge = (beside && knowledge.get(beside)) ?? {
    announcer: createAnnouncer(bell),
    recent: new RecentClaims(),
  }
  const { announcer, recent } = known
  const batcher: AddBatcher = createAddBatcher(store)
  let isClosed = false

  const ringFor = (queues: Iterable<string>) => {
    for (const queue of new Set(queues)) bell.ring(queueTopic(queue))
  }

  const jobs: Jobs = {
    async add(kind, payload, options = {}) {
      checkAddOptions('add', options)
      const job = resolveNewJob('add', kind, payload, options, reserved)
      if (options.tx !== undefined) return (await store.add([job], options.tx))[0]!
      if (batcher.isIdle && (await handover.tryTo(job))) return { id: job.id, duplicate: false }
      const added = await batcher.add(job)
      if (!added.duplicate) announcer.announce([job])
      return added
    },

    async addMany(list, options = {}) {
      onlyKeys('addMany', options, ['tx'])
      if (!Array.isArray(list)) throw notAList(list)
      if (list.length > maxAddMany) throw tooMany(list.length)
      // Not `map`, which leaves holes as they are.
      const records = Array.from(list as readonly JobToAdd[], (job, index) => {
        const name = `addMany[${index}]`
        checkJobToAdd(name, job)
        return resolveNewJob(name, job.kind, job.payload, job, reserved)
      })
      if (records.length === 0) return []
      const added = await store.add(records, options.tx)
      if (options.tx === undefined) announcer.announce(records)
      return added
    },

    async claim(options = {}) {
      const records = await store.claim(resolveClaim(options))
      const claimed: ClaimedJob[] = []
      const parked: Verdict[] = []
      for (const record of records) {
        try {
          claimed.push(decodeClaimed(record))
        } catch (error) {
          const judged = { ...record, backoff: backoffDefaults }
          parked.push(judge(judged, { kind: 'threw', error: encodeError(error), dead: true }))
        }
      }
      if (parked.length > 0) await store.settle(parked)
      recent.remember(claimed)
      return claimed
    },

    async ack(job, options = {}) {
      // In a handler its worker must know of it, as if the job itself had been asked.
      if (job instanceof RunningJob) return job.ack(options)
      const { outcome, ranMs } = resolveAck(options)
      const ended = await write(judge(knownOf(job) ?? (await judgedOf(job)), outcome, ranMs), options.tx)
      recent.forget(job.id)
      return ended
    },

    async nack(job, options = {}) {
      if (job instanceof RunningJob) return job.nack(options)
      const { outcome, ranMs } = resolveNack(options)
      const judged = await judgedOf(job)
      const verdict = judge(judged, outcome, ranMs)
      // Where it would come back the store ends it itself when that was asked for; death must ask first.
      if (!judged.cancelRequested && (verdict.state !== 'dead' || !(await isUnwanted(judged)))) {
        return write(verdict, options.tx)
      }
      const error = outcome.kind === 'threw' ? outcome.error : null
      return write(judge(judged, { kind: 'cancelled', error }, ranMs), options.tx)
    },

    async renew(job, leaseMs = 30_000) {
      const { id, token } = held(job)
      const [renewal] = await store.renew([{ jobId: id, token }], leaseSpan('renew.leaseMs', leaseMs))
      if (renewal === undefined) throw leaseLost(id)
      return { leaseEndsAt: renewal.leaseEndsAt, cancelRequested: renewal.cancelRequested }
    },

    async find(id) {
      const record = await store.find(text('find.id', id))
      return record && decodeJob(record)
    },

    async list(options = {}) {
      const { records, cursor } = await listPage(store, resolveList(options))
      return { items: records.map(decodeJob), cursor }
    },

    async cancel(id) {
      const answer = await store.cancel(text('cancel.id', id))
      if (answer === undefined) throw notFound(id)
      if (answer.cancelRequested) bell.ring(cancelTopic)
      return answer
    },

    async retry(id) {
      const answer = await store.retry(text('retry.id', id))
      if (answer === undefined) throw notFound(id)
      if (answer.outcome === 'running') throw stillRuns(id)
      if (answer.outcome === 'taken') throw keyTaken(id)
      const record = await store.find(id)
      if (record !== undefined) bell.ring(queueTopic(record.queue))
      return { id, state: 'ready' }
    },

    async retryDead(options = {}) {
      onlyKeys('retryDead', options, ['queue', 'kind', 'limit'])
      const { queue, kind, limit = 1_000 } = options
      const retried = await store.retryDead({
        ...(queue === undefined ? {} : { queue: text('retryDead.queue', queue) }),
        ...(kind === undefined ? {} : { kind: text('retryDead.kind', kind) }),
        limit: whole('retryDead.limit', limit, { min: 1, max: 10_000 }),
      })
      if (retried > 0)
        ringFor(queue === undefined ? (await store.stats()).map((line) => line.queue) : [queue])
      return { retried }
    },

    async stats() {
      const lines = await store.stats()
      return reserved ? lines : lines.filter(({ queue }) => !isReserved(queue))
    },
    pause: async (queue) => store.pause(text('pause.queue', queue)),

    async resume(queue) {
      await store.resume(text('resume.queue', queue))
      bell.ring(queueTopic(queue))
    },

    async prune(options) {
      onlyKeys('prune', options, ['olderThanMs'])
      const olderThanMs = duration('prune.olderThanMs', options.olderThanMs)
      // In small bites, each a transaction of its own, so that pruning millions holds nobody up.
      for (let pruned = 0; ; ) {
        const bite = await store.prune({ olderThanMs, limit: pruneBatch })
        pruned += bite
        if (bite < pruneBatch) return { pruned }
      }
    },

    wake: (queue) => bell.ring(queueTopic(queueName('wake.queue', queue, reserved))),

    worker(options) {
      // Nobody would stop it any more.
      if (isClosed)
        throw new SignalboxError('closed', 'This box was closed; open another and make workers there.')
      const own = { store, bell, reserved, ...(contention && { contention }) }
      const worker = createWorker(own, options, () => workers.delete(worker))
      workers.add(worker)
      return worker
    },

    async [Symbol.asyncDispose]() {
      isClosed = true
      if (beside === undefined) announcer.close()
      await Promise.all([...workers].map((worker) => worker.stop()))
    },
  }
  knowledge.set(jobs, known)
  return jobs

  async function write(verdict: Verdict, tx: unknown): Promise<Ended> {
    const took = tx === undefined ? (await store.settle([verdict]))[0] : await store.settleIn(tx, verdict)
    if (!took) throw leaseLost(verdict.jobId)
    return { state: verdict.state }
  }

  /** What judging an ack needs, where the job was claimed here; a nack must also know of a wish to cancel. */
  function knownOf(job: Held): Judged | undefined {
    const { id, token } = held(job)
    return recent.find(id, token)
  }

  /** What judging needs; from the job itself, or from the store when only id and token were kept. */
  async function judgedOf(job: Held): Promise<JudgedHeld> {
    const { id, token } = held(job)
    const { attempt, maxAttempts, freeCount, backoff, cancelRequested = false } = job
    if (
      attempt !== undefined &&
      maxAttempts !== undefined &&
      freeCount !== undefined &&
      backoff !== undefined
    ) {
      return { id, token, attempt, maxAttempts, freeCount, backoff, cancelRequested }
    }
    // But for the wish to cancel, none of these change while the lease lives, and without it nothing is written. So
    // any will do for a job that is gone, and what becomes of the verdict is the store's to say: a request made twice
    // gets its first answer, everyone else `lease_lost`.
    const record = (await store.find(id)) ?? gone
    return {
      id,
      token,
      attempt: record.attempt,
      maxAttempts: record.maxAttempts,
      freeCount: record.freeCount,
      backoff: decodeBackoff(record.backoff),
      cancelRequested: record.cancelRequested,
    }
  }

  /** Whether somebody wants it cancelled, as the store knows it now. */
  async function isUnwanted({ id }: Judged): Promise<boolean> {
    return (await store.find(id))?.cancelRequested === true
  }
}

interface JudgedHeld extends Judged {
  readonly cancelRequested: boolean
}

const gone = { attempt: 1, maxAttempts: 1, freeCount: 0, backoff: null, cancelRequested: false }

function held(job: Held): Held {
  if (typeof job !== 'object' || job === null || typeof job.token !== 'string') {
    throw new SignalboxError(
      'invalid_argument',
      'This is not a claimed job: it needs the id and token that claim gave.',
    )
  }
  text('job.id', job.id)
  return job
}

function notFound(id: string): SignalboxError {
  return new SignalboxError('not_found', `There is no job "${id}": it was never added, or it was pruned.`)
}

function stillRuns(id: string): SignalboxError {
  return new SignalboxError('conflict', `Job "${id}" is running; cancel it first, or wait until it ends.`)
}

function keyTaken(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `Job "${id}" cannot be retried: another live job has its unique key now.`,
  )
}

function notAList(value: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `addMany takes a list of jobs, not ${value === null ? 'null' : typeof value}.`,
  )
}

function tooMany(count: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `addMany takes up to ${maxAddMany} jobs at once, not ${count}. Add them in parts.`,
  )
}
