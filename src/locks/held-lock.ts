import { within } from '../core/clock.ts'
import type { Duration } from '../core/duration.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { KeptLease } from '../core/kept-lease.ts'
import { onlyKeys } from '../core/options.ts'
import { describe } from './decode-lock.ts'
import { handedOver, type Waits, waitClosed } from './local-waits.ts'
import type { AcquireAnswer, AcquireOptions, LockEvent, LockHolder } from './lock.ts'
import type { LockKey } from './lock-store.ts'
import { queueTopic, requesterTopic } from './lock-topics.ts'
import type { Locks } from './locks.ts'
import { deadlineSpan, lockSpan, resolveEnd, resolveKey } from './locks-options.ts'
import { defaultTtlMs, type Grant, type Requester } from './rules/index.ts'

/**
 * A lock that this process holds. It renews itself after each third of `ttlMs`. The process counts it as lost `ttlMs`
 * after it *sent* the last renewal that succeeded, by its own monotonic clock: then `signal` aborts, whatever the server
 * thinks. Pass `token` to whatever the lock guards: only the token stops a holder that was frozen.
 */
export interface Held extends AsyncDisposable {
  readonly operation: string
  readonly resource: string
  readonly node: string
  readonly requestId: string
  readonly token: number
  readonly attempt: number
  /** Aborts when the lock is lost. */
  readonly signal: AbortSignal
  /** Shows the waiters how far the work is. */
  progress(value: unknown): Promise<void>
  /**
   * Takes another lock for the same request, so that deadlocks can be found: when requests that hold and wait form a
   * circle, the youngest wait ends within a second, with `conflict` and `details.reason: 'deadlock'`. The wait also ends
   * when this lock is lost.
   */
  hold(operation: string, resource: string, options?: NestedHoldOptions): Promise<Held>
  /** Releases the lock, by default with the outcome `success`. Throws `lease_lost`. */
  release(end?: HeldEnd): Promise<{ readonly next: string | null }>
}

export interface HeldEnd {
  readonly outcome?: 'success' | 'failure'
  readonly result?: unknown
  readonly error?: unknown
  readonly terminal?: boolean
}

export interface HoldOptions {
  readonly node: string
  /** @default a fresh one for every call */
  readonly requestId?: string | undefined
  /** @default 30_000 */
  readonly ttlMs?: Duration | undefined
  /** How long to wait for the lock. @default no limit */
  readonly deadlineMs?: Duration | null | undefined
  /** False: throw `conflict` at once if the lock is busy. @default the box's `multiNode`: true */
  readonly wait?: boolean | undefined
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined
}

/** The options of `held.hold`; the node and the requestId are those of the held lock. */
export type NestedHoldOptions = Omit<HoldOptions, 'node' | 'requestId'>

/** The verbs that a held lock needs, in this process or over HTTP. */
export type LockCalls = Pick<Locks, 'watch' | 'renew' | 'release' | 'leave'> & {
  /** Over HTTP, `limits` say how long to try. */
  acquire(options: AcquireOptions, limits?: AcquireLimits): Promise<AcquireAnswer>
  readonly waits: Waits
}

export interface AcquireLimits {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
}

const nestedHoldKeys = ['ttlMs', 'deadlineMs', 'wait', 'signal']
const endKeys = ['outcome', 'result', 'error', 'terminal']
const holdKeys = ['node', 'requestId', 'ttlMs', 'deadlineMs', 'wait', 'signal']

/** Waits for the lock and returns it as a disposable object. */
export async function holdLock(
  locks: LockCalls,
  operation: string,
  resource: string,
  options: HoldOptions,
): Promise<Held> {
  onlyKeys('hold', options, holdKeys)
  return holdOne(locks, operation, resource, options, new Set())
}

async function holdOne(
  locks: LockCalls,
  operation: string,
  resource: string,
  options: HoldOptions,
  heldQueues: Set<string>,
): Promise<Held> {
  const { requestId = createId(), ...rest } = options
  const isNew = options.requestId === undefined
  const turn = await awaitTurn(locks, operation, resource, { ...rest, requestId, isNew, heldQueues }, 'turn')
  if (turn.status === 'granted') return turn.held
  // A requester that wants a turn does not get the results of other requesters.
  const { code, message } =
    turn.status === 'failed' ? turn.error : { code: undefined, message: 'another requester did the work.' }
  const what = describe({ operation, resource })
  if (code !== 'timeout')
    throw new SignalboxError('conflict', `The wait for ${what} ended: ${message}`, {
      ...(code !== undefined && { details: { reason: code } }),
    })
  throw new SignalboxError(
    'timeout',
    `${what} was not granted within the deadline. Raise deadlineMs, or check its holder.`,
  )
}

/** How a wait for a lock ended. */
export type Turn =
  | { readonly status: 'granted'; readonly held: Held }
  | { readonly status: 'completed'; readonly result: unknown }
  | { readonly status: 'failed'; readonly error: { readonly code?: string; readonly message: string } }

interface TurnOptions extends HoldOptions {
  readonly requestId: string
  /** The requestId is new, so an immediate grant began with this call. */
  readonly isNew: boolean
  /** The wait queues that this request holds. */
  readonly heldQueues?: Set<string>
}

/** Asks for the lock and waits if it is busy. Leaves the wait queue when the signal aborts or the box closes. */
export function awaitTurn(
  locks: LockCalls,
  operation: string,
  resource: string,
  options: TurnOptions,
  want: 'result' | 'turn',
): Promise<Turn> {
  return locks.waits.during(askForTurn(locks, operation, resource, options, want))
}

async function askForTurn(
  locks: LockCalls,
  operation: string,
  resource: string,
  options: TurnOptions,
  want: 'result' | 'turn',
): Promise<Turn> {
  const { deadlineMs = null, signal } = options
  signal?.throwIfAborted()
  const who = { operation, resource, node: options.node, requestId: options.requestId }
  const deadline = deadlineMs === null ? null : deadlineSpan('deadlineMs', deadlineMs)
  if (deadline === null) return askUntil(locks, who, options, want, { deadline, signal })
  // The store ends the wait at its deadline. If the store does not answer, this process ends it by its own clock.
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(lateTurn), Math.min(deadline + lateMs, 2 ** 31 - 1))
  const signals = signal ? AbortSignal.any([signal, late.signal]) : late.signal
  try {
    return await askUntil(locks, who, options, want, { deadline, signal: signals })
  } catch (error) {
    if (error !== lateTurn) throw error
    return { status: 'failed', error: { code: 'timeout', message: lateTurn.message } }
  } finally {
    clearTimeout(timer)
  }
}

/** How long after the deadline this process ends a wait that the store did not end. */
const lateMs = 1_000
/** A request gets at least this time to be answered, however short the wait is. */
const minAskMs = 1_000
const lateTurn = new Error('The wait ended: timeout.')

async function askUntil(
  locks: LockCalls,
  who: Asking,
  { ttlMs = defaultTtlMs, wait, isNew, heldQueues = new Set() }: TurnOptions,
  want: 'result' | 'turn',
  { deadline, signal }: { readonly deadline: number | null; readonly signal: AbortSignal | undefined },
): Promise<Turn> {
  const ttl = lockSpan('ttlMs', ttlMs)
  const askedAt = performance.now()
  for (let isFirst = true; ; isFirst = false) {
    const sentAt = performance.now()
    // A requester that joins the wait queue again has used up part of its deadline.
    const leftMs = deadline === null ? null : Math.max(0, Math.round(deadline - (sentAt - askedAt)))
    const timeoutMs = leftMs === null ? undefined : Math.max(minAskMs, leftMs)
    const asking = locks.acquire(
      { ...who, wait, want, ttlMs: ttl, deadlineMs: leftMs },
      { signal, timeoutMs },
    )
    const answer = await asking.catch(async (error: unknown) => {
      // The outcome is unknown: the request may have joined the wait queue.
      if (signal?.aborted) await leaveSoon(locks, who)
      throw error
    })
    let grant: Grant | undefined = answer.status === 'granted' ? answer : undefined
    // A grant that arrived late may be as old as the request, so it is renewed before it is used.
    const isFresh = performance.now() - sentAt < ttl / 3
    if (grant && isFirst && isNew && isFresh)
      return {
        status: 'granted',
        held: createHeldLock(locks, who, grant, { ttlMs: ttl, sentAt }, heldQueues),
      }
    if (answer.status === 'refused') throw refused(who, answer.holder)
    if (answer.status === 'completed' || answer.status === 'failed') return answer
    if (answer.status === 'queued') {
      const event = await lastEvent(locks, who, signal)
      if (signal?.aborted) {
        await leaveSoon(locks, who)
        throw signal.reason
      }
      if (event === undefined && locks.waits.isOver) {
        await leaveSoon(locks, who)
        throw waitClosed(who)
      }
      // Until it is taken up, a grant lasts no longer than the take-up window, which may be far shorter than `ttlMs`. So this
      // one, too, is taken up before it is used.
      if (event && 'handed' in event) grant = event.handed
      else if (event?.type === 'granted') grant = event.token === undefined ? undefined : (event as Grant)
      // `lost`: the grant or the position expired while this process or the store stood still. A request for a turn joins
      // the wait queue again. A request for a result ends, because a result may exist by now. So does a request whose
      // requestId other processes know, because one of them may have left the wait queue.
      else if (event && !(event.type === 'lost' && want === 'turn' && isNew)) return endOf(event)
    }
    const held = grant && (await takeUp(locks, who, grant, ttl, heldQueues))
    if (held) return { status: 'granted', held }
  }
}

/** Leaves the wait queue. Does not wait long for a store that does not answer: the position expires there by itself. */
async function leaveSoon(locks: LockCalls, who: Asking): Promise<void> {
  const left = locks.leave(who).catch(() => undefined)
  await within(leaveMs, left, () => undefined)
}

const leaveMs = 1_000

function refused(key: Asking, holder: LockHolder | null): SignalboxError {
  const state = holder === null ? 'is not free yet' : `is held by ${holder.node}`
  return new SignalboxError('conflict', `${describe(key)} ${state}.`, {
    details: { status: 'refused', holder },
  })
}

/**
 * Takes up a grant that may be old. It renews the grant, which gives it its full time from now on, so this process never
 * believes in the lock for longer than the store does. Undefined when the grant is lost.
 */
async function takeUp(
  locks: LockCalls,
  who: Asking,
  grant: Grant,
  ttlMs: number,
  heldQueues: Set<string>,
): Promise<Held | undefined> {
  const sentAt = performance.now()
  try {
    await locks.renew({ ...who, token: grant.token, ttlMs })
    return createHeldLock(locks, who, grant, { ttlMs, sentAt }, heldQueues)
  } catch (error) {
    if (isSignalboxError(error, 'lease_lost')) return undefined
    throw error
  }
}

type Asking = LockKey & Requester

/** Watches until the wait ends or a grant arrives; undefined when the stream ended before. */
async function lastEvent(
  locks: LockCalls,
  who: Asking,
  signal: AbortSignal | undefined,
): Promise<LockEvent | { readonly handed: Grant } | undefined> {
  const over = new AbortController()
  let handed: Grant | undefined
  const stop = locks.waits.takeGrant(requesterTopic(who, who), (grant) => {
    handed = grant
    over.abort(handedOver)
  })
  const signals = signal ? AbortSignal.any([signal, over.signal]) : over.signal
  try {
    for await (const event of locks.watch({ ...who, signal: signals })) {
      if (event.type !== 'queued' && event.type !== 'progress' && event.type !== 'reset') return event
    }
  } finally {
    stop()
    over.abort()
  }
  return handed && { handed }
}

function endOf(event: LockEvent): Turn {
  switch (event.type) {
    case 'completed':
      return { status: 'completed', result: event.result }
    case 'failed':
      return { status: 'failed', error: event.error }
    default:
      return { status: 'failed', error: { code: event.type, message: `The wait ended: ${event.type}.` } }
  }
}

/** How long a grant lasts. */
interface Lease {
  readonly ttlMs: number
  /** When it was asked for. */
  readonly sentAt: number
}

function createHeldLock(
  locks: LockCalls,
  who: Asking,
  { token, attempt }: Grant,
  { ttlMs, sentAt }: Lease,
  heldQueues: Set<string>,
): Held {
  const name = queueTopic(who)
  heldQueues.add(name)
  const renew = (progress: { readonly progress?: unknown } = {}) =>
    locks.renew({ ...who, token, ttlMs, ...progress })
  const lost = () => {
    heldQueues.delete(name)
    return new SignalboxError(
      'lease_lost',
      `${who.node} lost ${describe(who)}: its lease expired, or an operator ended it.`,
    )
  }
  const lease = new KeptLease({ leaseMs: ttlMs, sentAt, renew: () => renew(), lost })

  async function release(end: HeldEnd = {}) {
    onlyKeys('release', end, endKeys)
    const whole = { outcome: 'success' as const, ...end }
    // A wrong end is refused here, while the lease is still renewed. Otherwise the lock would stay until its lease ends.
    resolveEnd(whole)
    lease.stop()
    heldQueues.delete(name)
    return locks.release({ ...who, token, ...whole })
  }

  return {
    ...who,
    token,
    attempt,
    get signal() {
      return lease.signal
    },
    progress: (value) => lease.renew(() => renew(value === undefined ? {} : { progress: value })),

    async hold(operation, resource, options = {}) {
      onlyKeys('hold', options, nestedHoldKeys)
      const wanted = queueTopic(resolveKey('hold', { operation, resource }))
      if (heldQueues.has(wanted))
        throw new SignalboxError(
          'conflict',
          `This request holds ${describe({ operation, resource })} already, or waits for it. Use that lock, or ask with another requestId.`,
        )
      heldQueues.add(wanted)
      const signal = options.signal ? AbortSignal.any([lease.signal, options.signal]) : lease.signal
      const { node, requestId } = who
      try {
        const nested = { ...options, node, requestId, signal }
        return await holdOne(locks, operation, resource, nested, heldQueues)
      } catch (error) {
        heldQueues.delete(wanted)
        throw error
      }
    },

    release,

    async [Symbol.asyncDispose]() {
      if (lease.isOver) return
      // If this fails, the lock is lost already, or the store does not answer: then the lease ends it.
      await release().catch(() => undefined)
    },
  }
}
