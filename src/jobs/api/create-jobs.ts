import { inCallerTransaction } from '../../core/caller-transaction.ts'
import { encodeError } from '../../core/describe-error.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { duration, listOf, onlyKeys, text, whole } from '../../core/options.ts'
import { absentWorkers, createMembership, createWorkerVerbs } from '../../fleet/workers/index.ts'
import { createErrorCounter, createErrorGroups, readPast } from '../attempts/attempt-reads.ts'
import { bulkVerbs } from '../bulk/bulk-operations.ts'
import { createBulkWork } from '../bulk/bulk-worker.ts'
import { decodeClaimed, decodeJob } from '../decode-job.ts'
import { createJobDependencies, resolveRefs } from '../dependencies/dependencies.ts'
import { sealedDelayMs } from '../encryption/sealed-text.ts'
import type { ClaimedJob } from '../job.ts'
import { keyTaken, leaseLost, notAList, notFound, stillRuns, tooMany } from '../job-errors.ts'
import type { Added, ClaimedRecord, NewJob, Verdict } from '../job-store.ts'
import { type Judged, judge } from '../lifecycle.ts'
import { createJobLogs } from '../logs/job-logs.ts'
import { resolveLimits } from '../queue-limits.ts'
import { createFiring } from '../schedules/schedule-runner.ts'
import { absentSchedules, createSchedules } from '../schedules/schedules.ts'
import { type ListOptions, resolveList } from '../search/list-jobs.ts'
import { listPage, type Scanned, type SearchPage, searchPage } from '../search/scan-jobs.ts'
import { countUnattended } from '../telemetry/job-activity.ts'
import { outcomeOf } from '../telemetry/telemetry.ts'
import { createWorkerCompanion } from '../upkeep.ts'
import { JobWaits, waitForJob } from '../waiting/job-waits.ts'
import { RunningJob } from '../worker/handler-job.ts'
import { createWorker, type Worker } from '../worker/worker.ts'
import {
  type AddOptions,
  checkAddOptions,
  checkJobToAdd,
  definedBy,
  isReserved,
  type JobToAdd,
  leaseSpan,
  queueName,
  resolveNewJob,
  resolveNotify,
} from './add-options.ts'
import { type AnyDefinition, isDefinition } from './define-job.ts'
import {
  checkHeld,
  type JudgedHeld,
  judgedOf,
  RecentClaims,
  resolveAck,
  resolveClaim,
  resolveNack,
} from './held-jobs.ts'
import {
  type Announcer,
  createAddBatcher,
  createAnnouncer,
  createHandover,
  type HandoverTarget,
} from './job-adder.ts'
import {
  type AddInTransaction,
  cancelTopic,
  type Ended,
  type Jobs,
  type JobsParts,
  queueTopic,
} from './jobs-api.ts'
import { checkPayloads } from './schema-check.ts'

const maxAddMany = 10_000
const pruneBatch = 1_000

/** What a service shares with the services that are created `beside` it. */
interface SharedState {
  readonly announcer: Announcer
  readonly recent: RecentClaims
  readonly waits: JobWaits
}
const sharedStates = new WeakMap<Jobs, SharedState>()

export function createJobs(parts: JobsParts): Jobs {
  const { logs, telemetry, notifier, beside, reserved = false, schedules } = parts
  const { passesSealed = false, activity, attempts } = parts
  const dependencies = createJobDependencies(parts)
  const { store } = dependencies
  const bulkParts = parts.logs && { store, notifier, logs: parts.logs, ...(activity && { activity }) }
  const worksBulk = (parts.worksBulk ?? true) && beside === undefined && !reserved
  const bulkWork = bulkParts && worksBulk ? createBulkWork(bulkParts) : undefined
  const companions = [
    schedules && createWorkerCompanion(() => createFiring({ schedules, notifier, activity })),
    dependencies.createResolver && createWorkerCompanion(dependencies.createResolver),
    attempts && createWorkerCompanion(() => createErrorCounter(attempts, activity)),
    bulkWork,
  ].filter((companion) => companion !== undefined)
  const workers = new Set<Worker & HandoverTarget>()
  const membership =
    parts.workers && parts.membership
      ? { ...parts.membership, membership: createMembership({ store: parts.workers, notifier }) }
      : undefined
  const handOver = createHandover(store, workers)
  const shared: SharedState = (beside && sharedStates.get(beside)) ?? {
    announcer: createAnnouncer(notifier),
    recent: new RecentClaims(),
    waits: parts.waits ?? new JobWaits({ look: dependencies.states, notifier }),
  }
  const { announcer, recent, waits } = shared
  const jobLogs = createJobLogs(store, logs)
  const batcher = createAddBatcher(store, activity)
  let isClosed = false

  const wakeFor = (queues: Iterable<string>) => {
    for (const queue of new Set(queues)) notifier.wake(queueTopic(queue))
  }

  const jobs: Jobs = {
    ...bulkVerbs(bulkParts, () => bulkWork?.start()),
    ...createWorkerVerbs({ store: parts.workers ?? absentWorkers, notifier }),
    ...createErrorGroups(attempts, activity),
    schedules: createSchedules({ store, notifier, schedules: schedules ?? absentSchedules }),

    async add(
      kind: string | AnyDefinition,
      payload?: unknown,
      options: AddOptions & AddInTransaction = {},
    ): Promise<Added> {
      checkAddOptions('add', options)
      const notifies = resolveNotify('add', options)
      const job = isDefinition(kind)
        ? await resolveDefined(kind, payload, options)
        : resolveNewJob('add', kind, payload, options, reserved)
      return inCallerTransaction(store, options.tx, async () => {
        if (job.dependsOn) await dependencies.checkDependencies([job], options.tx, () => 'add')
        if (telemetry === undefined) return putOne(job, options.tx, notifies)
        return (
          await telemetry.adding([job], async ([traced]) => [await putOne(traced!, options.tx, notifies)])
        )[0]!
      })
    },

    async addMany(list, options = {}) {
      onlyKeys('addMany', options, ['tx', 'notify'])
      const notifies = resolveNotify('addMany', options)
      if (!Array.isArray(list)) throw notAList(list)
      if (list.length > maxAddMany) throw tooMany(list.length, maxAddMany)
      // Not `map`, which skips holes.
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
        activity?.added(all, added)
        if (options.tx === undefined) announcer.announce(all)
        else if (notifies) await wakeAtCommit(options.tx, all)
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
      const begun: ClaimedRecord[] = []
      const refused: Verdict[] = []
      let sealed: unknown
      for (const record of records) {
        try {
          claimed.push(decodeClaimed(record, passesSealed))
          // A request that is repeated by its key gets the same claim again.
          if (recent.find(record.id, record.token) === undefined) begun.push(record)
        } catch (error) {
          // This process has no key, but another may have it: the job waits and uses up no attempt.
          if (isSignalboxError(error, 'payload_sealed')) {
            sealed = error
            refused.push(judge(record, { kind: 'snoozed', delayMs: sealedDelayMs }))
          } else refused.push(judge(record, { kind: 'threw', error: encodeError(error), dead: true }))
        }
      }
      if (refused.length > 0) await store.settle(refused)
      // Only a caller that gets no jobs at all must know why.
      if (sealed !== undefined && claimed.length === 0) throw sealed
      recent.remember(claimed)
      for (const record of begun) activity?.started(record)
      return claimed
    },

    async ack(job, options = {}) {
      // Inside a handler the worker must notice, so this is the same as `job.ack`.
      if (job instanceof RunningJob) return job.ack(options)
      const { outcome, ranMs } = resolveAck(options)
      const { id, token } = checkHeld(job)
      // A job that was claimed here needs no look-up. A nack does: it must see a cancellation request.
      return inCallerTransaction(store, options.tx, async () => {
        const judged = recent.find(id, token) ?? (await judgedOf(store, job))
        const ended = await write(judged, judge(judged, outcome, ranMs), options.tx)
        recent.forget(job.id)
        return ended
      })
    },

    async nack(job, options = {}) {
      if (job instanceof RunningJob) return job.nack(options)
      const { outcome, ranMs } = resolveNack(options)
      return inCallerTransaction(store, options.tx, async () => {
        const judged = await judgedOf(store, job)
        const known = recent.find(job.id, job.token) ?? judged
        const verdict = judge(judged, outcome, ranMs)
        // The store cancels a job that becomes ready again if that was requested. A dead job must be checked first.
        if (!judged.cancelRequested && (verdict.state !== 'dead' || !(await isCancelRequested(judged)))) {
          const ended = await write(known, verdict, options.tx)
          if (options.tx === undefined) wakeForRunnableAgain(judged, verdict)
          return ended
        }
        const error = outcome.kind === 'threw' ? outcome.error : null
        return write(known, judge(judged, { kind: 'cancelled', error }, ranMs), options.tx)
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
      const [progress, around, past] = await Promise.all([
        jobLogs.progressOf(record),
        dependencies.around(record.id),
        readPast(record.id, attempts, parts.dependencies?.store),
      ])
      return {
        ...decodeJob(record, passesSealed),
        progress,
        snoozeCount: record.snoozeCount,
        ...around,
        ...past,
      }
    },

    wait: async (id, options = {}) => waitForJob({ store, waits, passesSealed }, id, options),

    logs: jobLogs.logs,
    note: async (job, options) => jobLogs.note(checkHeld(job), options),

    async list(options: ListOptions = {}): Promise<SearchPage> {
      const { search, ...query } = resolveList(options)
      const { records, ...page } = await (search ? searchPage(store, search, query) : listPage(store, query))
      return { ...(page as Scanned), items: records.map((record) => decodeJob(record, passesSealed)) }
    },

    async cancel(id) {
      // The answer does not say whether this call ended the job.
      const before = activity && (await store.find(text('cancel.id', id)))
      const answer = await store.cancel(text('cancel.id', id))
      if (answer === undefined) throw notFound(id)
      if (before?.finishedAt === null && answer.state === 'cancelled') activity?.cancelled(before)
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
      const stats = await store.stats()
      return reserved ? stats : stats.filter(({ queue }) => !isReserved(queue))
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
      // Small batches, each in a separate transaction, so that pruning millions delays no other call.
      if (logs) await inBatches(() => logs.prune({ olderThanMs, limit: pruneBatch }))
      const pruned = await inBatches(() => store.prune({ olderThanMs, limit: pruneBatch }))
      await inBatches(() => dependencies.prune(pruneBatch))
      if (attempts) await inBatches(() => attempts.prune({ olderThanMs, limit: pruneBatch }))
      return { pruned }
    },

    async remove(ids) {
      return { removed: await store.remove(listOf('remove', ids, 'ids of jobs', { max: 1_000 }, text)) }
    },

    wake: (queue) => notifier.wake(queueTopic(queueName('wake.queue', queue, reserved))),

    worker(options) {
      if (isClosed)
        throw new SignalboxError('closed', 'This box was closed; open another and make workers there.')
      const worker = createWorker({ ...parts, store }, options, {
        membership,
        async beforeStart() {
          if (activity !== undefined && parts.workers !== undefined && membership !== undefined)
            await countUnattended(options.queues ?? ['default'], { workers: parts.workers, activity })
        },
        onStarted() {
          for (const companion of companions) companion.workerStarted(worker)
        },
        onStopped() {
          workers.delete(worker)
          for (const companion of companions) companion.workerStopped(worker)
        },
      })
      workers.add(worker)
      return worker
    },

    async [Symbol.asyncDispose]() {
      isClosed = true
      if (beside === undefined) {
        announcer.close()
        waits.close()
      }
      await Promise.all([...workers].map((worker) => worker.stop()))
      await Promise.all(companions.map((companion) => companion.close()))
    },
  }
  sharedStates.set(jobs, shared)
  return jobs

  async function putOne(job: NewJob, tx: unknown, notifies: boolean): Promise<Added> {
    if (tx !== undefined) {
      const [added] = await store.add([job], tx)
      activity?.added([job], [added!])
      if (notifies && !added!.duplicate) await wakeAtCommit(tx, [job])
      return added!
    }
    if (!job.dependsOn && batcher.isIdle && (await handOver(job))) {
      const added = { id: job.id, duplicate: false }
      activity?.added([job], [added])
      return added
    }
    const added = await batcher.add(job)
    if (!added.duplicate) announcer.announce([job])
    return added
  }

  async function wakeAtCommit(tx: unknown, added: readonly NewJob[]): Promise<void> {
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

  async function write(
    held: Omit<JudgedHeld, 'cancelRequested'>,
    verdict: Verdict,
    tx: unknown,
  ): Promise<Ended> {
    const written = tx === undefined ? (await store.settle([verdict]))[0] : await store.settleIn(tx, verdict)
    if (!written) throw leaseLost(verdict.jobId)
    const { queue, kind, claimedAt } = held
    if (activity !== undefined && queue !== undefined && kind !== undefined) {
      const ranMs = verdict.ranMs ?? (claimedAt === null ? null : performance.now() - claimedAt)
      activity.ended({ queue, kind }, outcomeOf(held, verdict), ranMs)
    }
    return { state: verdict.state }
  }

  /** The job will be ready again. Wakes workers as for a new job: the caller may be about to stop. */
  function wakeForRunnableAgain({ queue }: JudgedHeld, { state, delayMs }: Verdict): void {
    if (queue !== undefined && state !== 'dead') announcer.announce([{ queue, due: { delayMs } }])
  }

  /** Whether a cancellation was requested, by the present state of the store. */
  async function isCancelRequested({ id }: Judged): Promise<boolean> {
    return (await store.find(id))?.cancelRequested === true
  }
}

/** Repeats while a batch is full. Returns the sum. */
async function inBatches(batch: () => Promise<number>): Promise<number> {
  for (let sum = 0; ; ) {
    const count = await batch()
    sum += count
    if (count < pruneBatch) return sum
  }
}
