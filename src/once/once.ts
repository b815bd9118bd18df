import { inCallerTransaction } from '../core/caller-transaction.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import type { Duration } from '../core/duration.ts'
import { SignalboxError } from '../core/errors.ts'
import type { EventSource } from '../core/events.ts'
import { encodeJson } from '../core/json.ts'
import { text } from '../core/options.ts'
import { createUpkeep } from '../core/upkeep.ts'
import { askWithin, claimKeys, isDegradedToken, isDown } from './guard-claims.ts'
import type { ClaimAnswer, Guard, GuardEnd, GuardStore, RunAnswer, SeenAnswer } from './guard-store.ts'
import {
  type GuardedRun,
  type ProcessingOptions,
  type RunOptions,
  runOnce,
  runProcessing,
} from './guarded-run.ts'
import {
  type ClaimManyOptions,
  type ClaimOptions,
  claimOptionKeys,
  type ListGuardsOptions,
  leaseSpan,
  type OnceOptions,
  type PlaceOptions,
  resolveClaim,
  resolveKeys,
  resolveListGuards,
  resolveOnceOptions,
  resolvePlace,
  resolveRef,
} from './once-options.ts'
import { type OnceEvents, type OnceStats, OnceTally } from './once-tally.ts'
import { type ChangeEvent, eventId, resolveSighting, type SeenOptions, type Sighting } from './window.ts'

/**
 * The methods of guards. At most one caller runs a key at a time, and later callers get its result.
 *
 *     absent ──claim──▶ running ──done──▶ done, with its result, for keepMs
 *       ▲                 ├──fail───────▶ failed: claimable at once, as the next attempt
 *       └── forget        └──lease ends─▶ at-least-once: failed; at-most-once: stuck until an operator forgets it
 */
export interface Once extends AsyncDisposable {
  /** Claims a key. Throws `fingerprint_mismatch` when the key was claimed with another fingerprint. */
  claim(key: string, options?: ClaimOptions): Promise<ClaimAnswer>
  /** Claims up to 1,000 keys in one round trip, and answers in their order. */
  claimMany(keys: readonly string[], options?: ClaimManyOptions): Promise<readonly ClaimAnswer[]>
  /** Ends a claim as done: later claims of the key get `done` and the result. Throws `lease_lost`. */
  done(key: string, token: string, result?: unknown, options?: PlaceOptions): Promise<Settled<'done'>>
  /** Ends a claim as failed: the key may be claimed again at once. Throws `lease_lost`. */
  fail(key: string, token: string, options?: PlaceOptions): Promise<Settled<'failed'>>
  /** Extends a claim to `leaseMs` from now (30,000 by default). It never becomes shorter. Throws `lease_lost`. */
  renew(key: string, token: string, leaseMs?: Duration, options?: PlaceOptions): Promise<Renewed>
  /** Forgets a key in any state, for operators. False: the key was unknown. */
  forget(key: string, options?: Omit<PlaceOptions, 'tx'>): Promise<boolean>
  /**
   * Runs `fn` if the claim succeeds, and renews the claim meanwhile. Then calls `done` with the result, or `fail` if
   * `fn` throws; the caller gets that error. Throws `lease_lost` if the claim was lost meanwhile.
   */
  run<Result>(
    key: string,
    fn: (run: GuardedRun) => Promise<Result> | Result,
    options?: RunOptions,
  ): Promise<RunAnswer<Result>>
  /** Runs `fn` unless another caller runs this task. Afterwards the task is free again, and its result is not kept. */
  processing<Result>(
    taskId: string,
    fn: (run: GuardedRun) => Promise<Result> | Result,
    options?: ProcessingOptions,
  ): Promise<RunAnswer<Result>>
  /**
   * Whether a state was seen within its window. `seen: false`: notify it. This opens the window; repeats do not
   * extend it.
   */
  seen(sighting: Sighting, options?: SeenOptions): Promise<SeenAnswer>
  /** The name of a change: the same for all observers. */
  eventId(event: ChangeEvent): string
  /** The counts since the box was opened. */
  stats(): OnceStats
  /** Guards by key, without their tokens and results. `cursor` is null at the end. */
  list(options?: ListGuardsOptions): Promise<{ items: readonly Guard[]; cursor: string | null }>
  /** The events of guards, for logs and metrics. */
  readonly events: EventSource<OnceEvents>
}

/** The answer to the end of a claim; `degraded`: the store did not know the claim. */
export type Settled<End extends 'done' | 'failed'> = { readonly [Key in End]: true } & {
  readonly degraded?: true
}

export interface Renewed {
  readonly expiresAt: number
  readonly degraded?: true
}

/** The parts of guards. The store comes from a backend. */
export interface OnceParts {
  readonly store: GuardStore
  /** The counts. Modules that claim may share them. @default new counts */
  readonly tally?: OnceTally | undefined
  /** The time of deadlines and renewals. @default systemClock */
  readonly clock?: Clock | undefined
}

export function createOnce(parts: OnceParts, options: OnceOptions = {}): Once {
  const { store, tally = new OnceTally(), clock = systemClock } = parts
  const { whenDown, timeoutMs } = resolveOnceOptions(options)
  const upkeep = createUpkeep({
    ...{ name: 'once.upkeep', idleMs: 30_000, restAfterMs: 600_000 },
    prune: async (limit) => [await store.prune(limit)],
  })
  const claimParts = { store, tally, clock, whenDown, timeoutMs }

  /** Ends a claim. A degraded claim ends without the store, which does not know it. */
  async function settle(call: string, end: GuardEnd, tx: unknown): Promise<{ readonly degraded?: true }> {
    if (isDegradedToken(end.token)) return degradedEnd(call)
    return inCallerTransaction(store, tx, async () => {
      const [isWritten] = await askWithin(claimParts, call, () => store.settle([end], tx))
      if (!isWritten) throw guardLost(end.key)
      return {}
    })
  }

  function degradedEnd(call: string): { readonly degraded: true } {
    tally.degraded(call, whenDown, undefined)
    return { degraded: true }
  }

  const once: Once = {
    async claim(key, options = {}) {
      const terms = resolveClaim('claim', options, claimOptionKeys)
      upkeep.wake()
      const keys = [text('claim.key', key)]
      const [answer] = await claimKeys(claimParts, { call: 'claim', keys, terms, tx: options.tx })
      return answer!
    },

    async claimMany(keys, options = {}) {
      const terms = resolveClaim('claimMany', options)
      const all = resolveKeys(keys)
      upkeep.wake()
      if (all.length === 0) return []
      return claimKeys(claimParts, { call: 'claimMany', keys: all, terms, tx: options.tx })
    },

    async done(key, token, result, options = {}) {
      const ref = resolveRef('done', key, token, options)
      const kept = result === undefined ? null : encodeJson('result', result)
      const end: GuardEnd =
        ref.space === 'processing'
          ? { ...ref, end: 'released', result: null }
          : { ...ref, end: 'done', result: kept }
      return { done: true, ...(await settle('done', end, options.tx)) }
    },

    async fail(key, token, options = {}) {
      const ref = resolveRef('fail', key, token, options)
      const end = ref.space === 'processing' ? 'released' : 'failed'
      return { failed: true, ...(await settle('fail', { ...ref, end, result: null }, options.tx)) }
    },

    async renew(key, token, leaseMs = 30_000, options = {}) {
      const ref = resolveRef('renew', key, token, options)
      const span = leaseSpan('renew.leaseMs', leaseMs)
      if (isDegradedToken(ref.token)) return { expiresAt: Date.now() + span, ...degradedEnd('renew') }
      return inCallerTransaction(store, options.tx, async () => {
        const expiresAt = await askWithin(claimParts, 'renew', () => store.renew(ref, span, options.tx))
        if (expiresAt === undefined) throw guardLost(ref.key)
        return { expiresAt }
      })
    },

    async forget(key, options = {}) {
      const space = resolvePlace('forget', options)
      const name = text('forget.key', key)
      return askWithin(claimParts, 'forget', () => store.forget(space, name))
    },

    run: (key, fn, options = {}) => runOnce(once, key, fn, options, { whenDown, clock }),

    processing: (taskId, fn, options = {}) => runProcessing(once, taskId, fn, options, { whenDown, clock }),

    async seen(sighting, options = {}) {
      const { subject, ...ask } = resolveSighting(sighting, options)
      upkeep.wake()
      try {
        const [seen = false] = await inCallerTransaction(store, options.tx, () =>
          askWithin(claimParts, 'seen', () => store.seen([ask], options.tx)),
        )
        tally.seen(subject, seen)
        return { seen }
      } catch (error) {
        if (options.tx !== undefined || !isDown(error)) throw error
        tally.degraded('seen', whenDown, error)
        return { seen: whenDown === 'closed', degraded: true }
      }
    },

    eventId,
    stats: () => tally.stats(),

    async list(options = {}) {
      const query = resolveListGuards(options)
      return askWithin(claimParts, 'list', () => store.list(query))
    },

    get events() {
      return tally.events
    },

    [Symbol.asyncDispose]: () => upkeep[Symbol.asyncDispose](),
  }
  return once
}

function guardLost(key: string): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `The key ${JSON.stringify(key)} is not, or no longer, claimed with this token: the claim ended, its lease ended, or another caller claimed the key. Nothing was changed.`,
    { details: { key } },
  )
}
