import { invalidArgument, isSignalboxError, orUndefined, SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { show } from '../../core/options.ts'
import {
  type Added,
  type AttemptOutcome,
  type CancelAnswer,
  type ClaimedRecord,
  type ClaimRequest,
  foldFacts,
  type JobEnd,
  type JobRecord,
  type JobStore,
  type LeaseRef,
  type ListQuery,
  type NewJob,
  parseMeta,
  type QueueLimits,
  type QueueStats,
  type Renewal,
  type RetryAnswer,
  type Verdict,
} from '../../jobs/index.ts'
import {
  ackJob,
  addJobs,
  type Client,
  checkHeld,
  JsonText,
  nackJob,
  type ShapeOf,
  type WireClaimedJob,
  type WireJob,
} from '../client/index.ts'

/** The most jobs of one add, which the server writes as a whole. */
const maxAdd = 1_000
/** The most jobs of one claim. */
const maxClaim = 500
/** The most jobs of one check of held jobs, and of one removal. */
const maxHeld = 1_000
/** Requests in flight. Renewals have their own limit: they must not wait behind the ends of other jobs. */
const maxSettling = 32
const maxRenewing = 16

/**
 * The job store of a remote server. Every method sends a request. Leases and the clock work as in process, so jobs and
 * workers need no changes. The store refuses transactions, because they belong to one connection to one database.
 */
export class RemoteJobStore implements JobStore {
  readonly #client: Client
  /**
   * A verdict that is sent again after a lost answer has the same key. The server repeats its first answer, so the
   * outcome of an ack is always known.
   */
  readonly #keys = new WeakMap<Verdict, string>()
  readonly #dropsResults: boolean

  /** `dropsResults`, for workers: if the server refuses a result, drop it, because the work is done. */
  constructor(client: Client, { dropsResults = false }: { readonly dropsResults?: boolean } = {}) {
    this.#client = client
    this.#dropsResults = dropsResults
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    if (tx !== undefined) throw noTransaction('A job cannot be added in a transaction of yours')
    if (jobs.length > maxAdd) throw tooMany(jobs.length)
    // Always a list: its limits are larger than those of a single object.
    try {
      const reply = await this.#client.call(addJobs, { body: encodeJobs(jobs) })
      return 'items' in reply ? reply.items : [reply]
    } catch (error) {
      if (jobs.length > 1 && isRefusal(error)) ofSeveral.add(error)
      throw error
    }
  }

  async claim({ queues, kinds, workerId, limit, leaseMs }: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const jobs = await this.#client.jobs.claim({
      queues,
      ...(kinds === null ? {} : { kinds }),
      workerId,
      limit: Math.min(limit, maxClaim),
      leaseMs,
    })
    return jobs.map(decodeClaimedRecord)
  }

  async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    const renewals = await inParallel(leases, maxRenewing, async ({ jobId, token }) => {
      const renewed = await orUndefined('lease_lost', this.#client.jobs.renew({ id: jobId, token }, leaseMs))
      return renewed && { jobId, token, ...renewed }
    })
    return renewals.filter((renewal) => renewal !== undefined)
  }

  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    return inParallel(verdicts, maxSettling, async (verdict) => {
      try {
        return await this.#settleOne(verdict)
      } catch (error) {
        const isRefused = isSignalboxError(error, 'too_large') || isSignalboxError(error, 'invalid_argument')
        if (!isRefused || !this.#dropsResults || verdict.result === null) throw error
        return this.#settleOne({ ...verdict, result: null })
      }
    })
  }

  async #settleOne(verdict: Verdict): Promise<boolean> {
    const { route, body } = encodeVerdict(verdict)
    const params = { id: verdict.jobId }
    const idempotencyKey = this.#keyOf(verdict)
    const settled = await orUndefined(
      'lease_lost',
      this.#client.call(route, { params, body, idempotencyKey }),
    )
    return settled !== undefined
  }

  async settleIn(): Promise<never> {
    throw noTransaction('A job cannot be ended in a transaction of yours')
  }

  /** There is no transaction to end. */
  async endTransaction(): Promise<void> {}

  async transact(): Promise<never> {
    throw noTransaction('job.transaction cannot be used')
  }

  async transactAll(): Promise<never> {
    throw noTransaction('job.transaction cannot be used')
  }

  async outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
    return (await this.#held(leases)).map(({ outcome }) => outcome)
  }

  async cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]> {
    return (await this.#held(leases)).filter(({ cancelRequested }) => cancelRequested).map(({ id }) => id)
  }

  /** The server reclaims expired leases itself. */
  async reclaim(): Promise<{ ready: number; dead: number; cancelled: number }> {
    return { ready: 0, dead: 0, cancelled: 0 }
  }

  async find(id: string): Promise<JobRecord | undefined> {
    const job = await this.#client.jobs.find(id)
    return job && decodeRecord(job)
  }

  /** The server limits each of its pages itself. */
  async reach(): Promise<string | null> {
    return null
  }

  /** The server ends a page early when its jobs are large, so this asks for the rest. */
  async list({ before, limit, downTo: _, ...query }: ListQuery): Promise<readonly JobRecord[]> {
    const records: JobRecord[] = []
    let cursor = before
    for (;;) {
      const more = cursor === undefined ? {} : { cursor }
      const page = await this.#client.jobs.list({ ...query, ...more, limit: limit - records.length })
      records.push(...page.items.map(decodeRecord))
      if (page.cursor === null || records.length >= limit) return records
      cursor = page.cursor
    }
  }

  /** The server streams them: `GET /v1/queues/{name}/events`. */
  async ends(): Promise<readonly JobEnd[]> {
    return []
  }

  cancel(id: string): Promise<CancelAnswer | undefined> {
    return orUndefined('not_found', this.#client.jobs.cancel(id))
  }

  /** The `conflict` of the server says why a job cannot be retried. */
  async retry(id: string): Promise<RetryAnswer | undefined> {
    const retried = await orUndefined('not_found', this.#client.jobs.retry(id))
    return retried && { outcome: retried.state }
  }

  async retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    return (await this.#client.jobs.retryDead(query)).retried
  }

  stats(): Promise<readonly QueueStats[]> {
    return this.#client.jobs.stats()
  }

  async pause(queue: string): Promise<void> {
    await this.#client.jobs.pause(queue)
  }

  async resume(queue: string): Promise<void> {
    await this.#client.jobs.resume(queue)
  }

  async setLimits(queue: string, limits: QueueLimits | null): Promise<void> {
    await this.#client.jobs.setLimits(queue, limits)
  }

  async remove(ids: readonly string[]): Promise<readonly string[]> {
    const replies = await inParallel(partsOf(ids, maxHeld), 1, (part) => this.#client.jobs.remove(part))
    return replies.flatMap(({ removed }) => removed)
  }

  /** The server continues until none is left, in small steps, and ignores the limit. */
  async prune({ olderThanMs }: { olderThanMs: number; limit: number }): Promise<number> {
    return (await this.#client.jobs.prune({ olderThanMs })).pruned
  }

  #keyOf(verdict: Verdict): string {
    const known = this.#keys.get(verdict)
    if (known !== undefined) return known
    const key = createId()
    this.#keys.set(verdict, key)
    return key
  }

  async #held(leases: readonly LeaseRef[]): Promise<ShapeOf<typeof checkHeld>['reply']['items']> {
    const replies = await inParallel(partsOf(leases, maxHeld), 1, (part) => {
      const items = part.map(({ jobId, token }) => ({ id: jobId, token }))
      return this.#client.call(checkHeld, { body: { items } })
    })
    return replies.flatMap(({ items }) => items)
  }
}

const ofSeveral = new WeakSet<SignalboxError>()

/** Whether the server refused a request with several jobs, perhaps because of only one. Nothing was written. */
export function isOfSeveral(error: unknown): boolean {
  return isSignalboxError(error) && ofSeveral.has(error)
}

/** Whether the server refused the content of a request, rather than its sender or its rate. */
function isRefusal(error: unknown): error is SignalboxError {
  if (!isSignalboxError(error)) return false
  return error.status >= 400 && error.status < 500 && ![401, 403, 408, 429].includes(error.status)
}

function partsOf<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  const parts: (readonly Item[])[] = []
  for (let at = 0; at < items.length; at += size) parts.push(items.slice(at, at + size))
  return parts
}

export function noTransaction(what: string): SignalboxError {
  return new SignalboxError(
    'transaction_unsupported',
    `${what} over HTTP: a transaction needs a connection to the database, and this box has none. Open the database itself, or leave out the transaction.`,
  )
}

function tooMany(count: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `A server takes up to ${maxAdd} jobs in one call, not ${count}. Add them in several calls.`,
    { details: { maxJobs: maxAdd } },
  )
}

/**
 * Calls `ask` for each item, at most `maxInFlight` at a time, and returns the results in order. An error of one item is
 * thrown after all items. An error that concerns every item (no connection, token refused) stops the calls: no further
 * call begins, and the error is thrown when the open calls have ended.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  maxInFlight: number,
  ask: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = new Array(items.length)
  const failures: unknown[] = []
  let next = 0

  async function walk(): Promise<void> {
    while (next < items.length) {
      const index = next++
      try {
        results[index] = await ask(items[index]!)
      } catch (error) {
        failures.push(error)
        if (concernsAll(error)) next = items.length
      }
    }
  }

  await Promise.all(Array.from({ length: Math.min(maxInFlight, items.length) }, walk))
  if (failures.length > 0) throw failures.find(concernsAll) ?? failures[0]
  return results
}

function concernsAll(error: unknown): boolean {
  return !isSignalboxError(error) || [401, 403, 429, 503, 504].includes(error.status)
}

/**
 * Encodes records as request bodies. Payload, result, error and back-off are JSON text already. The encoder inserts
 * them unchanged, so that they keep every byte.
 */

/** Encodes jobs to add. The server creates the ids, except for encrypted jobs, whose data is bound to an id. */
function encodeJobs(jobs: readonly NewJob[]): JsonText {
  // Other jobs of the list refer to these by their local ids.
  const needed = new Set(jobs.flatMap(({ dependsOn }) => dependsOn?.jobs ?? []))
  return new JsonText(`[${jobs.map((job) => encodeJob(job, needed)).join(',')}]`)
}

function encodeJob(job: NewJob, needed: ReadonlySet<string>): string {
  const { queue, kind, payload, priority, uniqueKey, due, maxAttempts, backoff, timeoutMs, dependsOn } = job
  // The metadata also holds the dependencies, which have their own form in the body.
  const { onFailure, lock: _, ...facts } = parseMeta(job.meta)
  const dependencies = dependsOn?.jobs ?? []
  const plain = JSON.stringify({
    ...{ queue, kind, priority, uniqueKey, ...due, maxAttempts, timeoutMs, ...facts },
    ...(needed.has(job.id) && { ref: job.id }),
    ...(dependencies.length > 0 && { after: { jobs: dependencies, onFailure } }),
    ...(dependsOn?.lock && { lock: dependsOn.lock }),
  })
  return withText(plain, { payload, backoff })
}

/** A century: the longest wait that a nack may ask for. A back-off may be longer. */
const maxDelayMs = 3_155_760_000_000

/** Encodes the end of an attempt. */
function encodeVerdict(verdict: Verdict): { readonly route: typeof ackJob; readonly body: JsonText } {
  const { token, state, delayMs, ranMs, result, error } = verdict
  const same = { token, ...(ranMs === null ? {} : { ranMs }) }
  switch (state) {
    case 'completed':
      return { route: ackJob, body: new JsonText(withText(JSON.stringify(same), { result })) }
    case 'dead':
      return nack({ ...same, dead: true }, error)
    case 'cancelled':
      // The server knows the cancellation request and cancels the job.
      return nack(same, error)
    case 'ready':
      return nack({ ...same, handBack: true }, null)
    case 'scheduled':
      // Without an error this is a snooze. Only transactions return a job because of a store failure.
      return error === null
        ? nack({ ...same, snoozeMs: Math.min(delayMs, maxDelayMs) }, null)
        : nack({ ...same, retryInMs: Math.min(delayMs, maxDelayMs) }, error)
  }
}

function nack(fields: object, error: string | null): ReturnType<typeof encodeVerdict> {
  // Both routes have the same form: they take a token and further fields, and answer the state of the job.
  return { route: nackJob as typeof ackJob, body: new JsonText(withText(JSON.stringify(fields), { error })) }
}

/** Adds members to an object. All are JSON text; null members are left out. */
function withText(object: string, members: Readonly<Record<string, string | null>>): string {
  let text = object.slice(0, -1)
  for (const [name, value] of Object.entries(members)) if (value !== null) text += `,"${name}":${value}`
  return `${text}}`
}

/** Decodes a job of the server to a record of a store. An older server sends fewer fields. */
function decodeRecord(job: WireJob): JobRecord {
  return {
    ...foldFacts(job),
    payload: JSON.stringify(job.payload ?? null),
    backoff: JSON.stringify(job.backoff),
    result: textOrNull(job.result),
    error: textOrNull(job.error),
    // The server sends these only with a claimed job. It keeps and uses both itself.
    handBackCount: 0,
    snoozeCount: 0,
    leaseEndsAt: null,
  }
}

function decodeClaimedRecord({ fence, ...job }: WireClaimedJob): ClaimedRecord {
  const { token, leaseEndsAt, handBackCount, snoozeCount } = job
  return {
    ...{ ...decodeRecord(job), token, leaseEndsAt, handBackCount, snoozeCount },
    ...(fence === null || fence === undefined ? {} : { fence }),
  }
}

function textOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value)
}

/** Checks that options are an object. Other values would be sent as empty options without an error. */
export function objectOf<T extends object>(name: string, value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw invalidArgument(`${name} must be an object, not ${show(value)}.`, name)
}
