import type { Duration } from '../core/duration.ts'
import { SignalboxError } from '../core/errors.ts'
import { encodeJson } from '../core/json.ts'
import { onlyKeys } from '../core/options.ts'
import { decodeHolder, decodeQueue, decodeStanding, describe, emptyQueue } from './decode-lock.ts'
import { type Held, type HoldOptions, holdLock, type LockCalls } from './held-lock.ts'
import { Waits } from './local-waits.ts'
import type { AcquireAnswer, AcquireOptions, LockEvent, LockHolder, LockQueue, LockRequest } from './lock.ts'
import type { LockKey, LockStore } from './lock-store.ts'
import { createWaitQueueNotifier, type LocksNotifier, requesterTopic, wakeForStep } from './lock-topics.ts'
import {
  encodeCursor,
  type ListLocksOptions,
  type LocksOptions,
  lockSpan,
  onlyRequestKeys,
  requestKeysAnd,
  resolveAcquire,
  resolveEnd,
  resolveKey,
  resolveListLocks,
  resolveLocksOptions,
  resolveRequester,
  resolveToken,
} from './locks-options.ts'
import type { Released, Requester, Ruled } from './rules/index.ts'
import { type FlightOptions, runSingleFlight } from './single-flight.ts'
import { createSweeper } from './upkeep.ts'
import { createWatcher, type WatchOptions } from './watch-lock.ts'

/**
 * The verbs of the module, for users, the server and the command line. A verb checks its options, the store takes the
 * step, and the notifier wakes the requesters that the step changed.
 */
export interface Locks extends AsyncDisposable {
  /** Asks for a lock; with the same requestId again, answers how that request stands. */
  acquire(options: AcquireOptions): Promise<AcquireAnswer>
  /** Ends a turn with its outcome. Throws `lease_lost`, and changes nothing, if the requester no longer holds the lock. */
  release(options: ReleaseOptions): Promise<{ readonly next: string | null }>
  /** Extends the grant by `ttlMs`, by default the last one, and shows the progress to waiters. Throws `lease_lost`. */
  renew(options: RenewOptions): Promise<{ readonly expiresAt: number }>
  /** Leaves the wait queue, or declines a grant that was not taken up yet. Throws `conflict` if the turn has begun. */
  leave(options: LockRequest): Promise<{ readonly left: boolean }>
  inspect(key: LockKey): Promise<LockQueue>
  /** Lists wait queues with a holder or waiters. `cursor` is null at the end. */
  list(options?: ListLocksOptions): Promise<{ items: readonly LockSummary[]; cursor: string | null }>
  /** For operators: removes a holder or a waiter. A holder's turn ends as a failure. Throws `not_found`. */
  evict(options: LockRequest): Promise<{ readonly evicted: true }>
  /** The events of a wait queue: those of `node` if it is named, else all. A waiter keeps its position while it watches. */
  watch(options: WatchOptions): AsyncIterable<LockEvent>
  /**
   * The whole loop: check, ask for the lock, wait, check again, and run only if no other requester has done it.
   *
   *     const image = await locks.singleFlight('pull', 'app:1.2', { node, check: findInCache, run: (held) => pull(held.signal) })
   */
  singleFlight<Value>(operation: string, resource: string, options: FlightOptions<Value>): Promise<Value>
  /** A plain fair mutex: waits for the lock, renews it, and releases it when it goes out of scope. */
  hold(operation: string, resource: string, options: HoldOptions): Promise<Held>
}

export interface ReleaseOptions extends LockRequest {
  readonly token: number
  readonly outcome: 'success' | 'failure'
  /** With `success`: the result, for all waiters. */
  readonly result?: unknown
  /** With `failure`: the error. */
  readonly error?: unknown
  /** With `failure`: no other requester tries, and all waiters get the failure. @default false */
  readonly terminal?: boolean | undefined
}

export interface RenewOptions extends LockRequest {
  readonly token: number
  /** @default the last one: of the acquire, or of an earlier renewal */
  readonly ttlMs?: Duration | undefined
  /** Any JSON value. @default the last one stays */
  readonly progress?: unknown
}

export interface LockSummary extends LockKey {
  readonly holder: LockHolder | null
  readonly waiterCount: number
}

/** What the module needs from a backend. */
export interface LocksParts {
  readonly store: LockStore
  readonly notifier: LocksNotifier
  /** Wake-ups reach other processes; if not, waiters poll more often. */
  readonly remoteWakeUps: boolean
}

const releaseKeys = requestKeysAnd('token', 'outcome', 'result', 'error', 'terminal')
const renewKeys = requestKeysAnd('token', 'ttlMs', 'progress')

/** How many waiters `inspect` shows. */
const shownWaiters = 1_000

export function createLocks(given: LocksParts, options: LocksOptions = {}): Locks {
  const { store } = given
  const notifier = createWaitQueueNotifier(given.notifier)
  const parts: LocksParts = { ...given, notifier }
  const times = resolveLocksOptions(options)
  const sweeper = createSweeper(parts, times)
  const watcher = createWatcher(parts, times, sweeper)
  const waits = new Waits()

  /** Wakes the requesters that a step changed, except the caller, who has the answer. */
  function wake<Answer extends Ruled<object>>(key: LockKey, answer: Answer, except?: Requester): Answer {
    wakeForStep(notifier, key, answer, except)
    if (answer.elsewhere) {
      for (const { operation } of answer.elsewhere) sweeper.suspect({ ...key, operation })
    }
    return answer
  }

  /** Gives the next holder its grant at once where it waits in this process. Others are woken, and ask for it. */
  function handOver(key: LockKey, { released, granted }: Released): boolean {
    if (!released?.next || !granted) return false
    return waits.hand(requesterTopic(key, released.next), granted)
  }

  const locks: Locks = {
    async acquire(options) {
      const key = resolveKey('acquire', options)
      const request = resolveAcquire(options, times.multiNode, false)
      sweeper.wake()
      const answer = await store.acquire(key, request, times)
      const { standing } = wake(key, answer, answer.standing.status === 'granted' ? request : undefined)
      if (standing.status === 'queued') sweeper.suspect(key)
      return decodeStanding(key, standing)
    },

    async release(options) {
      onlyRequestKeys('release', options, releaseKeys)
      const key = resolveKey('release', options)
      const who = { ...resolveRequester('release', options), token: resolveToken('release', options.token) }
      const answer = await store.release(key, who, resolveEnd(options), times)
      const isHanded = handOver(key, answer)
      const { released } = wake(key, answer, isHanded ? answer.released!.next! : undefined)
      if (released === undefined) throw lockLost(key, who.node)
      if (released.next !== null) sweeper.suspect(key)
      return { next: released.next?.node ?? null }
    },

    async renew(options) {
      onlyRequestKeys('renew', options, renewKeys)
      const key = resolveKey('renew', options)
      const who = { ...resolveRequester('renew', options), token: resolveToken('renew', options.token) }
      const { ttlMs, progress } = options
      const terms = {
        ttlMs: ttlMs === undefined ? undefined : lockSpan('renew.ttlMs', ttlMs),
        progress: progress === undefined ? undefined : encodeJson('renew.progress', progress),
      }
      const { expiresAt } = wake(key, await store.renew(key, who, terms, times))
      if (expiresAt === undefined) throw lockLost(key, who.node)
      return { expiresAt }
    },

    async leave(options) {
      onlyRequestKeys('leave', options)
      const key = resolveKey('leave', options)
      const { left } = wake(key, await store.leave(key, resolveRequester('leave', options), times))
      if (left === true) sweeper.suspect(key)
      if (left !== 'holding') return { left }
      throw new SignalboxError(
        'conflict',
        `${options.node} holds ${describe(key)}; end its turn with release, its token and an outcome.`,
      )
    },

    async inspect(options) {
      onlyKeys('inspect', options, ['operation', 'resource'])
      const key = resolveKey('inspect', options)
      return decodeQueue((await store.inspect(key, shownWaiters)) ?? emptyQueue(key))
    },

    async list(options = {}) {
      const query = resolveListLocks(options)
      const queues = await store.list(query)
      const items = queues.map((queue) => ({ ...queue, holder: decodeHolder(queue.holder) }))
      return { items, cursor: items.length === query.limit ? encodeCursor(items.at(-1)!) : null }
    },

    async evict(options) {
      onlyRequestKeys('evict', options)
      const key = resolveKey('evict', options)
      const who = resolveRequester('evict', options)
      const { evicted } = wake(key, await store.evict(key, who, times))
      if (evicted) {
        sweeper.suspect(key)
        return { evicted: true }
      }
      throw new SignalboxError('not_found', `${who.node} neither holds ${describe(key)} nor waits for it.`)
    },

    watch: (options) => watcher.watch(options),
    singleFlight: (operation, resource, options) => runSingleFlight(calls, operation, resource, options),
    hold: (operation, resource, options) => holdLock(calls, operation, resource, options),

    async [Symbol.asyncDispose]() {
      const left = waits.end()
      watcher.close()
      await left
      await sweeper[Symbol.asyncDispose]()
      notifier.close()
    },
  }
  const calls: LockCalls = { ...locks, waits }
  return locks
}

function lockLost(key: LockKey, node: string): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `${node} no longer holds ${describe(key)} with this token: it was released, its lease expired, or an operator evicted it.`,
  )
}
