import { type Backoff, resolveBackoff } from '../../core/backoff.ts'
import { encodeError } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { encodeJson } from '../../core/json.ts'
import { duration, flag, oneOf, onlyKeys, show, text, whole } from '../../core/options.ts'
import { type DependencyOptions, resolveDependencies } from '../dependencies/dependency.ts'
import { type JobState, jobStates } from '../job.ts'
import { resolveMeta } from '../job-meta.ts'
import type { ClaimRequest, ListQuery, NewJob } from '../job-store.ts'
import { backoffDefaults, type Outcome } from '../lifecycle.ts'
import { parseSearch } from '../search/parse-search.ts'
import type { SearchTerm } from '../search/search-term.ts'
import type { AckOptions, NackOptions } from './jobs-api.ts'

/** How a job is to be run. Every field may be left out. */
export interface AddOptions extends DependencyOptions {
  /** The line it waits in. @default 'default' */
  readonly queue?: string | undefined
  /** Higher goes first; any 32-bit whole number. @default 0 */
  readonly priority?: number | undefined
  /** At most one live job of the queue has it. @default none */
  readonly uniqueKey?: string | null | undefined
  /** Not before this instant (epoch milliseconds, or a Date). @default now */
  readonly runAt?: number | Date | undefined
  /** Not before so long from now, by the store's clock. @default 0 */
  readonly delayMs?: Duration | undefined
  /** How often it may be claimed before it is dead. @default 5 */
  readonly maxAttempts?: number | undefined
  /** The wait after a failure. @default { baseMs: 2_000, factor: 2, jitter: 0.2, maxMs: 3_600_000 } */
  readonly backoff?: Partial<Backoff> | undefined
  /** How long one attempt may take. @default no limit */
  readonly timeoutMs?: Duration | null | undefined
  /** Words to find it by: up to 20, of up to 64 characters. @default none */
  readonly tags?: readonly string[] | undefined
  /** What the limits of its queue count it by: a tenant, an account. @default the queue alone */
  readonly limitKey?: string | null | undefined
  /** It waits until these have completed. @default nobody */
  readonly after?: DependencyOptions['after']
  /** It waits in this line before each attempt, without a worker, and runs with `job.fence`. @default none */
  readonly lock?: DependencyOptions['lock']
  /** Whose doing it is, as a W3C traceparent; with `telemetry` it is the span of the add. @default none */
  readonly trace?: string | undefined
}

/** One of many jobs to add. */
export interface JobToAdd extends AddOptions {
  readonly kind: string
  readonly payload?: unknown
  /** What others of the same list may call it in their `after`. @default nothing */
  readonly ref?: string | undefined
  /** Of one that a definition made: how its payload is checked. It is kept when the job is spread into another. */
  readonly [definedBy]?: PayloadCheck
  /** Of one that was sealed elsewhere and is bound to it: the id it must have. */
  readonly [givenId]?: string
}

/** Says whether a payload, as JSON text, fits its kind; throws when it does not. `name` is how messages call the job. */
export type PayloadCheck = (name: string, payload: string) => Promise<unknown> | undefined

/** The mark of a job that a definition made; the same in every copy of this package. */
export const definedBy: unique symbol = Symbol.for('signalbox.definedBy')

/** The mark of a job that brings its id. */
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
/** The same for one of a list. */
const listedKeys: readonly string[] = ['kind', 'payload', 'ref', ...addKeys]
const maxInstant = 8_640_000_000_000_000
const maxSpanMs = 3_155_760_000_000
const maxIds = 1_000
const maxTimerMs = 2 ** 31 - 1
/** A year; nothing runs longer, and an older start would only be a mistake. */
const maxRanMs = 31_557_600_000

/** Queues whose names begin so belong to Signalbox itself. */
const reserved = 'signalbox.'

export function isReserved(queue: string): boolean {
  return queue.startsWith(reserved)
}

/** Checks one job and makes it whole, with an id of its own. `name` is how messages call it. */
export function resolveNewJob(
  name: string,
  kind: unknown,
  payload: unknown,
  options: AddOptions & Pick<JobToAdd, typeof givenId>,
  own = false,
): NewJob {
  const { queue, priority, uniqueKey, maxAttempts, backoff, timeoutMs } = options
  // Hardly any job waits for anything, and every one that is added comes by here.
  const waits =
    (options.after ?? options.lock ?? null) === null ? undefined : resolveDependencies(name, options)
  return {
    id: options[givenId] ?? createId(),
    queue: queue === undefined ? 'default' : queueName(`${name}.queue`, queue, own),
    kind: text(`${name}.kind`, kind),
    payload: encodeJson(`${name}.payload`, payload),
    priority:
      priority === undefined ? 0 : whole(`${name}.priority`, priority, { min: -(2 ** 31), max: 2 ** 31 - 1 }),
    uniqueKey: uniqueKey === undefined || uniqueKey === null ? null : text(`${name}.uniqueKey`, uniqueKey),
    due: resolveDue(name, options),
    maxAttempts:
      maxAttempts === undefined ? 5 : whole(`${name}.maxAttempts`, maxAttempts, { min: 1, max: 1_000 }),
    backoff:
      backoff === undefined
        ? null
        : JSON.stringify(resolveBackoff(`${name}.backoff`, backoff, backoffDefaults)),
    timeoutMs:
      timeoutMs === undefined || timeoutMs === null
        ? null
        : duration(`${name}.timeoutMs`, timeoutMs, { min: 1, max: maxTimerMs }),
    meta: resolveMeta(name, options, waits?.meta),
    ...(waits?.dependsOn && { dependsOn: waits.dependsOn }),
  }
}

export function checkAddOptions(name: string, options: object): void {
  onlyKeys(name, options, [...addKeys, 'tx', 'notify'])
}

/** Whether workers are to be told when the caller's transaction commits. */
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
    throw new SignalboxError('invalid_argument', `${name} has both runAt and delayMs; give one of them.`)
  }
  if (runAt !== undefined) {
    const instant = runAt instanceof Date ? runAt.getTime() : runAt
    return { runAt: whole(`${name}.runAt`, instant, { max: maxInstant }) }
  }
  return { delayMs: delayMs === undefined ? 0 : duration(`${name}.delayMs`, delayMs, { max: maxSpanMs }) }
}

/** A list of up to 1,000 ids of jobs. */
export function resolveIds(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length > maxIds) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} takes a list of up to ${maxIds} ids of jobs, not ${show(value)}.`,
    )
  }
  return value.map((id, at) => text(`${name}[${at}]`, id))
}

/** A queue's name; a reserved one only for Signalbox's `own` rooms. */
export function queueName(name: string, value: unknown, own = false): string {
  const queue = text(name, value)
  if (own || !isReserved(queue)) return queue
  throw new SignalboxError(
    'invalid_argument',
    `${name} is ${show(queue)}; names that begin with "${reserved}" belong to Signalbox itself.`,
  )
}

export function queueNames(name: string, value: unknown, own = false): readonly string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > 100) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a list of 1 to 100 queue names, not ${show(value)}.`,
    )
  }
  // Not `map`, which leaves holes as they are.
  return [...new Set(Array.from(value, (queue, index) => queueName(`${name}[${index}]`, queue, own)))]
}

function kindNames(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > 1_000) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a list of 1 to 1000 kinds, not ${show(value)}. Leave it out for all kinds.`,
    )
  }
  return [...new Set(Array.from(value, (kind, index) => text(`${name}[${index}]`, kind)))]
}

/** How to claim jobs by hand. */
export interface ClaimOptions {
  /** @default ['default'] */
  readonly queues?: readonly string[] | undefined
  /** Only these kinds. @default all */
  readonly kinds?: readonly string[] | undefined
  /** Who is asking, for people to see. @default 'anonymous' */
  readonly workerId?: string | undefined
  /** How many at most. @default 1 */
  readonly limit?: number | undefined
  /** How long they are held without a renewal. @default 30_000 */
  readonly leaseMs?: Duration | undefined
}

export function resolveClaim(options: ClaimOptions): ClaimRequest {
  onlyKeys('claim', options, ['queues', 'kinds', 'workerId', 'limit', 'leaseMs'])
  const { queues = ['default'], kinds, workerId = 'anonymous', limit = 1, leaseMs = 30_000 } = options
  return {
    queues: queueNames('claim.queues', queues),
    kinds: kinds === undefined ? null : kindNames('claim.kinds', kinds),
    workerId: text('claim.workerId', workerId),
    limit: whole('claim.limit', limit, { min: 1, max: 1_000 }),
    leaseMs: leaseSpan('claim.leaseMs', leaseMs),
  }
}

/** What came of an attempt, and how long it took as its handler knows it. */
export interface Ending {
  readonly outcome: Outcome
  readonly ranMs: number | null
}

/** What an ack says. */
export function resolveAck(options: AckOptions): Ending {
  onlyKeys('ack', options, ['tx', 'result', 'ranMs'])
  const result = options.result === undefined ? null : encodeJson('ack.result', options.result)
  return { outcome: { kind: 'returned', result }, ranMs: ranSpan('ack.ranMs', options.ranMs) }
}

/** What a nack says. */
export function resolveNack(options: NackOptions): Ending {
  onlyKeys('nack', options, [
    ...['tx', 'error', 'retryInMs', 'backoff', 'dead', 'handBack', 'snoozeMs', 'ranMs'],
  ])
  const { error, retryInMs, backoff, dead = false, handBack = false, snoozeMs } = options
  const ranMs = ranSpan('nack.ranMs', options.ranMs)
  flag('nack.dead', dead)
  const isFailure = dead || error !== undefined || retryInMs !== undefined || backoff !== undefined
  if (flag('nack.handBack', handBack)) {
    // It is nobody's fault and nobody's to delay: anything that says otherwise is a mistake.
    if (isFailure || snoozeMs !== undefined) throw notAFailure('handBack', 'handed back')
    return { outcome: { kind: 'interrupted', delayMs: 0 }, ranMs }
  }
  if (snoozeMs !== undefined) {
    if (isFailure) throw notAFailure('snoozeMs', 'snoozed')
    return {
      outcome: { kind: 'snoozed', delayMs: duration('nack.snoozeMs', snoozeMs, { max: maxSpanMs }) },
      ranMs,
    }
  }
  const outcome = {
    kind: 'threw',
    error: encodeError(error === undefined ? 'nack' : error),
    dead,
    ...resolveRetry(retryInMs, backoff),
  } as const
  return { outcome, ranMs }
}

/** When the job is tried again, where the nack says so. */
function resolveRetry(
  retryInMs: NackOptions['retryInMs'],
  backoff: NackOptions['backoff'],
): { retryInMs?: number; backoff?: Partial<Backoff> } {
  if (retryInMs !== undefined && backoff !== undefined) {
    throw new SignalboxError(
      'invalid_argument',
      'nack has both retryInMs and backoff. Give retryInMs for one fixed wait, or backoff for a wait that grows with the attempts.',
      { details: { option: 'nack.backoff' } },
    )
  }
  if (retryInMs !== undefined) return { retryInMs: duration('nack.retryInMs', retryInMs, { max: maxSpanMs }) }
  if (backoff === undefined) return {}
  const whole = resolveBackoff('nack.backoff', backoff, backoffDefaults)
  // Only what was given: the rest is the job's own.
  const given = Object.entries(whole).filter(([key]) => backoff[key as keyof Backoff] !== undefined)
  return { backoff: Object.fromEntries(given) }
}

function ranSpan(name: string, value: number | undefined): number | null {
  return value === undefined ? null : whole(name, value, { max: maxRanMs })
}

function notAFailure(option: 'handBack' | 'snoozeMs', done: string): SignalboxError {
  const others =
    option === 'handBack'
      ? 'error, retryInMs, backoff, snoozeMs or dead'
      : 'error, retryInMs, backoff or dead'
  return new SignalboxError(
    'invalid_argument',
    `nack has ${option} and also ${others}; a job that is ${done} has not failed. Give one of them.`,
    { details: { option: `nack.${option}` } },
  )
}

/** A lease lasts from 100 ms to a day: shorter ones are lost to a busy event loop, longer ones outlive their worker. */
export function leaseSpan(name: string, value: unknown): number {
  return duration(name, value, { min: 100, max: 86_400_000 })
}

/** Which jobs to list. */
export interface ListOptions {
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  readonly state?: JobState | undefined
  /** Words and fields that must all hold: `kind:mail* state:dead payload.order.id:42 "relay is away"`. */
  readonly search?: string | undefined
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** Where the page before ended, as it said. */
  readonly cursor?: string | null | undefined
}

export function resolveList(options: ListOptions): ListQuery & { readonly search?: readonly SearchTerm[] } {
  onlyKeys('list', options, ['queue', 'kind', 'state', 'search', 'limit', 'cursor'])
  const { queue, kind, state, search, limit = 50, cursor } = options
  return {
    ...(search === undefined ? {} : { search: parseSearch(search, 'list.search') }),
    ...(queue === undefined ? {} : { queue: text('list.queue', queue) }),
    ...(kind === undefined ? {} : { kind: text('list.kind', kind) }),
    ...(state === undefined ? {} : { state: oneOf('list.state', state, jobStates) }),
    limit: whole('list.limit', limit, { min: 1, max: 500 }),
    ...(cursor === undefined || cursor === null ? {} : { before: text('list.cursor', cursor) }),
  }
}
