import { inCallerTransaction } from '../core/caller-transaction.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import type { Duration } from '../core/duration.ts'
import { SignalboxError } from '../core/errors.ts'
import type { EventSource } from '../core/events.ts'
import { encodeJson } from '../core/json.ts'
import { text } from '../core/options.ts'
import type { ClaimAnswer, Guard, RunAnswer, SeenAnswer } from './guard.ts'
import { createClaims } from './guard-claims.ts'
import { askWithin, isDegradedToken, isDown } from './guard-deadline.ts'
import type { GuardEnd, GuardStore } from './guard-store.ts'
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
  claimKeys,
  type ListGuardsOptions,
  leaseSpan,
  type OnceOptions,
  type PlaceOptions,
  resolveClaim,
  resolveKeys,
  resolveListGuards,
  resolveOnceOptions,
  resolvePlace,
  resolveToken,
} from './once-options.ts'
import { type OnceEvents, type OnceStats, OnceTally } from './once-tally.ts'
import { createGuardUpkeep } from './upkeep.ts'
import { type ChangeEvent, eventId, resolveSighting, type SeenOptions, type Sighting } from './window.ts'

/**
 * The verbs of the room: at most one runs a key at a time, and its answer is kept for whoever comes later.
 *
 *     absent ──claim──▶ running ──done──▶ done, with its result, for keepMs
 *       ▲                 ├──fail───────▶ failed: claimable at once, as the next attempt
 *       └── forget        └──lease ends─▶ at-least-once: failed; at-most-once: stuck until somebody forgets it
 */
export interface Once extends AsyncDisposable {
  /** Whether to run a key. Throws `fingerprint_mismatch` when it stands for something else. */
  claim(key: string, options?: ClaimOptions): Promise<ClaimAnswer>
  /** The same for up to 1,000 keys in one round trip, answered in their order. */
  claimMany(keys: readonly string[], options?: ClaimManyOptions): Promise<readonly ClaimAnswer[]>
  /** It was done: whoever claims the key now gets `done` and the result. Throws `lease_lost`. */
  done(key: string, token: string, result?: unknown, options?: PlaceOptions): Promise<Settled<'done'>>
  /** It was not done: the key may be claimed again at once. Throws `lease_lost`. */
  fail(key: string, token: string, options?: PlaceOptions): Promise<Settled<'failed'>>
  /** Keeps a claim for another `leaseMs` (30,000 by default), never for less than it has. Throws `lease_lost`. */
  renew(key: string, token: string, leaseMs?: Duration, options?: PlaceOptions): Promise<Renewed>
  /** For operators: forgets a key, whatever it is; false when there was none. */
  forget(key: string, options?: Omit<PlaceOptions, 'tx'>): Promise<boolean>
  /**
   * Runs `fn` if the key is to be run, renewing the claim meanwhile: `done` with what it returns, `fail` when it throws
   * (and the error is thrown on). A claim that was lost meanwhile is `lease_lost`.
   */
  run<Result>(
    key: string,
    fn: (run: GuardedRun) => Promise<Result> | Result,
    options?: RunOptions,
  ): Promise<RunAnswer<Result>>
  /** Runs `fn` unless somebody has this task in hand; when it ends, the task is free again and nothing is kept of it. */
  processing<Result>(
    taskId: string,
    fn: (run: GuardedRun) => Promise<Result> | Result,
    options?: ProcessingOptions,
  ): Promise<RunAnswer<Result>>
  /** Whether this was notified recently. `seen: false` means: notify it, and its window begins; repeats do not prolong it. */
  seen(sighting: Sighting, options?: SeenOptions): Promise<SeenAnswer>
  /** The name of a change: the same for everybody who saw it. */
  eventId(event: ChangeEvent): string
  /** What was counted since the box was opened. */
  stats(): OnceStats
  /** Guards by key, without their tokens and results. `cursor` is null at the end. */
  list(options?: ListGuardsOptions): Promise<{ items: readonly Guard[]; cursor: string | null }>
  /** What happens to guards, for logs and metrics. */
  readonly events: EventSource<OnceEvents>
}

/** That a claim was ended; `degraded` when the store never knew of it. */
export type Settled<End extends 'done' | 'failed'> = { readonly [Key in End]: true } & {
  readonly degraded?: true
}

export interface Renewed {
  readonly expiresAt: number
  readonly degraded?: true
}

/** What the room is made of; the caller hands it in from a backend. */
export interface OnceParts {
  readonly store: GuardStore
  /** Counts; shared with others who claim. @default one of its own */
  readonly tally?: OnceTally | undefined
  /** The time of deadlines and renewals. @default systemClock */
  readonly clock?: Clock | undefined
}

export function createOnce(parts: OnceParts, options: OnceOptions = {}): Once {
  const { store, tally = new OnceTally(), clock = systemClock } = parts
  const { whenDown, timeoutMs } = resolveOnceOptions(options)
  const upkeep = createGuardUpkeep(store)
  const within = { clock, timeoutMs }
  const claims = createClaims({ store, tally, clock, whenDown, timeoutMs })

  /** Ends a claim; one that was the policy's ends without the store, which never knew of it. */
  async function settle(call: string, end: GuardEnd, tx: unknown): Promise<{ readonly degraded?: true }> {
    if (isDegradedToken(end.token)) return degradedEnd(call)
    return inCallerTransaction(store, tx, async () => {
      const [took] = await askWithin(within, call, () => store.settle([end], tx))
      if (!took) throw guardLost(end.key)
      return {}
    })
  }

  function degradedEnd(call: string): { readonly degraded: true } {
    tally.degraded(call, whenDown, undefined)
    return { degraded: true }
  }

  const once: Once = {
    async claim(key, options = {}) {
      const terms = resolveClaim('claim', options, claimKeys)
      upkeep.wake()
      const [answer] = await claims('claim', [text('claim.key', key)], terms, options.tx)
      return answer!
    },

    async claimMany(keys, options = {}) {
      const terms = resolveClaim('claimMany', options)
      const all = resolveKeys(keys)
      upkeep.wake()
      return all.length === 0 ? [] : claims('claimMany', all, terms, options.tx)
    },

    async done(key, token, result, options = {}) {
      const space = resolvePlace('done', options)
      const kept = result === undefined ? null : encodeJson('result', result)
      const ref = { space, key: text('done.key', key), token: resolveToken('done', token) }
      const end: GuardEnd =
        space === 'processing'
          ? { ...ref, end: 'released', result: null }
          : { ...ref, end: 'done', result: kept }
      return { done: true, ...(await settle('done', end, options.tx)) }
    },

    async fail(key, token, options = {}) {
      const space = resolvePlace('fail', options)
      const ref = { space, key: text('fail.key', key), token: resolveToken('fail', token) }
      const end = space === 'processing' ? 'released' : 'failed'
      return { failed: true, ...(await settle('fail', { ...ref, end, result: null }, options.tx)) }
    },

    async renew(key, token, leaseMs = 30_000, options = {}) {
      const space = resolvePlace('renew', options)
      const ref = { space, key: text('renew.key', key), token: resolveToken('renew', token) }
      const span = leaseSpan('renew.leaseMs', leaseMs)
      if (isDegradedToken(ref.token)) return { expiresAt: Date.now() + span, ...degradedEnd('renew') }
      return inCallerTransaction(store, options.tx, async () => {
        const expiresAt = await askWithin(within, 'renew', () => store.renew(ref, span, options.tx))
        if (expiresAt === undefined) throw guardLost(ref.key)
        return { expiresAt }
      })
    },

    async forget(key, options = {}) {
      const space = resolvePlace('forget', options)
      const name = text('forget.key', key)
      return askWithin(within, 'forget', () => store.forget(space, name))
    },

    run: (key, fn, options = {}) => runOnce(once, key, fn, options, { whenDown, clock }),

    processing: (taskId, fn, options = {}) => runProcessing(once, taskId, fn, options, { whenDown, clock }),

    async seen(sighting, options = {}) {
      const { subject, ...ask } = resolveSighting(sighting, options)
      upkeep.wake()
      try {
        const [seen = false] = await inCallerTransaction(store, options.tx, () =>
          askWithin(within, 'seen', () => store.seen([ask], options.tx)),
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
      return askWithin(within, 'list', () => store.list(query))
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
    `The key ${JSON.stringify(key)} is not claimed with this token (any more): it ended, ran out or was taken over. Nothing was changed.`,
    { details: { key } },
  )
}
