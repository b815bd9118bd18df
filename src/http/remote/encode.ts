import type { NewJob, Verdict } from '../../jobs/index.ts'
import { ackJob, JsonText, nackJob } from '../client/index.ts'

/**
 * Records as bodies. Payload, result, error and back-off are JSON text already, kept byte for byte: they are set into
 * the body as they stand.
 */

/** A list of jobs to add. The server gives ids of its own, but to what is sealed: that says which it is bound to. */
export function encodeJobs(jobs: readonly NewJob[]): JsonText {
  // Those that others of the list wait for are told apart by the id they have here.
  const needed = new Set(jobs.flatMap(({ dependsOn }) => dependsOn?.jobs ?? []))
  return new JsonText(`[${jobs.map((job) => encodeJob(job, needed)).join(',')}]`)
}

function encodeJob(job: NewJob, needed: ReadonlySet<string>): string {
  const { queue, kind, payload, priority, uniqueKey, due, maxAttempts, backoff, timeoutMs, dependsOn } = job
  const meta = (job.meta === null ? {} : JSON.parse(job.meta)) as {
    readonly tags?: readonly string[]
    readonly trace?: string
    readonly limitKey?: string
    readonly onFailure?: 'run' | 'wait'
  }
  const { tags, trace, limitKey, onFailure } = meta
  const dependencies = dependsOn?.jobs ?? []
  const plain = JSON.stringify({
    ...{ queue, kind, priority, uniqueKey, ...due, maxAttempts, timeoutMs, tags, trace, limitKey },
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

/** The object with further members, whose values are JSON text; those that are null are left out. */
function withText(object: string, members: Readonly<Record<string, string | null>>): string {
  let text = object.slice(0, -1)
  for (const [name, value] of Object.entries(members)) if (value !== null) text += `,"${name}":${value}`
  return `${text}}`
}
