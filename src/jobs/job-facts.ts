import type { JobLock, OnFailure } from './dependencies/dependencies.ts'
import type { JobSchedule } from './job.ts'

/**
 * Facts about a job that a store keeps as one JSON text, `meta`. Stores never look inside, so a new fact needs no change of a
 * schema, and fields that this version does not know are kept, too.
 */
export interface JobMeta {
  readonly tags?: readonly string[]
  readonly [other: string]: unknown
}

/** The facts that each job shows. */
export interface JobFacts {
  readonly tags: readonly string[]
  /** What the limits of its queue count it by; null: the queue alone. */
  readonly limitKey: string | null
  /** The lock that it needs for each attempt; null: none. */
  readonly lock: JobLock | null
  /** The schedule that added it, and for which slot (null: out of turn); null: no schedule did. */
  readonly schedule: JobSchedule | null
}

/** The facts in a job's meta text. */
export interface DecodedMeta extends JobFacts {
  /** The W3C traceparent of its cause. */
  readonly trace: string | null
  readonly onFailure: OnFailure
}

/** What a job shows that has no facts. */
export const noFacts: JobFacts = {
  tags: [],
  limitKey: null,
  lock: null,
  schedule: null,
}
const noMeta: DecodedMeta = { ...noFacts, trace: null, onFailure: 'cancel' }

/** Null when there are no facts: most jobs have none, and then the text costs nothing. */
export function encodeMeta({ tags, ...others }: JobMeta): string | null {
  const facts = tags === undefined || tags.length === 0 ? others : { tags, ...others }
  return Object.keys(facts).length === 0 ? null : JSON.stringify(facts)
}

/** A job as a server shows it, as what a store keeps: its facts as one meta text, and its other fields. */
export function foldFacts<Shown extends Partial<JobFacts> & { readonly trace?: string | null }>(
  job: Shown,
): Omit<Shown, keyof JobFacts | 'trace'> & { readonly meta: string | null } {
  const { tags, limitKey, lock, schedule, trace, ...others } = job
  const meta = encodeMeta({
    ...(tags && { tags }),
    ...(limitKey && { limitKey }),
    ...(lock && { lock }),
    ...(schedule && { schedule: schedule.name, slotAt: schedule.slotAt }),
    ...(trace && { trace }),
  })
  return { ...others, meta }
}

/** All fields of a meta text, as they are. Never throws: a damaged text has no fields. */
export function parseMeta(text: string | null): JobMeta {
  if (text === null) return {}
  try {
    const parsed: unknown = JSON.parse(text)
    const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
    return isObject ? (parsed as JobMeta) : {}
  } catch {
    return {}
  }
}

/** The known facts, each in its type. Never throws. */
export function decodeMeta(text: string | null): DecodedMeta {
  if (text === null) return noMeta
  const { tags, limitKey, lock, schedule, slotAt, trace, onFailure } = parseMeta(text)
  const { operation, resource } = (lock ?? {}) as Partial<JobLock>
  const hasLock = typeof operation === 'string' && typeof resource === 'string'
  return {
    tags: Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : [],
    limitKey: typeof limitKey === 'string' ? limitKey : null,
    lock: hasLock ? { operation, resource } : null,
    schedule:
      typeof schedule === 'string'
        ? { name: schedule, slotAt: typeof slotAt === 'number' ? slotAt : null }
        : null,
    trace: isTraceparent(trace) ? trace : null,
    onFailure: onFailure === 'run' || onFailure === 'wait' ? onFailure : 'cancel',
  }
}

/** As W3C writes it: version, trace, span, flags. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/.test(value)
}
