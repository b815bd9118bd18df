import { type Backoff, resolveBackoff } from '../../core/backoff.ts'
import type { Duration } from '../../core/duration.ts'
import { invalidArgument } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { encodeJson } from '../../core/json.ts'
import { duration, flag, instant, listOf, onlyKeys, refuse, show, text, whole } from '../../core/options.ts'
import {
  type DependencyMeta,
  type DependencyOptions,
  resolveDependencies,
} from '../dependencies/dependencies.ts'
import { encodeMeta, isTraceparent } from '../job-facts.ts'
import type { NewJob } from '../job-store.ts'
import { backoffDefaults } from '../lifecycle.ts'

/** The options of a job. All fields are optional. */
export interface AddOptions extends DependencyOptions {
  /** @default 'default' */
  readonly queue?: string | undefined
  /** Jobs with a higher priority run first; any 32-bit whole number. @default 0 */
  readonly priority?: number | undefined
  /** At most one live job of the queue has this key. @default none */
  readonly uniqueKey?: string | null | undefined
  /** The job does not run before this instant (epoch milliseconds, or a Date). @default now */
  readonly runAt?: number | Date | undefined
  /** The job does not run before this time from now, by the store's clock. @default 0 */
  readonly delayMs?: Duration | undefined
  /** How often the job may be claimed before it is dead. @default 5 */
  readonly maxAttempts?: number | undefined
  /** The wait after a failure. @default { baseMs: 2_000, factor: 2, jitter: 0.2, maxMs: 3_600_000 } */
  readonly backoff?: Partial<Backoff> | undefined
  /** How long one attempt may take. @default no limit */
  readonly timeoutMs?: Duration | null | undefined
  /** Words to search for: up to 20, of up to 64 characters. @default none */
  readonly tags?: readonly string[] | undefined
  /** The key for the limits of the queue, such as a tenant. @default none: only the limits of the whole queue apply */
  readonly limitKey?: string | null | undefined
  /** The job waits until these jobs have completed. @default none */
  readonly after?: DependencyOptions['after']
  /** The job waits for this lock before each attempt, without a worker, and runs with `job.fence`. @default none */
  readonly lock?: DependencyOptions['lock']
  /** The W3C traceparent of the job's cause. With `telemetry`, the span of the add. @default none */
  readonly trace?: string | undefined
}

/** One of many jobs to add. */
export interface JobToAdd extends AddOptions {
  readonly kind: string
  readonly payload?: unknown
  /** The name by which other jobs of the same list refer to it in their `after`. @default none */
  readonly ref?: string | undefined
  /** Set by a definition: checks the payload. It survives when the job is spread into another. */
  readonly [definedBy]?: PayloadCheck
  /** Set for a payload that was sealed elsewhere: the id to which it is bound. */
  readonly [givenId]?: string
}

/** Throws when a payload, as JSON text, does not fit its kind. Messages call the job `name`. */
export type PayloadCheck = (name: string, payload: string) => Promise<unknown> | undefined

/** Marks a job that a definition made. Every copy of this package uses the same symbol. */
export const definedBy: unique symbol = Symbol.for('signalbox.definedBy')

/** Marks a job that brings its id. */
export const givenId: unique symbol = Symbol('signalbox.givenId')

/** The names of the options of one job. */
export const addKeys: readonly string[] = [
  'queue',
  'priority',
  'uniqueKey',
  'runAt',
  'delayMs',
  'maxAttempts',
  'backoff',
  'timeoutMs',
  'tags',
  'limitKey',
  'after',
  'lock',
  'trace',
]
/** The option names of `add`. */
const singleKeys: readonly string[] = [...addKeys, 'tx', 'notify']
/** The option names of a job in a list. */
const listedKeys: readonly string[] = ['kind', 'payload', 'ref', ...addKeys]
/** A century. */
export const maxSpanMs = 3_155_760_000_000
const maxTimerMs = 2 ** 31 - 1

/** Queues with this prefix belong to Signalbox itself. */
const reserved = 'signalbox.'

export function isReserved(queue: string): boolean {
  return queue.startsWith(reserved)
}

/** Checks one job, fills in the defaults and gives it an id. Messages call the job `name`. */
export function resolveNewJob(
  name: string,
  kind: unknown,
  payload: unknown,
  options: AddOptions & Pick<JobToAdd, typeof givenId>,
  own = false,
): NewJob {
  const { queue, priority, uniqueKey, maxAttempts, backoff, timeoutMs } = options
  // Few jobs have dependencies, so the others skip this check.
  const waits =
    (options.after ?? options.lock ?? null) === null ? undefined : resolveDependencies(name, options)
  return {
    id: options[givenId] ?? createId(),
    queue: queue === undefined ? 'default' : queueName(`${name}.queue`, queue, own),
    kind: text(`${name}.kind`, kind),
    payload: encodeJson(`${name}.payload`, payload),
    priority:
      priority === undefined ? 0 : whole(`${name}.priority`, priority, { min: -(2 ** 31), max: 2 ** 31 - 1 }),
    uniqueKey: (uniqueKey ?? null) === null ? null : text(`${name}.uniqueKey`, uniqueKey),
    due: resolveDue(name, options),
    maxAttempts:
      maxAttempts === undefined ? 5 : whole(`${name}.maxAttempts`, maxAttempts, { min: 1, max: 1_000 }),
    backoff:
      backoff === undefined
        ? null
        : JSON.stringify(resolveBackoff(`${name}.backoff`, backoff, backoffDefaults)),
    timeoutMs:
      (timeoutMs ?? null) === null
        ? null
        : duration(`${name}.timeoutMs`, timeoutMs, { min: 1, max: maxTimerMs }),
    meta: resolveMeta(name, options, waits?.meta),
    ...(waits?.dependsOn && { dependsOn: waits.dependsOn }),
  }
}

export function checkAddOptions(name: string, options: object): void {
  onlyKeys(name, options, singleKeys)
}

/** Whether workers are woken when the caller's transaction commits. */
export function resolveNotify(name: string, { notify }: { readonly notify?: unknown }): boolean {
  return notify === undefined ? false : flag(`${name}.notify`, notify)
}

export function checkJobToAdd(name: string, job: object): void {
  onlyKeys(name, withoutMark(job), listedKeys)
}

function withoutMark(job: Partial<JobToAdd>): object {
  if (typeof job !== 'object' || job === null || !(definedBy in job || givenId in job)) return job
  const { [definedBy]: _, [givenId]: __, ...plain } = job
  return plain
}

function resolveDue(name: string, { runAt, delayMs }: AddOptions): NewJob['due'] {
  if (runAt !== undefined && delayMs !== undefined) {
    throw invalidArgument(`${name} has both runAt and delayMs; give one of them.`)
  }
  if (runAt !== undefined) return { runAt: instant(`${name}.runAt`, runAt) }
  return { delayMs: delayMs === undefined ? 0 : duration(`${name}.delayMs`, delayMs, { max: maxSpanMs }) }
}

/** Checks a queue name. Only Signalbox's `own` modules may use a reserved one. */
export function queueName(name: string, value: unknown, own = false): string {
  const queue = text(name, value)
  if (own || !isReserved(queue)) return queue
  throw invalidArgument(
    `${name} is ${show(queue)}; names that begin with "${reserved}" belong to Signalbox itself.`,
  )
}

export function queueNames(name: string, value: unknown, own = false): readonly string[] {
  return listOf(name, value, 'queue names', { min: 1, max: 100 }, (at, queue) => queueName(at, queue, own))
}

/** A lease lasts from 100 ms to a day. A busy event loop loses shorter ones; longer ones outlive their worker. */
export function leaseSpan(name: string, value: unknown): number {
  return duration(name, value, { min: 100, max: 86_400_000 })
}

/** Encodes the meta of a new job. Throws `invalid_argument`. */
function resolveMeta(
  name: string,
  { tags, trace, limitKey }: Pick<AddOptions, 'tags' | 'trace' | 'limitKey'>,
  dependsOn: DependencyMeta = {},
): string | null {
  const hasKey = limitKey !== undefined && limitKey !== null
  if (tags === undefined && trace === undefined && !hasKey && Object.keys(dependsOn).length === 0) return null
  if (trace !== undefined && !isTraceparent(trace)) {
    const form = 'a W3C traceparent such as 00-<32 hex digits>-<16 hex digits>-01'
    refuse(`${name}.trace`, form, trace)
  }
  return encodeMeta({
    ...(tags === undefined ? {} : { tags: resolveTags(`${name}.tags`, tags) }),
    ...(trace === undefined ? {} : { trace }),
    ...(hasKey ? { limitKey: text(`${name}.limitKey`, limitKey) } : {}),
    ...dependsOn,
  })
}

/** Checks tags. Throws `invalid_argument`. */
export function resolveTags(name: string, value: unknown): readonly string[] {
  return listOf(name, value, 'texts', { max: 20 }, (at, tag) => text(at, tag, { max: 64 }))
}
