import { type Backoff, resolveBackoff } from '../../core/backoff.ts'
import { encodeError } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { invalidArgument, type SignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import { setNewest } from '../../core/newest-entries.ts'
import { duration, flag, listOf, onlyKeys, text, whole } from '../../core/options.ts'
import type { ClaimedJob } from '../job.ts'
import type { ClaimRequest, JobStore } from '../job-store.ts'
import { backoffDefaults, type Judged, type Outcome } from '../lifecycle.ts'
import { leaseSpan, maxSpanMs, queueNames } from './add-options.ts'
import type { AckOptions, Held, NackOptions } from './jobs-api.ts'

/** The facts of a held job that `judge` needs. */
export interface JudgedHeld extends Judged {
  readonly cancelRequested: boolean
  /** Undefined: the job no longer exists. */
  readonly queue: string | undefined
  readonly kind: string | undefined
  /** When this process claimed the job, by its own clock. Null: another process did. */
  readonly claimedAt: number | null
}

type ClaimFacts = Omit<JudgedHeld, 'cancelRequested' | 'claimedAt'>

const factNames = [
  'attempt',
  'maxAttempts',
  'handBackCount',
  'snoozeCount',
  'backoff',
  'queue',
  'kind',
] as const satisfies readonly (keyof ClaimFacts)[]

function hasFacts(job: Held): job is ClaimedJob {
  return factNames.every((name) => job[name] !== undefined)
}

function factsOf(job: ClaimedJob): ClaimFacts {
  const { id, token, attempt, maxAttempts, handBackCount, snoozeCount, backoff, queue, kind } = job
  return { id, token, attempt, maxAttempts, handBackCount, snoozeCount, backoff, queue, kind }
}

/** Reads the facts from the job, or from the store if the job has only id and token. Throws `invalid_argument`. */
export async function judgedOf(store: Pick<JobStore, 'find'>, job: Held): Promise<JudgedHeld> {
  const { id, token, cancelRequested = false } = checkHeld(job)
  if (hasFacts(job)) return { ...factsOf(job), cancelRequested, claimedAt: null }
  // Except for the cancellation request, none of these change while the lease lives, and without a lease nothing is
  // written. So any values will do for a job that is gone: the store answers a repeated request with its first answer,
  // and every other one with `lease_lost`.
  const record = await store.find(id)
  // A job that has ended was counted at its end: this is a repeated request.
  const counted = record?.state === 'running' ? {} : { kind: undefined }
  return { ...(record ?? gone), ...counted, id, token, claimedAt: null }
}

const gone = {
  attempt: 1,
  maxAttempts: 1,
  handBackCount: 0,
  snoozeCount: 0,
  backoff: null,
  cancelRequested: false,
  queue: undefined,
  kind: undefined,
}

/** Checks that the value is a claimed job. Throws `invalid_argument`. */
export function checkHeld(job: Held): Held {
  if (typeof job !== 'object' || job === null || typeof job.token !== 'string') {
    throw invalidArgument('This is not a claimed job: it needs the id and token that claim gave.')
  }
  text('job.id', job.id)
  return job
}

/**
 * What `judge` needs of jobs that were claimed here lately, so that an ack with only id and token needs no look-up.
 * None of it changes while the lease lives, and without a lease nothing is written. Bounded: the oldest are forgotten.
 */
export class RecentClaims {
  readonly #claims = new Map<string, Omit<JudgedHeld, 'cancelRequested'>>()

  remember(jobs: readonly ClaimedJob[]): void {
    const claimedAt = performance.now()
    for (const job of jobs) setNewest(this.#claims, job.id, { ...factsOf(job), claimedAt }, maxClaims)
  }

  find(id: string, token: string): Omit<JudgedHeld, 'cancelRequested'> | undefined {
    const claim = this.#claims.get(id)
    return claim?.token === token ? claim : undefined
  }

  forget(id: string): void {
    this.#claims.delete(id)
  }
}

const maxClaims = 10_000

/** How to claim jobs by hand. */
export interface ClaimOptions {
  /** @default ['default'] */
  readonly queues?: readonly string[] | undefined
  /** Only these kinds. @default all */
  readonly kinds?: readonly string[] | undefined
  /** The claimer's name, as people see it. @default 'anonymous' */
  readonly workerId?: string | undefined
  /** The most jobs to claim. @default 1 */
  readonly limit?: number | undefined
  /** How long the leases are valid without renewal. @default 30_000 */
  readonly leaseMs?: Duration | undefined
}

export function resolveClaim(options: ClaimOptions): ClaimRequest {
  onlyKeys('claim', options, ['queues', 'kinds', 'workerId', 'limit', 'leaseMs'])
  const { queues = ['default'], kinds, workerId = 'anonymous', limit = 1, leaseMs = 30_000 } = options
  return {
    queues: queueNames('claim.queues', queues),
    kinds: kinds === undefined ? null : listOf('claim.kinds', kinds, 'kinds', { min: 1, max: 1_000 }, text),
    workerId: text('claim.workerId', workerId),
    limit: whole('claim.limit', limit, { min: 1, max: 1_000 }),
    leaseMs: leaseSpan('claim.leaseMs', leaseMs),
  }
}

/** The outcome of an attempt, and how long its handler ran. */
export interface Ending {
  readonly outcome: Outcome
  readonly ranMs: number | null
}

export function resolveAck(options: AckOptions): Ending {
  onlyKeys('ack', options, ['tx', 'result', 'ranMs'])
  const result = options.result === undefined ? null : encodeJson('ack.result', options.result)
  return { outcome: { kind: 'returned', result }, ranMs: ranSpan('ack.ranMs', options.ranMs) }
}

const nackKeys = ['tx', 'error', 'retryInMs', 'backoff', 'dead', 'handBack', 'snoozeMs', 'ranMs']

export function resolveNack(options: NackOptions): Ending {
  onlyKeys('nack', options, nackKeys)
  const { error, retryInMs, backoff, dead = false, handBack = false, snoozeMs } = options
  const ranMs = ranSpan('nack.ranMs', options.ranMs)
  flag('nack.dead', dead)
  const isFailure = dead || error !== undefined || retryInMs !== undefined || backoff !== undefined
  if (flag('nack.handBack', handBack)) {
    // A hand-back is no failure and has no delay.
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

/** When the job runs again, if the nack says so. */
function resolveRetry(
  retryInMs: NackOptions['retryInMs'],
  backoff: NackOptions['backoff'],
): { retryInMs?: number; backoff?: Partial<Backoff> } {
  if (retryInMs !== undefined && backoff !== undefined) {
    throw invalidArgument(
      'nack has both retryInMs and backoff. Give retryInMs for one fixed wait, or backoff for a wait that grows with the attempts.',
      'nack.backoff',
    )
  }
  if (retryInMs !== undefined) return { retryInMs: duration('nack.retryInMs', retryInMs, { max: maxSpanMs }) }
  if (backoff === undefined) return {}
  const whole = resolveBackoff('nack.backoff', backoff, backoffDefaults)
  // Only the given fields: the job has its own values for the others.
  const given = Object.entries(whole).filter(([key]) => backoff[key as keyof Backoff] !== undefined)
  return { backoff: Object.fromEntries(given) }
}

/** A year: an attempt that ran longer is a mistake. */
const maxRanMs = 31_557_600_000

function ranSpan(name: string, value: number | undefined): number | null {
  return value === undefined ? null : whole(name, value, { max: maxRanMs })
}

function notAFailure(option: 'handBack' | 'snoozeMs', done: string): SignalboxError {
  const others =
    option === 'handBack'
      ? 'error, retryInMs, backoff, snoozeMs or dead'
      : 'error, retryInMs, backoff or dead'
  return invalidArgument(
    `nack has ${option} and also ${others}; a job that is ${done} has not failed. Give one of them.`,
    `nack.${option}`,
  )
}
