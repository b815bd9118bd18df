import { encodeError } from '../core/describe-error.ts'
import { invalidArgument, type SignalboxError } from '../core/errors.ts'
import { encodeJson } from '../core/json.ts'
import { duration, flag, oneOf, onlyKeys, refuse, text, whole, withDefaults } from '../core/options.ts'
import type { AcquireOptions, LockRequest } from './lock.ts'
import type { LockKey, WaitQueueQuery } from './lock-store.ts'
import {
  type AcquireRequest,
  type Conflicts,
  defaultTtlMs,
  type LockTimes,
  type Requester,
} from './rules/index.ts'

/** Time limits of wait queues, how many waiters a wait queue may have, and which operations exclude each other. */
export interface LocksOptions extends LockTimesOptions {
  /** False makes `wait: false` the default of every acquire. @default true */
  readonly multiNode?: boolean | undefined
}

type LockTimesOptions = { readonly [Name in keyof LockTimes]?: LockTimes[Name] | undefined }

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
  conflicts: [],
}

export type ResolvedLocksOptions = LockTimes & { readonly multiNode: boolean }

const day = 86_400_000

export function resolveLocksOptions(options: LocksOptions = {}): ResolvedLocksOptions {
  const given = withDefaults('locks', options, locksDefaults)
  const span = (name: Exclude<keyof LockTimes, 'conflicts'>, min: number) =>
    duration(`locks.${name}`, given[name], { min, max: day })
  const conflicts = resolveConflicts('locks.conflicts', given.conflicts)
  return Object.freeze({
    ...(conflicts.length > 0 && { conflicts }),
    waiterLeaseMs: span('waiterLeaseMs', 100),
    streamedTakeUpMs: span('streamedTakeUpMs', 10),
    takeUpMs: span('takeUpMs', 10),
    keepMs: span('keepMs', 100),
    lockDelayMs: span('lockDelayMs', 0),
    maxWaiters: whole('locks.maxWaiters', given.maxWaiters, { min: 1, max: 1_000_000 }),
    multiNode: flag('locks.multiNode', given.multiNode),
  })
}

/** Each step reads the wait queues of all conflicting operations, so their number is limited. */
const maxConflicts = 64

/** Checks pairs of operations. */
export function resolveConflicts(name: string, conflicts: unknown): Conflicts {
  if (!Array.isArray(conflicts))
    throw refuseConflicts(name, "pairs of operations, such as [['pull', 'delete']]")
  if (conflicts.length > maxConflicts) throw refuseConflicts(name, `at most ${maxConflicts} pairs`)
  return Object.freeze(
    conflicts.map((pair: unknown, at) => {
      if (!Array.isArray(pair) || pair.length !== 2)
        throw refuseConflicts(`${name}[${at}]`, "a pair of operations, such as ['pull', 'delete']")
      const [one, other] = pair.map((operation) => text(`${name}[${at}]`, operation)) as [string, string]
      if (one === other)
        throw refuseConflicts(
          `${name}[${at}]`,
          'two different operations: an operation always excludes itself',
        )
      return Object.freeze([one, other] as const)
    }),
  )
}

function refuseConflicts(name: string, allowed: string): SignalboxError {
  return invalidArgument(`${name} must be ${allowed}.`, name)
}

const requestKeys: readonly string[] = ['operation', 'resource', 'node', 'requestId']

/** The fields of a request, and further fields. */
export function requestKeysAnd(...more: readonly string[]): readonly string[] {
  return [...requestKeys, ...more]
}

const acquireKeys = requestKeysAnd('wait', 'want', 'ttlMs', 'deadlineMs')

/** Checks the key of a call. */
export function resolveKey(name: string, key: LockKey): LockKey {
  if (typeof key !== 'object' || key === null) refuse(name, 'an object', key)
  const { operation, resource } = key
  return {
    operation: text(`${name}.operation`, operation),
    resource: text(`${name}.resource`, resource, { max: 1_024 }),
  }
}

/** Checks the requester of a call. */
export function resolveRequester(name: string, { node, requestId }: Partial<LockRequest>): Requester {
  const own = text(`${name}.node`, node)
  return { node: own, requestId: requestId === undefined ? own : text(`${name}.requestId`, requestId) }
}

/** Refuses unknown fields. */
export function onlyRequestKeys(name: string, request: object, keys: readonly string[] = requestKeys): void {
  onlyKeys(name, request, keys)
}

export function resolveAcquire(
  options: AcquireOptions,
  waitByDefault: boolean,
  isStreamed: boolean,
): AcquireRequest {
  onlyRequestKeys('acquire', options, acquireKeys)
  const { wait = waitByDefault, want = 'result', ttlMs = defaultTtlMs, deadlineMs = null } = options
  return {
    ...resolveRequester('acquire', options),
    wait: flag('acquire.wait', wait),
    want: oneOf('acquire.want', want, ['result', 'turn']),
    ttlMs: lockSpan('acquire.ttlMs', ttlMs),
    deadlineMs: deadlineMs === null ? null : deadlineSpan('acquire.deadlineMs', deadlineMs),
    isStreamed,
  }
}

/** A wait lasts a year at most. */
export function deadlineSpan(name: string, value: unknown): number {
  return duration(name, value, { max: 365 * day })
}

/** A grant lasts from 100 ms to a day. */
export function lockSpan(name: string, value: unknown): number {
  return duration(name, value, { min: 100, max: day })
}

export function resolveToken(name: string, token: unknown): number {
  return whole(`${name}.token`, token, { min: 1 })
}

/** Checks the end of a turn and encodes it for the store. */
export function resolveEnd(options: {
  readonly outcome?: unknown
  readonly result?: unknown
  readonly error?: unknown
  readonly terminal?: unknown
}): { readonly outcome: 'success' | 'failure'; readonly value: string | null; readonly terminal: boolean } {
  const { result, error, terminal = false } = options
  const outcome = oneOf('release.outcome', options.outcome, ['success', 'failure'])
  if (outcome === 'success') {
    refuseField('error', error !== undefined)
    refuseField('terminal', flag('release.terminal', terminal))
    return {
      outcome,
      value: result === undefined ? null : encodeJson('release.result', result),
      terminal: false,
    }
  }
  if (result !== undefined) {
    throw invalidArgument('release has a result with the outcome "failure"; give an error.')
  }
  return { outcome, value: encodeError(error ?? 'failed'), terminal: flag('release.terminal', terminal) }
}

function refuseField(field: string, isGiven: boolean): void {
  if (!isGiven) return
  throw invalidArgument(`release has ${field} with the outcome "success"; leave it out.`)
}

export interface ListLocksOptions {
  readonly operation?: string | undefined
  /** Only resources that contain this text. */
  readonly search?: string | undefined
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The `cursor` of the page before. */
  readonly cursor?: string | null | undefined
}

export function resolveListLocks(options: ListLocksOptions): WaitQueueQuery {
  onlyKeys('list', options, ['operation', 'search', 'limit', 'cursor'])
  const { operation, search, limit = 50, cursor } = options
  return {
    ...(operation === undefined ? {} : { operation: text('list.operation', operation) }),
    ...(search === undefined ? {} : { search: text('list.search', search) }),
    limit: whole('list.limit', limit, { min: 1, max: 500 }),
    ...(cursor === undefined || cursor === null ? {} : { after: decodeCursor(cursor) }),
  }
}

/** Encodes the last key of a page as text that is safe in a URL. */
export function encodeCursor({ operation, resource }: LockKey): string {
  return Buffer.from(JSON.stringify([operation, resource])).toString('base64url')
}

function decodeCursor(cursor: unknown): LockKey {
  try {
    const [operation, resource] = JSON.parse(Buffer.from(String(cursor), 'base64url').toString())
    return resolveKey('list.cursor', { operation, resource })
  } catch {
    // Not a cursor of ours: refused below.
  }
  throw invalidArgument('list.cursor is not one that a page ended with.')
}
