import { inCallerTransaction } from '../../core/caller-transaction.ts'
import { encodeError } from '../../core/describe-error.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { duration, onlyKeys, text, whole } from '../../core/options.ts'
import { bulkVerbs } from '../bulk/bulk-operations.ts'
import { createBulkWork } from '../bulk/bulk-worker.ts'
import { decodeClaimed, decodeJob } from '../decode-job.ts'
import { createJobDependencies } from '../dependencies/dependencies.ts'
import { resolveRefs } from '../dependencies/list-references.ts'
import { sealedDelayMs } from '../encryption/sealed-text.ts'
import type { ClaimedJob } from '../job.ts'
import { keyTaken, leaseLost, notAList, notFound, stillRuns, tooMany } from '../job-errors.ts'
import type { Added, NewJob, Verdict } from '../job-store.ts'
import { cancelTopic, type JobsParts, queueTopic } from '../jobs-parts.ts'
import { backoffDefaults, type Judged, judge } from '../lifecycle.ts'
import { createJobLogs } from '../logs/job-logs.ts'
import { resolveLimits } from '../queue-limits.ts'
import { createFiring } from '../schedules/schedule-runner.ts'
import { absentSchedules, createSchedules } from '../schedules/schedules.ts'
import type { Scanned } from '../search/scan-jobs.ts'
import { type SearchPage, searchPage } from '../search/search.ts'
import { RunningJob } from '../worker/handler-job.ts'
import { createWorker, type Worker } from '../worker/worker.ts'
import { createWorkersLoop } from '../worker/workers-loop.ts'
import { createAddBatcher } from './add-batcher.ts'
import {
  type AddOptions,
  checkAddOptions,
  checkJobToAdd,
  definedBy,
  isReserved,
  type JobToAdd,
  type ListOptions,
  leaseSpan,
  queueName,
  resolveAck,
  resolveClaim,
  resolveIds,
  resolveList,
  resolveNack,
  resolveNewJob,
  resolveNotify,
} from './add-options.ts'
import { type Announcer, createAnnouncer } from './announcer.ts'
import { type AnyDefinition, isDefinition } from './define-job.ts'
import { checkHeld, type JudgedHeld, judgedOf } from './held-jobs.ts'
import { createHandover, type Taker } from './idle-worker-handover.ts'
import type { AddInTransaction, Ended, Jobs } from './jobs-api.ts'
import { listPage } from './list-page.ts'
import { checkPayloads } from './payload-checks.ts'
import { RecentClaims } from './recent-claims.ts'

const maxAddMany = 10_000
const pruneBatch = 1_000

/** What a service knows, so that another one beside it can share it. */
interface Knowledge {
  readonly announcer: Announcer
  readonly recent: RecentClaims
}
const knowledge = new WeakMap<Jobs, Knowledge>()

export function createJobs(parts: JobsParts): Jobs {
  const { logs, telemetry, notifier, beside, reserved = false, contention, clock, schedules } = parts
  const { passesSealed = false } = parts
  const dependencies = createJobDependencies(parts)
  const { store } = dependencies
  const bulkParts = parts.logs && { store, notifier, logs: parts.logs }
  const worksBulk = (parts.worksBulk ?? true) && beside === undefined && !reserved
  const bulkWork = bulkParts && worksBulk ? createBulkWork(bulkParts) : undefined
  const loops = [
    ...(schedules ? [createWorkersLoop(() => createFiring({ schedules, notifier }))] : []),
    ...(dependencies.createResolver ? [createWorkersLoop(dependencies.createResolver)] : []),
  ]
  const workers = new Set<Worker & Taker>()
  const handover = createHandover(store, workers)
  const known: Knowledge = (beside && knowledge.get(beside)) ?? {
    announcer: createAnnouncer(notifier),
    recent: new RecentClaims(),
  }
  const { announcer, recent } = known
  const noted = createJobLogs(store, logs)
  const batcher = createAddBatcher(store)
  let isClosed = false

  const wakeFor = (queues: Iterable<string>) => {
    for (const queue of new Set(queues)) notifier.wake(queueTopic(queue))
  }

  const jobs: Jobs = {
    ...bulkVerbs(bulkParts, () => bulkWork?.start()),
    schedules: createSchedules({ store, notifier, schedules: schedules ?? absentSchedules }),

    async add(
      kind: string | AnyDefinition,
      payload?: unknown,
      options: AddOptions & AddInTransaction = {},
    ): Promise<Added> {
      checkAddOptions('add', options)
      const tells = resolveNotify('add', options)
      const job = isDefinition(kind)
        ? await resolveDefined(kind, payload, options)
        : resolveNewJob('add', kind, payload, options, reserved)
      return inCallerTransaction(store, options.tx, async () => {
        if (job.dependsOn) await dependencies.checkDependencies([job], options.tx, () => 'add')
        if (telemetry === undefined) return putOne(job, options.tx, tells)
        return (
          await telemetry.adding([job], async ([traced]) => [await putOne(traced!, options.tx, tells)])
        )[0]!
      })
    },

    async addMany(list, options = {}) {
      onlyKeys('addMany', options, ['tx', 'notify'])
      const tells = resolveNotify('addMany', options)
      if (!Array.isArray(list)) throw notAList(list)
      if (list.length > maxAddMany) throw tooMany(list.length, maxAddMany)
      // Not `map`, which leaves holes as they are.
      const given = Array.from(list as readonly JobToAdd[], (job, index) => {
        const name = `addMany[${index}]`
        checkJobToAdd(name, job)
        return resolveNewJob(name, job.kind, job.payload, job, reserved)
      })
      if (given.length === 0) return []
      const refs = Array.from(list as readonly JobToAdd[], ({ ref }) => ref)
      const records = resolveRefs('addMany', refs, given)
      const schemas = Array.from(list as readonly JobToAdd[], (job) => job[definedBy])
      const put = async (all: readonly NewJob[]) => {
        const added = await store.add(all, options.tx)
        if (options.tx === undefined) announcer.announce(all)
        else if (tells) await tellAtCommit(options.tx, all)
        return added
      }
      return inCallerTransaction(store, options.tx, async () => {
        await dependencies.checkDependencies(records, options.tx, (at) => `addMany[${at}]`)
        await checkPayloads(schemas, records)
        return telemetry === undefined ? put(records) : telemetry.adding(records, put)
      })
    },

    async claim(options = {}) {
      const records = await store.claim(resolveClaim(options))
      const claimed: ClaimedJob[] = []
      const parked: Verdict[] = []
      let sealed: unknown
      for (const record of records) {
        try {
          claimed.push(decodeClaimed(record, passesSealed))
        } catch (error) {
          const judged = { ...record, backoff: backoffDefaults }
          // Somebody else may have the key: it waits for them and burns no attempt.
          if (isSignalboxError(error, 'payload_sealed')) {
            sealed = error
            parked.push(judge(judged, { kind: 'snoozed', delayMs: sealedDelayMs }))
          } else parked.push(judge(judged, { kind: 'threw', error: encodeError(error), dead: true }))
        }
      }
      if (parked.length > 0) await store.settle(parked)
      // Whoever gets others is not held up; whoever gets none has to know why.
      if (sealed !== undefined && claimed.length === 0) throw sealed
      recent.remember(claimed)
      return claimed
    },

    async ack(job, options = {}) {
      // In a handler its worker must know of it, as if the job itself had been asked.
      if (job instanceof RunningJob) return job.ack(options)
      const { outcome, ranMs } = resolveAck(options)
      const { id, token } = checkHeld(job)
      // Where it was claimed here nothing has to be asked; a nack must also know of a cancellation request.
      return inCallerTransaction(store, options.tx, async () => {
        const judged = recent.find(id, token) ?? (await judgedOf(store, job))
        const ended = await write(judge(judged, outcome, ranMs), options.tx)
        recent.forget(job.id)
        return ended
      })
    },

    async nack(job, options = {}) {
      if (job instanceof RunningJob) return job.nack(options)
      const { outcome, ranMs } = resolveNack(options)
      return inCallerTransaction(store, options.tx, async () => {
        const judged = await judgedOf(store, job)
        const verdict = judge(judged, outcome, ranMs)
        // Where it would come back the store ends it itself when that was asked for; death must ask first.
        if (!judged.cancelRequested && (verdict.state !== 'dead' || !(await isUnwanted(judged)))) {
          const ended = await write(verdict, options.tx)
          if (options.tx === undefined) comesBack(judged, verdict)
          return ended
        }
        const error = outcome.kind === 'threw' ? outcome.error : null
        return write(judge(judged, { kind: 'cancelled', error }, ranMs), options.tx)
      })
    },

    async renew(job, leaseMs = 30_000) {
      const { id, token } = checkHeld(job)
      const [renewal] = await store.renew([{ jobId: id, token }], leaseSpan('renew.leaseMs', leaseMs))
      if (renewal === undefined) throw leaseLost(id)
      return { leaseEndsAt: renewal.leaseEndsAt, cancelRequested: renewal.cancelRequested }
    },

    async find(id) {
      const record = await store.find(text('find.id', id))
      if (record === undefined) return undefined
      const [progress, around] = await Promise.all([noted.progressOf(record), dependencies.around(record.id)])
      return {
        ...decodeJob(record, passesSealed),
        progress,
        snoozeCount: record.snoozeCount,
        ...around,
      }
    },

    logs: noted.logs,
    note: async (job, options) => noted.note(checkHeld(job), options),

    async list(options: ListOptions = {}): Promise<SearchPage> {
      const { search, ...query } = resolveList(options)
      const { records, ...page } = await (search ? searchPage(store, search, query) : listPage(store, query))
      return { ...(page as Scanned), items: records.map((record) => decodeJob(record, passesSealed)) }
    },

    async cancel(id) {
      const answer = await store.cancel(text('cancel.id', id))
      if (answer === undefined) throw notFound(id)
      if (answer.cancelRequested) notifier.wake(cancelTopic)
      return answer
    },

    async retry(id) {
      const answer = await store.retry(text('retry.id', id))
      if (answer === undefined) throw notFound(id)
      if (answer.outcome === 'running') throw stillRuns(id)
      if (answer.outcome === 'taken') throw keyTaken(id)
      const record = await store.find(id)
      if (record !== undefined) notifier.wake(queueTopic(record.queue))
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
        wakeFor(queue === undefined ? (await store.stats()).map((line) => line.queue) : [queue])
      return { retried }
    },

    async stats() {
      const lines = await store.stats()
      return reserved ? lines : lines.filter(({ queue }) => !isReserved(queue))
    },
    pause: async (queue) => store.pause(text('pause.queue', queue)),

    async setLimits(queue, limits) {
      const name = queueName('limit.queue', queue)
      const resolved = limits === null ? null : resolveLimits('setLimits', limits)
      await store.setLimits(name, resolved)
      notifier.wake(queueTopic(name))
      return resolved
    },

    async resume(queue) {
      await store.resume(text('resume.queue', queue))
      notifier.wake(queueTopic(queue))
    },

    async prune(options) {
      onlyKeys('prune', options, ['olderThanMs'])
      const olderThanMs = duration('prune.olderThanMs', options.olderThanMs)
      await noted.prune(olderThanMs)
      // In small bites, each a transaction of its own, so that pruning millions holds nobody up.
      const pruned = await inBites(() => store.prune({ olderThanMs, limit: pruneBatch }))
      await inBites(() => dependencies.prune(pruneBatch))
      return { pruned }
    },

    async remove(ids) {
      return { removed: await store.remove(resolveIds('remove', ids)) }
    },

    wake: (queue) => notifier.wake(queueTopic(queueName('wake.queue', queue, reserved))),

    worker(options) {
      // Nobody would stop it any more.
      if (isClosed)
        throw new SignalboxError('closed', 'This box was closed; open another and make workers there.')
      const own = {
        ...{ store, notifier, reserved },
        ...(logs && { logs }),
        ...(telemetry && { telemetry }),
        ...(contention && { contention }),
        ...(clock && { clock }),
      }
      const worker = createWorker(own, options, () => {
        workers.delete(worker)
        for (const loop of loops) loop.leave(worker)
        bulkWork?.leave(worker)
      })
      workers.add(worker)
      for (const loop of loops) loop.join(worker)
      bulkWork?.join(worker)
      return worker
    },

    async [Symbol.asyncDispose]() {
      isClosed = true
      if (beside === undefined) announcer.close()
      await Promise.all([...workers].map((worker) => worker.stop()))
      await Promise.all(loops.map((loop) => loop.close()))
      await bulkWork?.close()
    },
  }
  knowledge.set(jobs, known)
  return jobs

  async function putOne(job: NewJob, tx: unknown, tells: boolean): Promise<Added> {
    if (tx !== undefined) {
      const [added] = await store.add([job], tx)
      if (tells && !added!.duplicate) await tellAtCommit(tx, [job])
      return added!
    }
    if (!job.dependsOn && batcher.isIdle && (await handover.tryTo(job)))
      return { id: job.id, duplicate: false }
    const added = await batcher.add(job)
    if (!added.duplicate) announcer.announce([job])
    return added
  }

  async function tellAtCommit(tx: unknown, added: readonly NewJob[]): Promise<void> {
    const queues = new Set(added.map(({ queue }) => queue))
    await notifier.wakeAtCommit?.(tx, [...queues].map(queueTopic))
  }

  async function resolveDefined(
    definition: AnyDefinition,
    payload: unknown,
    { tx: _, notify: __, ...options }: AddOptions & AddInTransaction,
  ): Promise<NewJob> {
    const job = definition.job(payload, options)
    const record = resolveNewJob('add', job.kind, job.payload, job, reserved)
    await job[definedBy]?.('add', record.payload)
    return record
  }

  async function write(verdict: Verdict, tx: unknown): Promise<Ended> {
    const took = tx === undefined ? (await store.settle([verdict]))[0] : await store.settleIn(tx, verdict)
    if (!took) throw leaseLost(verdict.jobId)
    return { state: verdict.state }
  }

  /** Workers elsewhere hear of it as of a new job: whoever gave it back may be about to leave. */
  function comesBack({ queue }: JudgedHeld, { state, delayMs }: Verdict): void {
    if (queue !== undefined && state !== 'dead') announcer.announce([{ queue, due: { delayMs } }])
  }

  /** Whether somebody wants it cancelled, as the store knows it now. */
  async function isUnwanted({ id }: Judged): Promise<boolean> {
    return (await store.find(id))?.cancelRequested === true
  }
}

/** As often as there is a whole bite; answers how much it was. */
async function inBites(bite: () => Promise<number>): Promise<number> {
  for (let sum = 0; ; ) {
    const count = await bite()
    sum += count
    if (count < pruneBatch) return sum
  }
}
