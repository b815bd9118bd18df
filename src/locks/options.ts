import { SignalboxError } from '../core/errors.ts'
import { encodeError } from '../core/failure.ts'
import { encodeJson } from '../core/json.ts'
import { duration, flag, oneOf, onlyKeys, text, whole, withDefaults } from '../core/options.ts'
import type { AcquireAsk, LineTimes, Requester } from '../lines/index.ts'
import type { AcquireOptions, LockRequest } from './lock.ts'
import type { LineQuery, LockKey } from './store.ts'

/** How long things last in a box's lines, and how long a line may be. */
export interface LocksOptions {
  /** A waiter that neither asks nor has an open stream is passed over after so long. @default 30_000 */
  readonly waiterLeaseMs?: number | undefined
  /** How long a granted waiter with an open stream may take to take it up. @default 2_000 */
  readonly streamedTakeUpMs?: number | undefined
  /** The same without a stream. @default 10_000 */
  readonly takeUpMs?: number | undefined
  /** How long the end is kept for those who waited. @default 60_000 */
  readonly keepMs?: number | undefined
  /** After a lease that ran out nobody is granted for so long. @default 0 */
  readonly lockDelayMs?: number | undefined
  /** The most who may wait in one line. @default 10_000 */
  readonly maxWaiters?: number | undefined
  /** False makes `wait: false` the default of every acquire. @default true */
  readonly multiNode?: boolean | undefined
}

export const locksDefaults: Required<{
  readonly [Key in keyof LocksOptions]: NonNullable<LocksOptions[Key]>
}> = {
  waiterLeaseMs: 30_000,
  streamedTakeUpMs: 2_000,
  takeUpMs: 10_000,
  keepMs: 60_000,
  lockDelayMs: 0,
  maxWaiters: 10_000,
  multiNode: true,
}

export type ResolvedLocksOptions = LineTimes & { readonly multiNode: boolean }

const day = 86_400_000

export function resolveLocksOptions(options: LocksOptions = {}): ResolvedLocksOptions {
  const given = withDefaults('locks', options, locksDefaults)
  const span = (name: keyof LineTimes, min: number) =>
    duration(`locks.${name}`, given[name], { min, max: day })
  return Object.freeze({
    waiterLeaseMs: span('waiterLeaseMs', 100),
    streamedTakeUpMs: span('streamedTakeUpMs', 10),
    takeUpMs: span('takeUpMs', 10),
    keepMs: span('keepMs', 100),
    lockDelayMs: span('lockDelayMs', 0),
    maxWaiters: whole('locks.maxWaiters', given.maxWaiters, { min: 1, max: 1_000_000 }),
    multiNode: flag('locks.multiNode', given.multiNode),
  })
}

const requestKeys = ['operation', 'resource', 'node', 'requestId']

/** The key a call is about. */
export function resolveKey(name: string, { operation, resource }: LockKey): LockKey {
  return {
    operation: text(`${name}.operation`, operation),
    resource: text(`${name}.resource`, resource, { max: 1_024 }),
  }
}

/** Who makes a call. */
export function resolveRequester(name: string, { node, requestId }: Partial<LockRequest>): Requester {
  const own = text(`${name}.node`, node)
  return { node: own, requestId: requestId === undefined ? own : text(`${name}.requestId`, requestId) }
}

/** Refuses what is not among the fields of a request and those named. */
export function onlyRequestKeys(name: string, request: object, more: readonly string[] = []): void {
  onlyKeys(name, request, [...requestKeys, ...more])
}

export function resolveAcquire(
  options: AcquireOptions,
  waitByDefault: boolean,
  isStreamed: boolean,
): AcquireAsk {
  onlyRequestKeys('acquire', options, ['wait', 'want', 'ttlMs', 'deadlineMs'])
  const { wait = waitByDefault, want = 'result', ttlMs = 30_000, deadlineMs = null } = options
  return {
    ...resolveRequester('acquire', options),
    wait: flag('acquire.wait', wait),
    want: oneOf('acquire.want', want, ['result', 'turn']),
    ttlMs: lockSpan('acquire.ttlMs', ttlMs),
    deadlineMs: deadlineMs === null ? null : duration('acquire.deadlineMs', deadlineMs, { max: 365 * day }),
    isStreamed,
  }
}

/** A grant lasts from 100 ms to a day. */
export function lockSpan(name: string, value: unknown): number {
  return duration(name, value, { min: 100, max: day })
}

export function resolveToken(name: string, token: unknown): number {
  return whole(`${name}.token`, token, { min: 1 })
}

/** How a turn ended, as a store keeps it. */
export function resolveEnd(options: {
  readonly outcome?: unknown
  readonly result?: unknown
  readonly error?: unknown
  readonly terminal?: unknown
}): { readonly outcome: 'success' | 'failure'; readonly value: string | null; readonly terminal: boolean } {
  const { result, error, terminal = false } = options
  const outcome = oneOf('release.outcome', options.outcome, ['success', 'failure'])
  if (outcome === 'success') {
    refuse('error', error !== undefined)
    refuse('terminal', flag('release.terminal', terminal))
    return {
      outcome,
      value: result === undefined ? null : encodeJson('release.result', result),
      terminal: false,
    }
  }
  if (result !== undefined) {
    throw new SignalboxError(
      'invalid_argument',
      'release has a result with the outcome "failure"; give an error.',
    )
  }
  return { outcome, value: encodeError(error ?? 'failed'), terminal: flag('release.terminal', terminal) }
}

function refuse(field: string, isGiven: boolean): void {
  if (!isGiven) return
  throw new SignalboxError(
    'invalid_argument',
    `release has ${field} with the outcome "success"; leave it out.`,
  )
}

export interface ListLocksOptions {
  readonly operation?: string | undefined
  /** Only resources that contain this text. */
  readonly search?: string | undefined
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** Where the page before ended, as it said. */
  readonly cursor?: string | null | undefined
}

export function resolveListLocks(options: ListLocksOptions): LineQuery {
  onlyKeys('list', options, ['operation', 'search', 'limit', 'cursor'])
  const { operation, search, limit = 50, cursor } = options
  return {
    ...(operation === undefined ? {} : { operation: text('list.operation', operation) }),
    ...(search === undefined ? {} : { search: text('list.search', search) }),
    limit: whole('list.limit', limit, { min: 1, max: 500 }),
    ...(cursor === undefined || cursor === null ? {} : { after: decodeCursor(cursor) }),
  }
}

/** The last key of a page, as text that can stand in an address as it is. */
export function encodeCursor({ operation, resource }: LockKey): string {
  return Buffer.from(JSON.stringify([operation, resource])).toString('base64url')
}

function decodeCursor(cursor: unknown): LockKey {
  try {
    const [operation, resource] = JSON.parse(Buffer.from(String(cursor), 'base64url').toString())
    return resolveKey('list.cursor', { operation, resource })
  } catch {
    // As below: whatever it is, it is none of ours.
  }
  throw new SignalboxError('invalid_argument', 'list.cursor is not one that a page ended with.')
}
