import { invalidArgument } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import {
  type ClaimedRecord,
  foldFacts,
  type JobRecord,
  type NewJob,
  parseMeta,
  type Verdict,
} from '../../jobs/index.ts'
import { ackJob, JsonText, nackJob, type WireClaimedJob, type WireJob } from '../client/index.ts'

/**
 * Encodes records as request bodies. Payload, result, error and back-off are JSON text already. The encoder inserts
 * them unchanged, so that they keep every byte.
 */

/** Encodes jobs to add. The server creates the ids, except for encrypted jobs, whose data is bound to an id. */
export function encodeJobs(jobs: readonly NewJob[]): JsonText {
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
export function encodeVerdict(verdict: Verdict): { readonly route: typeof ackJob; readonly body: JsonText } {
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
export function decodeRecord(job: WireJob): JobRecord {
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

export function decodeClaimedRecord({ fence, ...job }: WireClaimedJob): ClaimedRecord {
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
