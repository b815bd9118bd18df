import { SignalboxError } from '../core/errors.ts'
import { show, text } from '../core/options.ts'
import type { DependencyMeta, JobLock, OnFailure } from './dependencies/dependency.ts'
import type { JobSchedule } from './job.ts'

/** Words about a job, kept beside it as one JSON text. What this version does not know is kept all the same. */
export interface JobMeta {
  readonly tags?: readonly string[]
  readonly [other: string]: unknown
}

/** Null when there is nothing to say: a job without costs nothing. */
export function encodeMeta({ tags, ...others }: JobMeta): string | null {
  const said = tags === undefined || tags.length === 0 ? others : { tags, ...others }
  return Object.keys(said).length === 0 ? null : JSON.stringify(said)
}

/** Never throws: a row that was damaged, or written by hand, has none. */
export function decodeMeta(kept: string | null): JobMeta {
  if (kept === null) return {}
  try {
    const meta: unknown = JSON.parse(kept)
    return typeof meta === 'object' && meta !== null && !Array.isArray(meta) ? (meta as JobMeta) : {}
  } catch {
    return {}
  }
}

const noTags: readonly string[] = []

/** The tags of a job, by what is kept about it. */
export function decodeTags(kept: string | null): readonly string[] {
  // Hardly any job has some, and every claimed one is asked.
  if (kept === null) return noTags
  const { tags } = decodeMeta(kept)
  return Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : noTags
}

/** The schedule that made a job, by what is kept about it. */
export function decodeSchedule(kept: string | null): JobSchedule | null {
  if (kept === null) return null
  const { schedule, slotAt } = decodeMeta(kept)
  if (typeof schedule !== 'string') return null
  return { name: schedule, slotAt: typeof slotAt === 'number' ? slotAt : null }
}

/** As W3C writes it: version, trace, span, flags. */
const traceparent = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/

/** Whose doing a job is, by what is kept about it. */
export function decodeTrace(kept: string | null): string | null {
  if (kept === null) return null
  const { trace } = decodeMeta(kept)
  return typeof trace === 'string' && traceparent.test(trace) ? trace : null
}

/** What its queue's limits count it by, by what is kept about it. */
export function decodeLimitKey(kept: string | null): string | null {
  if (kept === null) return null
  const { limitKey } = decodeMeta(kept)
  return typeof limitKey === 'string' ? limitKey : null
}

/** The line a job stands in before each attempt, by what is kept about it. */
export function decodeLock(kept: string | null): JobLock | null {
  if (kept === null) return null
  const lock = decodeMeta(kept).lock as Partial<JobLock> | null | undefined
  if (typeof lock !== 'object' || lock === null) return null
  const { operation, resource } = lock
  return typeof operation === 'string' && typeof resource === 'string' ? { operation, resource } : null
}

/** What becomes of a job when one that it needs fails, by what is kept about it. */
export function decodeOnFailure(kept: string | null): OnFailure {
  const { onFailure } = decodeMeta(kept)
  return onFailure === 'run' || onFailure === 'wait' ? onFailure : 'cancel'
}

/** What is kept beside a job, of what it was added with. Throws `invalid_argument`. */
export function resolveMeta(
  name: string,
  {
    tags,
    trace,
    limitKey,
  }: { readonly tags?: unknown; readonly trace?: unknown; readonly limitKey?: unknown },
  dependsOn: DependencyMeta = {},
): string | null {
  const hasKey = limitKey !== undefined && limitKey !== null
  if (tags === undefined && trace === undefined && !hasKey && Object.keys(dependsOn).length === 0) return null
  if (trace !== undefined && (typeof trace !== 'string' || !traceparent.test(trace))) {
    throw new SignalboxError(
      'invalid_argument',
      `${name}.trace must be a W3C traceparent such as 00-<32 hex digits>-<16 hex digits>-01, not ${show(trace)}.`,
      { details: { option: `${name}.trace` } },
    )
  }
  return encodeMeta({
    ...(tags === undefined ? {} : { tags: resolveTags(`${name}.tags`, tags) }),
    ...(trace === undefined ? {} : { trace }),
    ...(hasKey ? { limitKey: text(`${name}.limitKey`, limitKey) } : {}),
    ...dependsOn,
  })
}

export const tagLimits = { maxTags: 20, maxChars: 64 } as const

/** Tags as they were given, each once. Throws `invalid_argument`. */
export function resolveTags(name: string, value: unknown): readonly string[] {
  const { maxTags, maxChars } = tagLimits
  if (!Array.isArray(value) || value.length > maxTags) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a list of up to ${maxTags} texts, not ${show(value)}.`,
      { details: { option: name } },
    )
  }
  return [...new Set(value.map((tag, at) => text(`${name}[${at}]`, tag, { max: maxChars })))]
}
