import { invalidArgument, isSignalboxError } from '../../core/errors.ts'
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
 * Records as bodies. Payload, result, error and back-off are JSON text already, kept byte for byte: they are set into
 * the body as they stand.
 */

/** A list of jobs to add. The server makes the ids, except for encrypted jobs: their data is bound to an id. */
export function encodeJobs(jobs: readonly NewJob[]): JsonText {
  // Those that others of the list wait for are told apart by the id they have here.
  const needed = new Set(jobs.flatMap(({ dependsOn }) => dependsOn?.jobs ?? []))
  return new JsonText(`[${jobs.map((job) => encodeJob(job, needed)).join(',')}]`)
}

function encodeJob(job: NewJob, needed: ReadonlySet<string>): string {
  const { queue, kind, payload, priority, uniqueKey, due, maxAttempts, backoff, timeoutMs, dependsOn } = job
  // What it waits for is a fact, too, but has its own form in the body.
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

/** A century: the longest wait that a nack may ask for. A back-off may come to more. */
const maxDelayMs = 3_155_760_000_000

/** How the end of an attempt is told. */
export function encodeVerdict(verdict: Verdict): { readonly route: typeof ackJob; readonly body: JsonText } {
  const { token, state, delayMs, ranMs, result, error } = verdict
  const same = { token, ...(ranMs === null ? {} : { ranMs }) }
  switch (state) {
    case 'completed':
      return { route: ackJob, body: new JsonText(withText(JSON.stringify(same), { result })) }
    case 'dead':
      return nack({ ...same, dead: true }, error)
    case 'cancelled':
      // The server knows that it was asked for, and ends it so.
      return nack(same, error)
    case 'ready':
      return nack({ ...same, handBack: true }, null)
    case 'scheduled':
      // Without an error it is a snooze: what is handed back for the store's trouble is so in transactions alone.
      return error === null
        ? nack({ ...same, snoozeMs: Math.min(delayMs, maxDelayMs) }, null)
        : nack({ ...same, retryInMs: Math.min(delayMs, maxDelayMs) }, error)
  }
}

function nack(fields: object, error: string | null): ReturnType<typeof encodeVerdict> {
  // Two routes of one form: both take a token and more, and answer what became of the job.
  return { route: nackJob as typeof ackJob, body: new JsonText(withText(JSON.stringify(fields), { error })) }
}

/** The object with further members, given as JSON text; null members are left out. */
function withText(object: string, members: Readonly<Record<string, string | null>>): string {
  let text = object.slice(0, -1)
  for (const [name, value] of Object.entries(members)) if (value !== null) text += `,"${name}":${value}`
  return `${text}}`
}

/** Jobs as the server shows them, as the records that jobs ask of a store. A server of an older version shows less. */
export function decodeRecord(job: WireJob): JobRecord {
  return {
    ...foldFacts(job),
    payload: JSON.stringify(job.payload ?? null),
    backoff: JSON.stringify(job.backoff),
    result: textOrNull(job.result),
    error: textOrNull(job.error),
    // Not shown of a job that one only looks at; the server keeps both and judges by them.
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

/** That options are an object. Whatever else would come apart into nothing, and the server never hear of it. */
export function objectOf<T extends object>(name: string, value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw invalidArgument(`${name} must be an object, not ${show(value)}.`, name)
}

/** The answer; undefined for `not_found`. */
export function unlessNotFound<Value>(answer: Promise<Value>): Promise<Value | undefined> {
  return answer.catch((error: unknown) => {
    if (isSignalboxError(error, 'not_found')) return undefined
    throw error
  })
}
