import type { JobLock, OnFailure } from './dependencies/dependencies.ts'
import type { JobSchedule } from './job.ts'

/**
 * Facts about a job, which a store keeps as one JSON text, `meta`. The store reads only `limitKey`, so a new fact needs
 * no schema change. Fields that this version does not know are kept too.
 */
export interface JobMeta {
  readonly tags?: readonly string[]
  readonly [other: string]: unknown
}

/** The facts that each job shows. */
export interface JobFacts {
  readonly tags: readonly string[]
  /** The key by which the limits of its queue count the job; null: they count it for the queue only. */
  readonly limitKey: string | null
  /** The lock that each attempt needs; null: none. */
  readonly lock: JobLock | null
  /** The schedule that added the job, and the slot (null: a run out of turn); null: no schedule added it. */
  readonly schedule: JobSchedule | null
}

/** The facts in a job's meta text. */
export interface DecodedMeta extends JobFacts {
  /** The W3C traceparent of its cause. */
  readonly trace: string | null
  readonly onFailure: OnFailure
}

/** The facts of a job without a meta text. */
export const noFacts: JobFacts = {
  tags: [],
  limitKey: null,
  lock: null,
  schedule: null,
}
const noMeta: DecodedMeta = { ...noFacts, trace: null, onFailure: 'cancel' }

/** Returns null without facts. Most jobs have none, so they store no text. */
export function encodeMeta({ tags, ...others }: JobMeta): string | null {
  const facts = tags === undefined || tags.length === 0 ? others : { tags, ...others }
  return Object.keys(facts).length === 0 ? null : JSON.stringify(facts)
}

/** Converts a job that a server shows into the stored form: its facts become one meta text. */
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

/** Returns all fields of a meta text, unchecked. Never throws: a damaged text has no fields. */
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

/** Returns the known facts, each checked. Never throws. */
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

/** The W3C form: version, trace, span, flags. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/.test(value)
}
