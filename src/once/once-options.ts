import type { CallerTransaction } from '../core/caller-transaction.ts'
import type { Duration } from '../core/duration.ts'
import { invalidArgument, SignalboxError } from '../core/errors.ts'
import { duration, oneOf, onlyKeys, show, text, whole, withDefaults } from '../core/options.ts'
import type { GuardAsk, GuardMode, GuardQuery, GuardRef } from './guard-store.ts'

/** How guards behave when their store does not answer. */
export interface OnceOptions {
  /**
   * The answer when the store is unreachable, busy or too slow. `open`: run, at the risk of running twice. `closed`:
   * do not run, at the risk of not running at all. A claim with the mode `at-most-once` is always answered as
   * `closed`. Every such answer has `degraded: true` and is counted. With your own `tx`, the error is thrown instead.
   * @default 'open'
   */
  readonly whenDown?: 'open' | 'closed' | undefined
  /** How long the store may take to answer. @default 2_000 */
  readonly timeoutMs?: Duration | undefined
}

export const onceDefaults: { readonly whenDown: 'open' | 'closed'; readonly timeoutMs: Duration } = {
  whenDown: 'open',
  timeoutMs: 2_000,
}

export interface ResolvedOnceOptions {
  readonly whenDown: 'open' | 'closed'
  readonly timeoutMs: number
}

const day = 86_400_000

export function resolveOnceOptions(options: OnceOptions = {}): ResolvedOnceOptions {
  const { whenDown, timeoutMs } = withDefaults('once', options, onceDefaults)
  return Object.freeze({
    whenDown: oneOf('once.whenDown', whenDown, ['open', 'closed']),
    timeoutMs: duration('once.timeoutMs', timeoutMs, { min: 10, max: 600_000 }),
  })
}

/** The space of a key: `once` for callers' keys, `processing` for running tasks, which are free as soon as they end. */
export type OnceSpace = 'once' | 'processing'

/** The space and the transaction of a call. */
export interface PlaceOptions {
  /** @default 'once' */
  readonly space?: OnceSpace | undefined
  /** Your transaction, or that of `job.transaction`: the step takes effect when it commits. Needs guards in SQL. */
  readonly tx?: CallerTransaction | undefined
}

export interface ClaimManyOptions extends PlaceOptions {
  /** How long a claim is valid before another caller may claim the key. @default 30_000 */
  readonly leaseMs?: Duration | undefined
  /** How long the end is remembered: a result, or the number of failures. @default 86_400_000 */
  readonly keepMs?: Duration | undefined
  /**
   * After the lease of a claim ends without a result: another caller may claim the key (`at-least-once`), or no caller
   * until an operator forgets the key (`at-most-once`). @default 'at-least-once'
   */
  readonly mode?: GuardMode | undefined
}

export interface ClaimOptions extends ClaimManyOptions {
  /**
   * Identifies the request of the key, 1 to 191 characters. The same key with another fingerprint throws
   * `fingerprint_mismatch`. @default none
   */
  readonly fingerprint?: string | undefined
}

const claimManyKeys: readonly string[] = ['leaseMs', 'keepMs', 'mode', 'space', 'tx']
/** The options of a claim of one key. */
export const claimOptionKeys: readonly string[] = [...claimManyKeys, 'fingerprint']

/** The terms of a claim, without its key. */
export type ClaimTerms = Omit<GuardAsk, 'key'>

export function resolveClaim(
  name: string,
  options: ClaimOptions,
  keys: readonly string[] = claimManyKeys,
): ClaimTerms {
  onlyKeys(name, options, keys)
  const { leaseMs = 30_000, fingerprint, keepMs = day, mode = 'at-least-once' } = options
  const space = resolveSpace(name, options)
  if (space === 'processing') {
    for (const option of ['keepMs', 'mode', 'fingerprint'] as const)
      if (options[option] !== undefined) throw noneOfTasks(name, option)
    return { space, leaseMs: leaseSpan(`${name}.leaseMs`, leaseMs), keepMs: 0, mode, fingerprint: null }
  }
  return {
    space,
    leaseMs: leaseSpan(`${name}.leaseMs`, leaseMs),
    keepMs: duration(`${name}.keepMs`, keepMs, { max: 3_650 * day }),
    mode: oneOf(`${name}.mode`, mode, ['at-least-once', 'at-most-once']),
    fingerprint: fingerprint === undefined ? null : text(`${name}.fingerprint`, fingerprint),
  }
}

function noneOfTasks(name: string, option: string): SignalboxError {
  return invalidArgument(
    `${name} has ${option} in the space "processing", which keeps nothing of an ended task. Leave it out.`,
    option,
  )
}

export function resolvePlace(name: string, options: PlaceOptions): OnceSpace {
  onlyKeys(name, options, ['space', 'tx'])
  return resolveSpace(name, options)
}

function resolveSpace(name: string, { space = 'once' }: PlaceOptions): OnceSpace {
  return oneOf(`${name}.space`, space, ['once', 'processing'])
}

/** A claim lasts from 100 ms to a day. */
export function leaseSpan(name: string, value: unknown): number {
  return duration(name, value, { min: 100, max: day })
}

/** The most keys of one call. */
const mostKeys = 1_000

export function resolveKeys(keys: unknown): readonly string[] {
  if (!Array.isArray(keys)) throw invalidArgument(`claimMany takes an array of keys, not ${show(keys)}.`)
  if (keys.length > mostKeys) {
    throw new SignalboxError(
      'too_large',
      `claimMany takes at most ${mostKeys} keys, not ${keys.length}. Claim them in several calls.`,
      { details: { maxKeys: mostKeys } },
    )
  }
  return keys.map((key, index) => text(`keys[${index}]`, key))
}

/** Checks the key and token of a call. Tokens have at most 35 characters; much longer ones are refused here. */
export function resolveRef(name: string, key: unknown, token: unknown, options: PlaceOptions): GuardRef {
  const space = resolvePlace(name, options)
  return { space, key: text(`${name}.key`, key), token: text(`${name}.token`, token, { max: 64 }) }
}

export interface ListGuardsOptions {
  /** Only keys that contain this text. */
  readonly search?: string | undefined
  /** @default 'once' */
  readonly space?: OnceSpace | undefined
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the page before. */
  readonly cursor?: string | null | undefined
}

export function resolveListGuards(options: ListGuardsOptions): GuardQuery {
  onlyKeys('list', options, ['search', 'space', 'limit', 'cursor'])
  const { search, limit = 50, cursor } = options
  return {
    space: resolveSpace('list', options),
    limit: whole('list.limit', limit, { min: 1, max: 500 }),
    ...(search !== undefined && { search: text('list.search', search) }),
    ...(cursor !== undefined && cursor !== null && { cursor: resolveCursor(cursor) }),
  }
}

function resolveCursor(cursor: unknown): string {
  if (typeof cursor === 'string' && /^[\w-]{1,8192}$/.test(cursor)) return cursor
  throw invalidArgument('list.cursor is not one that a page ended with.')
}
