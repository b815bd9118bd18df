import { invalidArgument } from '../../../core/errors.ts'
import { duration } from '../../../core/options.ts'
import {
  type Added,
  type ClaimedJob,
  type ClaimOptions,
  isReserved,
  type Job,
  type JobToAdd,
  type ListOptions,
  type NoteOptions,
  type Schedule,
  type ScheduleOptions,
  sealedFor,
} from '../../../jobs/index.ts'
import type * as wire from '../../contract/index.ts'
import type { Call, SomeHandlers } from '../call.ts'
import { hidden } from '../log/log-line.ts'
import { queueCountsOf } from '../metrics/queue-counts.ts'
import { addSealed } from '../request/given-ids.ts'
import { required } from '../request/problem.ts'
import { noRedactor, type Redactor } from '../request/redact-job.ts'
import { createJobFeed, createQueueFeed } from '../streams/row-feeds.ts'

/** The longest that a claim may wait for a job. */
const maxWaitMs = 60_000

/** Runs the wait of a claim for a job, and counts it. */
export type MeasureWait = <Result>(wait: () => Promise<Result>) => Promise<Result>

/**
 * Handlers of jobs. A body holds the arguments and options of the service in one object, so a handler does little but
 * destructure it. The service checks what the schema cannot express.
 */
export function jobHandlers(measureWait: MeasureWait): SomeHandlers {
  return {
    async addJobs({ body, jobs, space }) {
      const list = (Array.isArray(body) ? body : [body]) as readonly JobToAdd[]
      if (Array.isArray(body) || sealedFor(list[0]!.payload) !== undefined) {
        const find = (id: string) => space.stores.jobs.find(id)
        const parts = { find, addMany: jobs.addMany, isKeyed: jobs !== space.jobs }
        const items = await addSealed(list, parts)
        return { status: items.some(isNew) ? 201 : 200, body: Array.isArray(body) ? { items } : items[0]! }
      }
      const { kind, payload, ...options } = body as JobToAdd
      const added = await jobs.add(kind, payload, options)
      return { status: isNew(added) ? 201 : 200, body: added }
    },

    listJobs: async ({ query, jobs }) => ({ body: await listWithin(jobs, query) }),

    async getJob({ params: { id }, query: { waitMs = 0 }, jobs, space, signal }) {
      if (waitMs > 0) await space.jobWaits.any([id], waitMs, signal).catch(unlessAborted(signal))
      return { body: required(await jobs.find(id), noSuchJob(id)) }
    },

    async claimJobs(call) {
      const { waitMs = 0, ...options } = call.body
      const waits = duration('waitMs', waitMs, { max: maxWaitMs })
      const workers = call.space.claimingWorkers
      workers.seen(options, waits)
      const items = await (waits === 0
        ? claimAtOnce(call, options)
        : measureWait(() => claimInQueue(call, options, waits)))
      workers.claimed(options.workerId, items)
      const wanted = workers.wanted(options.workerId)
      return { body: { items, cursor: null, ...(wanted === 'run' ? {} : { wanted }) } }
    },

    async checkHeld({ body, space }) {
      const leases = body.items.map(({ id, token }) => ({ jobId: id, token }))
      if (leases.length === 0) return { body: { items: [] } }
      const store = space.stores.jobs
      const [outcomes, unwanted] = await Promise.all([store.outcomes(leases), store.cancelRequests(leases)])
      const cancelled = new Set(unwanted)
      const items = body.items.map(({ id }, index) => ({
        id,
        outcome: outcomes[index]!,
        cancelRequested: cancelled.has(id),
      }))
      return { body: { items } }
    },

    async waitForJobs({ body: { ids, waitMs = 0 }, space, signal }) {
      const ended = await space.jobWaits.any(ids, waitMs, signal).catch(unlessAborted(signal))
      // The wait may end after a look at some of the jobs, so this reads all of them.
      const states = await space.stores.dependencies.states(ids)
      const items = ids.map((id, at) => ({ id, state: ended?.get(id) ?? states[at] ?? null }))
      return { body: { items } }
    },

    async watchJob({ params: { id }, jobs, space }) {
      // Checks first, so that a client gets a 404 instead of a stream that ends at once.
      required(await jobs.find(id), noSuchJob(id))
      return { feed: space.feed(({ jobs, jobWaits }) => createJobFeed({ jobs, waits: jobWaits }, id)) }
    },

    watchQueue: async ({ params: { name }, space }) => ({
      feed: space.feed(({ queueEnds }) => createQueueFeed(queueEnds, name)),
    }),

    async ackJob({ params: { id }, body: { token, ...options }, jobs, space }) {
      const { state } = await jobs.ack({ id, token }, options)
      space.claimingWorkers.settled(id)
      return { body: { id, state } }
    },

    async nackJob({ params: { id }, body: { token, ...options }, jobs, space }) {
      const { state } = await jobs.nack({ id, token }, options)
      space.claimingWorkers.settled(id)
      return { body: { id, state } }
    },

    listErrorGroups: async ({ query, jobs }) => ({ body: await jobs.errorGroups(query) }),

    async getErrorGroup({ params: { fingerprint }, jobs }) {
      const message = `There is no group of errors "${fingerprint}": no attempt had such an error, or the last one was long ago.`
      return { body: required(await jobs.errorGroup(fingerprint), message) }
    },

    async renewJob({ params: { id }, body: { token, leaseMs }, jobs, space }) {
      const renewed = await jobs.renew({ id, token }, leaseMs)
      space.claimingWorkers.renewed(id, renewed.leaseEndsAt)
      return { body: renewed }
    },

    cancelJob: async ({ params: { id }, jobs }) => ({ body: await jobs.cancel(id) }),
    retryJob: async ({ params: { id }, jobs }) => ({ body: await jobs.retry(id) }),
    retryDeadJobs: async ({ body, jobs }) => ({ body: await jobs.retryDead(body) }),
    pruneJobs: async ({ body, jobs }) => ({ body: await jobs.prune(body) }),
    removeJobs: async ({ body, jobs }) => ({ body: await jobs.remove(body.ids) }),

    async listQueues({ query, space }) {
      const { lines, isCounting } = await queueCountsOf(space.stores).now(query.waitMs)
      const items = lines.filter(({ queue }) => !isReserved(queue))
      return { body: { items, cursor: null, ...(isCounting ? { counting: true } : {}) } }
    },

    async pauseQueue({ params: { name }, jobs, space }) {
      await changeQueue(space, jobs.pause(name))
      return { body: { queue: name, paused: true } }
    },
    async resumeQueue({ params: { name }, jobs, space }) {
      await changeQueue(space, jobs.resume(name))
      return { body: { queue: name, paused: false } }
    },
    async limitQueue({ params: { name }, body, jobs, space }) {
      return { body: { queue: name, limits: await changeQueue(space, jobs.setLimits(name, body)) } }
    },
    async unlimitQueue({ params: { name }, jobs, space }) {
      return { body: { queue: name, limits: await changeQueue(space, jobs.setLimits(name, null)) } }
    },

    async wakeQueue({ params: { name }, jobs }) {
      jobs.wake(name)
      return { body: { queue: name } }
    },
  }
}

/** Waits for a change of a queue's settings. Later readers of the counts see it. */
async function changeQueue<Result>({ stores }: Call['space'], change: Promise<Result>): Promise<Result> {
  const result = await change
  queueCountsOf(stores).forget()
  return result
}

function noSuchJob(id: string): string {
  return `There is no job "${id}": it was never added, or it was pruned.`
}

/** Ignores the error of an aborted request, whose answer has no reader. */
function unlessAborted(signal: AbortSignal): (error: unknown) => undefined {
  return (error) => {
    if (!signal.aborted) throw error
  }
}

function isQuiet({ body: { workerId }, space }: Call<{ body: wire.ClaimBody }>): boolean {
  return space.claimingWorkers.wanted(workerId) !== 'run'
}

/** Claims without a wait. Returns the jobs to the queue if the client left meanwhile. */
async function claimAtOnce(
  call: Call<{ body: wire.ClaimBody }>,
  options: ClaimOptions,
): Promise<readonly ClaimedJob[]> {
  // An operator wants the worker quiet or stopped.
  if (isQuiet(call)) return []
  const items = await call.jobs.claim(options)
  // Checks only now whether the client left, because most claims are answered at once.
  if (items.length === 0 || !call.isGone) return items
  await handBack(call, call.space.jobs, items)
  return []
}

/**
 * Returns jobs to the queue; the attempt does not count. With an Idempotency-Key, a disconnected client may repeat the
 * request and get the same jobs, so they stay claimed. But if the token ended, the client cannot repeat it.
 */
async function handBack(call: Call, jobs: Call['jobs'], given: readonly ClaimedJob[]): Promise<void> {
  if (call.key !== undefined && !call.hasLostToken) return
  await Promise.allSettled(given.map((job) => jobs.nack(job, { handBack: true })))
}

/** Waits with the other claims of the same queues, until a job is ready, the time is over or the client leaves. */
async function claimInQueue(
  call: Call<{ body: wire.ClaimBody }>,
  options: ClaimOptions,
  waitMs: number,
): Promise<readonly ClaimedJob[]> {
  const { jobs, space, signal } = call
  const { queues = ['default'], kinds } = options
  // May run after this request has left its namespace.
  const { jobs: unkeyed } = space
  const giveBack = (given: readonly ClaimedJob[]) => handBack(call, unkeyed, given)
  const request = { queues, kinds, giveBack }
  return space.longPollClaims.wait(request, waitMs, signal, async () =>
    isQuiet(call) ? [] : jobs.claim(options),
  )
}

/** A page ends early when it reaches this many characters. The cursor points to the next page. */
const maxPageChars = 4 * 1_048_576
/** Jobs are read in small parts, because each may have half a megabyte of payload and result. */
const jobsAtOnce = 25

async function listWithin(jobs: Call['jobs'], query: ListOptions): Promise<wire.JobsPage> {
  // A search counts characters itself.
  if (query.search !== undefined) return jobs.list(query)
  const { limit = 50 } = query
  const items: Job[] = []
  let { cursor } = query
  let chars = 0
  for (;;) {
    const asked = Math.min(jobsAtOnce, limit - items.length)
    const page: wire.JobsPage = await jobs.list({ ...query, limit: asked, cursor })
    items.push(...page.items)
    // A short page that is not the end: the search skipped as many internal jobs as one request may read.
    const isShort = page.items.length < asked
    if (page.cursor === null || isShort || items.length >= limit) return { ...page, items }
    chars += JSON.stringify(page.items).length
    if (chars >= maxPageChars) return { items, cursor: page.cursor }
    cursor = page.cursor
  }
}

function isNew({ duplicate }: Added): boolean {
  return !duplicate
}

export const logHandlers: SomeHandlers = {
  async logJob({ params: { id }, body: { token, attempt, ...note }, jobs }) {
    await jobs.note({ id, token, ...(attempt === undefined ? {} : { attempt }) }, note as NoteOptions)
    return { body: { id } }
  },
  jobLogs: async ({ params: { id }, query, jobs }) => ({ body: await jobs.logs(id, query) }),
}

/** Handlers of bulk operations. They call `begun` with the namespace in which an operation began. */
export function bulkHandlers(begun: (namespace: string) => void): SomeHandlers {
  return {
    async bulkJobs({ body, jobs, space }) {
      const answer = await jobs.bulk(body)
      if ('id' in answer) begun(space.namespace)
      return { status: 'id' in answer ? 202 : 200, body: answer }
    },

    listBulkOperations: async ({ query, jobs }) => ({
      body: { items: await jobs.bulkOperations(query), cursor: null },
    }),

    async getBulkOperation({ params: { id }, jobs }) {
      const message = `There is no bulk operation "${id}": it was never begun, or it was pruned.`
      return { body: required(await jobs.bulkOperation(id), message) }
    },

    cancelBulkOperation: async ({ params: { id }, jobs }) => ({ body: await jobs.cancelBulk(id) }),
  }
}

/**
 * Refuses a payload that contains the mark of hidden values: storing it would overwrite the hidden values with the
 * mark.
 */
function refuseHidden(payload: unknown, redactor: Pick<Redactor, 'payload'>): void {
  if (redactor === noRedactor || !JSON.stringify(payload ?? null).includes(JSON.stringify(hidden))) return
  throw invalidArgument(
    `schedule.job.payload holds "${hidden}", which stands for a hidden value. Send the value itself.`,
    'schedule.job.payload',
  )
}

/** Handlers of schedules. They hide values of the payloads of their jobs, as the handlers of jobs do. */
export function scheduleHandlers(redactor: Pick<Redactor, 'payload'>): SomeHandlers {
  const shown = (schedule: Schedule): Schedule => {
    const { job } = schedule
    return { ...schedule, job: { ...job, payload: redactor.payload(job.payload) } }
  }
  return {
    async setSchedule({ body: { name, ...options }, jobs }) {
      refuseHidden(options.job.payload, redactor)
      // The service checks that cron and everyMs exclude each other.
      return { body: shown(await jobs.schedules.set(name, options as unknown as ScheduleOptions)) }
    },
    async listSchedules({ query, jobs }) {
      const { items, ...page } = await jobs.schedules.list(query)
      return { body: { ...page, items: items.map(shown) } }
    },
    async getSchedule({ params: { name }, jobs }) {
      const message = `There is no schedule "${name}": it was never set, or it was removed.`
      return { body: shown(required(await jobs.schedules.find(name), message)) }
    },
    removeSchedule: async ({ params, jobs }) => ({
      body: { removed: await jobs.schedules.remove(params.name) },
    }),
    pauseSchedule: async ({ params, jobs }) => ({ body: shown(await jobs.schedules.pause(params.name)) }),
    resumeSchedule: async ({ params, jobs }) => ({ body: shown(await jobs.schedules.resume(params.name)) }),
    async runSchedule({ params, jobs }) {
      const added = await jobs.schedules.run(params.name)
      return { status: added.duplicate ? 200 : 201, body: added }
    },
  }
}
