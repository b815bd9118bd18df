import { SignalboxError } from '../../../core/errors.ts'
import { duration } from '../../../core/options.ts'
import {
  type Added,
  type ClaimedJob,
  type ClaimOptions,
  isReserved,
  type Job,
  type JobToAdd,
  type NoteOptions,
  sealedFor,
} from '../../../jobs/index.ts'
import type * as wire from '../../contract/index.ts'
import type { Call, Handler } from '../call.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { queueCountsOf } from '../metrics/queue-counts.ts'
import { addSealed } from '../request/given-ids.ts'

/**
 * The routes of jobs, by their ids. A body is the service's own arguments and options in one object, so a handler does
 * little but take it apart; what the schema lets through and the service does not is refused by the service.
 */
export interface JobHandlers {
  readonly addJobs: Handler<typeof wire.addJobs>
  readonly listJobs: Handler<typeof wire.listJobs>
  readonly getJob: Handler<typeof wire.getJob>
  readonly claimJobs: Handler<typeof wire.claimJobs>
  readonly checkHeld: Handler<typeof wire.checkHeld>
  readonly ackJob: Handler<typeof wire.ackJob>
  readonly nackJob: Handler<typeof wire.nackJob>
  readonly renewJob: Handler<typeof wire.renewJob>
  readonly cancelJob: Handler<typeof wire.cancelJob>
  readonly retryJob: Handler<typeof wire.retryJob>
  readonly retryDeadJobs: Handler<typeof wire.retryDeadJobs>
  readonly pruneJobs: Handler<typeof wire.pruneJobs>
  readonly removeJobs: Handler<typeof wire.removeJobs>
  readonly listQueues: Handler<typeof wire.listQueues>
  readonly pauseQueue: Handler<typeof wire.pauseQueue>
  readonly resumeQueue: Handler<typeof wire.resumeQueue>
  readonly limitQueue: Handler<typeof wire.limitQueue>
  readonly unlimitQueue: Handler<typeof wire.unlimitQueue>
  readonly wakeQueue: Handler<typeof wire.wakeQueue>
}

/** The longest that a claim may wait for a job. */
const maxWaitMs = 60_000

/** Who counts what passes. */
export type JobMeterPart = Pick<Metrics, 'added' | 'claimWaits' | 'claimWaited' | 'claimed' | 'settled'>

export function jobHandlers(meter: JobMeterPart): JobHandlers {
  return {
    async addJobs({ body, jobs, space, principal }) {
      const list = (Array.isArray(body) ? body : [body]) as readonly JobToAdd[]
      if (Array.isArray(body) || sealedFor(list[0]!.payload) !== undefined) {
        const find = (id: string) => space.stores.jobs.find(id)
        const parts = { find, addMany: jobs.addMany, isKeyed: jobs !== space.jobs }
        const items = await addSealed(list, parts)
        meter.added(principal.namespace, items.filter(isNew).length)
        return { status: items.some(isNew) ? 201 : 200, body: Array.isArray(body) ? { items } : items[0]! }
      }
      const { kind, payload, ...options } = body as JobToAdd
      const added = await jobs.add(kind, payload, options)
      if (isNew(added)) meter.added(principal.namespace, 1)
      return { status: isNew(added) ? 201 : 200, body: added }
    },

    listJobs: async ({ query, jobs }) => ({ body: await listWithin(jobs, query) }),

    async getJob({ params: { id }, jobs }) {
      const job = await jobs.find(id)
      if (job !== undefined) return { body: job }
      throw new SignalboxError('not_found', `There is no job "${id}": it was never added, or it was pruned.`)
    },

    async claimJobs(call) {
      const { waitMs = 0, ...options } = call.body
      const waits = duration('waitMs', waitMs, { max: maxWaitMs })
      const items = await (waits === 0
        ? claimAtOnce(call, options)
        : claimInLine(call, options, waits, meter))
      if (items.length > 0) meter.claimed(call.principal.namespace, items)
      return { body: { items, cursor: null } }
    },

    async checkHeld({ body, space }) {
      const leases = body.items.map(({ id, token }) => ({ jobId: id, token }))
      if (leases.length === 0) return { body: { items: [] } }
      const store = space.stores.jobs
      const [outcomes, unwanted] = await Promise.all([store.outcomes(leases), store.cancelRequests(leases)])
      const wishes = new Set(unwanted)
      const items = body.items.map(({ id }, index) => ({
        id,
        outcome: outcomes[index]!,
        cancelRequested: wishes.has(id),
      }))
      return { body: { items } }
    },

    async ackJob({ params: { id }, body: { token, ...options }, jobs, principal }) {
      const { state } = await jobs.ack({ id, token }, options)
      meter.settled(principal.namespace, id, state)
      return { body: { id, state } }
    },

    async nackJob({ params: { id }, body: { token, ...options }, jobs, principal }) {
      const { state } = await jobs.nack({ id, token }, options)
      meter.settled(principal.namespace, id, state)
      return { body: { id, state } }
    },

    renewJob: async ({ params: { id }, body: { token, leaseMs }, jobs }) => ({
      body: await jobs.renew({ id, token }, leaseMs),
    }),

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
      await jobs.pause(name)
      queueCountsOf(space.stores).changed({ queue: name, paused: true })
      return { body: { queue: name, paused: true } }
    },

    async resumeQueue({ params: { name }, jobs, space }) {
      await jobs.resume(name)
      queueCountsOf(space.stores).changed({ queue: name, paused: false })
      return { body: { queue: name, paused: false } }
    },

    async limitQueue({ params: { name }, body, jobs, space }) {
      const limits = await jobs.setLimits(name, body)
      queueCountsOf(space.stores).changed({ queue: name, limits })
      return { body: { queue: name, limits } }
    },

    async unlimitQueue({ params: { name }, jobs, space }) {
      const limits = await jobs.setLimits(name, null)
      queueCountsOf(space.stores).changed({ queue: name, limits })
      return { body: { queue: name, limits } }
    },

    async wakeQueue({ params: { name }, jobs }) {
      jobs.wake(name)
      return { body: { queue: name } }
    },
  }
}

/** The same without a wait: a client that has gone meanwhile takes no job with it. */
async function claimAtOnce(call: Call, options: ClaimOptions): Promise<readonly ClaimedJob[]> {
  const items = await call.jobs.claim(options)
  // Whether it has gone is looked up only now: most claims are answered before anybody could go.
  if (items.length === 0 || !call.isGone) return items
  await handBack(call, call.space.jobs, items)
  return []
}

/**
 * Puts jobs back into the queue, with the attempt they had. With a key, a client that was cut off may ask again and gets the
 * same jobs, so those stay claimed. With a token that ended no client can ask again.
 */
async function handBack(call: Call, jobs: Call['jobs'], given: readonly ClaimedJob[]): Promise<void> {
  if (call.key !== undefined && !call.hasLostToken) return
  await Promise.allSettled(given.map((job) => jobs.nack(job, { handBack: true })))
}

/** Stands in line with whoever waits for the same, until there is a job, the time is over or the client has gone. */
async function claimInLine(
  call: Call,
  options: ClaimOptions,
  waitMs: number,
  meter: JobMeterPart,
): Promise<readonly ClaimedJob[]> {
  const { jobs, space, signal } = call
  const { queues = ['default'], kinds } = options
  // It may be called after this request has left its space.
  const { jobs: unkeyed } = space
  const giveBack = (given: readonly ClaimedJob[]) => handBack(call, unkeyed, given)
  const request = { queues, kinds, giveBack }
  meter.claimWaits()
  try {
    return await space.longPollClaims.wait(request, waitMs, signal, () => jobs.claim(options))
  } finally {
    meter.claimWaited()
  }
}

/** A page that has so many characters ends there, whatever its limit; the cursor says where the next one begins. */
const maxPageChars = 4 * 1_048_576
/** Each may have half a megabyte of payload and result, so only a few are in memory before they are counted. */
const jobsAtOnce = 25

async function listWithin(jobs: Call['jobs'], query: wire.ListJobsQuery): Promise<wire.JobsPage> {
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
    // Fewer than asked for, and not the end: it looked past as many of our own as one request may cost.
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

/** The routes of what attempts say of themselves, by their ids. */
export interface LogHandlers {
  readonly noteJob: Handler<typeof wire.noteJob>
  readonly jobLogs: Handler<typeof wire.jobLogs>
}

export const logHandlers: LogHandlers = {
  async noteJob({ params: { id }, body: { token, attempt, ...note }, jobs }) {
    await jobs.note({ id, token, ...(attempt === undefined ? {} : { attempt }) }, note as NoteOptions)
    return { body: { id } }
  },
  jobLogs: async ({ params: { id }, query, jobs }) => ({ body: await jobs.logs(id, query) }),
}

/** The routes of bulk operations, by their ids. */
export interface BulkHandlers {
  readonly bulkJobs: Handler<typeof wire.bulkJobs>
  readonly listBulkOperations: Handler<typeof wire.listBulkOperations>
  readonly getBulkOperation: Handler<typeof wire.getBulkOperation>
  readonly cancelBulkOperation: Handler<typeof wire.cancelBulkOperation>
}

/** `begun` is told of the namespace in which an operation was begun. */
export function bulkHandlers(begun: (namespace: string) => void): BulkHandlers {
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
      const operation = await jobs.bulkOperation(id)
      if (operation !== undefined) return { body: operation }
      throw new SignalboxError(
        'not_found',
        `There is no bulk operation "${id}": it was never begun, or it was pruned.`,
      )
    },

    cancelBulkOperation: async ({ params: { id }, jobs }) => ({ body: await jobs.cancelBulk(id) }),
  }
}
