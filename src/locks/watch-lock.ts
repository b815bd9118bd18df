import { isSignalboxError } from '../core/errors.ts'
import { createNotifier, type Notifier } from '../core/notifier.ts'
import { flag, whole } from '../core/options.ts'
import { decodeHolder, decodeQueue, emptyQueue, failureOf, parse } from './decode-lock.ts'
import { handedOver } from './local-waits.ts'
import type { LockEvent, LockRequest } from './lock.ts'
import type { LockKey, WaitQueueView } from './lock-store.ts'
import { endTopic, nameOfRequester, requesterTopic, wakeForStep } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import { onlyRequestKeys, requestKeysAnd, resolveKey, resolveRequester } from './locks-options.ts'
import type { LockTimes, Requester, Standing } from './rules/index.ts'
import type { Sweeper } from './upkeep.ts'
import { createQueueHub, positionsIn, type WaitQueueHub } from './wait-queue-hub.ts'

/**
 * Streams the changes of a wait queue. A waiter sees its own standing (position, grant, outcome) and keeps its position by
 * watching. An observer sees the whole wait queue. Wake-ups are hints: every watcher also polls, and each event shows the
 * store's state at that moment.
 */
export interface WatchOptions extends Partial<Pick<LockRequest, 'node' | 'requestId'>>, LockKey {
  /** Ends the stream. With the reason `draining` the server stops, so a bound lease stays as it is. */
  readonly signal?: AbortSignal | undefined
  /** The id of the last event seen. If something happened since, the stream begins with `reset`. */
  readonly lastEventId?: number | undefined
  /** If this stream ends while its node holds the lock, shorten the lease to two seconds. @default false */
  readonly bind?: boolean | undefined
}

export interface Watcher {
  watch(options: WatchOptions): AsyncIterable<LockEvent>
  close(): void
}

const watchKeys = requestKeysAnd('signal', 'lastEventId', 'bind')
const boundMs = 2_000
/** How often the watch of a holder checks that it still holds the lock. */
const holderPollMs = 5_000
const shownAtReset = 100

/** An event without its id. */
type UnnumberedEvent = LockEvent extends infer Event
  ? Event extends LockEvent
    ? Omit<Event, 'id'>
    : never
  : never

export function createWatcher(parts: LocksParts, times: LockTimes, sweeper: Sweeper): Watcher {
  const hub = createQueueHub(parts)
  const closing: WatchClosing = { areClosed: false, notifiers: new Set() }
  const shared = { parts, times, hub, closing, sweeper }

  return {
    watch(options) {
      onlyRequestKeys('watch', options, watchKeys)
      const key = resolveKey('watch', options)
      const { signal, lastEventId = 0, bind = false } = options
      const since = whole('watch.lastEventId', lastEventId)
      const isBound = flag('watch.bind', bind)
      sweeper.wake()
      if (options.node === undefined) return watchQueue(hub, closing, key, since, signal)
      const who = resolveRequester('watch', options)
      return new WaiterWatch({ ...shared, key, who, since, isBound, signal }).events()
    },
    close() {
      closing.areClosed = true
      for (const notifier of closing.notifiers) notifier.wake()
      hub.close()
    },
  }
}

/**
 * Whether the watcher is closed, and which watches to wake when it closes. A combined AbortSignal for each watch would take
 * a large part of its memory.
 */
interface WatchClosing {
  areClosed: boolean
  readonly notifiers: Set<Notifier>
}

interface WaiterParts {
  readonly parts: LocksParts
  readonly times: LockTimes
  readonly hub: WaitQueueHub
  readonly closing: WatchClosing
  readonly sweeper: Sweeper
  readonly key: LockKey
  readonly who: Requester
  readonly since: number
  readonly isBound: boolean
  readonly signal: AbortSignal | undefined
}

/** The watch of a waiter or holder. */
class WaiterWatch {
  readonly #own: WaiterParts
  readonly #name: string
  readonly #notifier = createNotifier()
  #lastId: number
  #lastText = ''
  #lastProgress: string | null = null
  #standing: Standing | undefined
  #view: WaitQueueView | undefined
  #isWoken = true
  #resumes: boolean

  constructor(own: WaiterParts) {
    this.#own = own
    this.#name = nameOfRequester(own.who)
    this.#lastId = own.since
    this.#resumes = own.since > 0
  }

  async *events(): AsyncGenerator<LockEvent> {
    const { parts, hub, closing, key, who, signal } = this.#own
    closing.notifiers.add(this.#notifier)
    const wake = () => {
      this.#isWoken = true
      this.#notifier.wake()
    }
    const unlisten = parts.notifier.listen([requesterTopic(key, who), endTopic(key)], wake)
    const unsubscribe = hub.subscribe(key, (view) => {
      const before = this.#view
      this.#view = view
      if (this.#isConcernedBy(before, view)) wake()
      else if (this.#hasNewProgress() || this.#hasMoved()) this.#notifier.wake()
    })
    let lookAt = 0
    try {
      while (!isOver(closing, signal)) {
        if (this.#isWoken || performance.now() >= lookAt) {
          this.#isWoken = false
          yield* await this.#renewPosition()
          lookAt = performance.now() + this.#pauseMs()
          if (this.#standing === undefined || this.#standing.status === 'ended') return
        }
        const moved = this.#takeMovedEvent()
        if (moved) yield moved
        const progress = this.#takeProgressEvent()
        if (progress) yield progress
        if (this.#isWoken) continue
        await this.#notifier
          .wait({ timeoutMs: Math.max(1, lookAt - performance.now()), ...(signal && { signal }) })
          .catch(() => undefined)
      }
    } finally {
      closing.notifiers.delete(this.#notifier)
      unlisten()
      unsubscribe()
      this.#leaveStream()
    }
  }

  /** Renews the position and returns the events that are new. */
  async #renewPosition(): Promise<readonly LockEvent[]> {
    const { parts, times, sweeper, key, who } = this.#own
    const had = this.#standing
    const answer = await parts.store.keep(key, who, { isStreamed: true }, times)
    wakeForStep(parts.notifier, key, answer)
    this.#standing = answer.standing
    if (answer.standing?.status === 'queued') sweeper.suspect(key)
    if (answer.standing === undefined) {
      // The holder released its turn: no event. A position that is missing or was lost is an event.
      return had?.status === 'granted' ? [] : [this.#number({ type: 'lost' }, answer.revision)]
    }
    const event = eventOf(answer.standing, who)
    const text = JSON.stringify(event)
    if (text === this.#lastText) return []
    this.#lastText = text
    if (!this.#resumes) return [this.#number(event, answer.revision)]
    this.#resumes = false
    if (isCurrent(this.#own.since, answer.revision)) return []
    const queue = await parts.store.inspect(key, shownAtReset)
    const reset: UnnumberedEvent = { type: 'reset', ...decodeQueue(queue ?? emptyQueue(key)) }
    return [this.#number(reset, answer.revision - 1), this.#number(event, answer.revision)]
  }

  /**
   * Whether the shared view is a reason to ask the store: this requester holds the lock, the wait queue ended, or the
   * requester is no longer in it. Needed where wake-ups do not reach other processes.
   */
  #isConcernedBy(before: WaitQueueView | undefined, now: WaitQueueView | undefined): boolean {
    if (this.#standing?.status !== 'queued' || now === undefined) return false
    if (now.holder && this.#isSelf(now.holder)) return true
    // It is seen to wait: all that has changed is about others.
    if (before === undefined || positionsIn(now).has(this.#name)) return false
    if (now.lastOutcome?.at !== before.lastOutcome?.at && now.waiterCount < before.waiterCount) return true
    return positionsIn(before).has(this.#name)
  }

  #isSelf({ node, requestId }: Requester): boolean {
    return node === this.#own.who.node && requestId === this.#own.who.requestId
  }

  #hasMoved(): boolean {
    const position = this.#view && positionsIn(this.#view).get(this.#name)
    return position !== undefined && this.#standing?.status === 'queued' && position < this.#standing.position
  }

  /** Records a better position, read from the shared view without asking the store, and returns its event. */
  #takeMovedEvent(): LockEvent | undefined {
    if (!this.#hasMoved()) return undefined
    const position = positionsIn(this.#view!).get(this.#name)!
    this.#standing = { status: 'queued', position }
    const event: UnnumberedEvent = { type: 'queued', position }
    this.#lastText = JSON.stringify(event)
    return this.#number(event, this.#view!.revision)
  }

  #hasNewProgress(): boolean {
    const progress = this.#view?.holder?.progress ?? null
    return progress !== null && progress !== this.#lastProgress
  }

  /** Records new progress of the holder and returns its event; undefined if this requester is the holder. */
  #takeProgressEvent(): LockEvent | undefined {
    if (!this.#hasNewProgress()) return undefined
    const { holder, revision } = this.#view!
    this.#lastProgress = holder!.progress
    // The holder knows its own progress.
    if (this.#isSelf(holder!)) return undefined
    return this.#number({ type: 'progress', node: holder!.node, progress: parse(holder!.progress) }, revision)
  }

  #number(event: UnnumberedEvent, revision: number): LockEvent {
    this.#lastId = Math.max(this.#lastId + 1, revision)
    return { id: this.#lastId, ...event } as LockEvent
  }

  /**
   * Renewing a position is a write, so the watch does it as seldom as the lease allows. It learns the steps of others from
   * wake-ups, or, where these do not reach other processes, from the shared view.
   */
  #pauseMs(): number {
    const { times } = this.#own
    const isHolder = this.#standing?.status === 'granted'
    return (isHolder ? holderPollMs : times.waiterLeaseMs / 3) * (0.75 + Math.random() / 4)
  }

  /** The stream ends: a waiter gets the longer take-up window, and the lease of a bound holder is shortened. */
  #leaveStream(): void {
    const { parts, times, key, who, isBound, signal } = this.#own
    const standing = this.#standing
    if (standing === undefined || standing.status === 'ended' || signal?.reason === handedOver) return
    const isHolder = standing.status === 'granted'
    const isServersEnd = isSignalboxError(signal?.reason, 'draining')
    if (isHolder && (!isBound || isServersEnd)) return
    const step = isHolder
      ? parts.store.shorten(key, { ...who, token: standing.token }, boundMs, times)
      : parts.store.keep(key, who, { isStreamed: false }, times)
    // Best effort: if the step fails, the leases expire at their own time.
    step.then((answer) => wakeForStep(parts.notifier, key, answer)).catch(() => undefined)
  }
}

function eventOf(standing: Standing, { node }: Requester): UnnumberedEvent {
  switch (standing.status) {
    case 'queued':
      return { type: 'queued', position: standing.position }
    case 'granted': {
      const { token, expiresAt, attempt } = standing
      return { type: 'granted', node, attempt, expiresAt, token }
    }
    case 'ended':
      if (standing.kind === 'completed') return { type: 'completed', result: parse(standing.value) }
      if (standing.kind === 'failed') return { type: 'failed', error: failureOf(standing.value) }
      return { type: standing.kind }
    default:
      // `refused` and `full` are no answers to a requester that has a position.
      return { type: 'lost' }
  }
}

/** The watch of an observer. */
async function* watchQueue(
  hub: WaitQueueHub,
  closing: WatchClosing,
  key: LockKey,
  since: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<LockEvent> {
  const notifier = createNotifier()
  closing.notifiers.add(notifier)
  let latest: WaitQueueView | undefined
  let isSeen = false
  const unsubscribe = hub.subscribe(key, (view) => {
    latest = view
    isSeen = true
    notifier.wake()
  })
  let lastId = since
  let shown: WaitQueueView | undefined
  let isFirst = true
  try {
    while (!isOver(closing, signal)) {
      if (isSeen) {
        isSeen = false
        const view = latest ?? emptyQueue(key)
        const events = isFirst ? beginning(view, since) : changesBetween(shown!, view)
        for (const event of events) {
          lastId = Math.max(lastId + 1, view.revision)
          yield { id: lastId, ...event } as LockEvent
        }
        isFirst = false
        shown = view
        continue
      }
      await notifier.wait(signal ? { signal } : {}).catch(() => undefined)
    }
  } finally {
    closing.notifiers.delete(notifier)
    unsubscribe()
  }
}

function isOver({ areClosed }: WatchClosing, signal: AbortSignal | undefined): boolean {
  return areClosed || signal?.aborted === true
}

function beginning(view: WaitQueueView, since: number): readonly UnnumberedEvent[] {
  return since > 0 && isCurrent(since, view.revision) ? [] : [{ type: 'reset', ...decodeQueue(view) }]
}

/**
 * Whether nothing happened since that event. Ids may be a little ahead of the revision, because one revision can have
 * several events. An id that is far ahead belongs to a wait queue that was deleted meanwhile.
 */
function isCurrent(since: number, revision: number): boolean {
  return revision <= since && since - revision <= 1_000
}

function changesBetween(before: WaitQueueView, now: WaitQueueView): readonly UnnumberedEvent[] {
  const changes: UnnumberedEvent[] = []
  const { lastOutcome } = now
  if (lastOutcome && lastOutcome.at !== before.lastOutcome?.at) {
    const { outcome, value } = lastOutcome
    if (outcome === 'success') changes.push({ type: 'completed', result: parse(value) })
    else changes.push({ type: 'failed', error: failureOf(value) })
  }
  const holder = decodeHolder(now.holder)
  if (holder && (now.holder!.since !== before.holder?.since || now.holder!.node !== before.holder?.node)) {
    const { node, attempt, expiresAt } = holder
    changes.push({ type: 'granted', node, attempt, expiresAt })
  }
  if (holder && now.holder!.progress !== null && now.holder!.progress !== before.holder?.progress) {
    changes.push({ type: 'progress', node: holder.node, progress: holder.progress })
  }
  if (now.waiterCount !== before.waiterCount) changes.push({ type: 'queued', position: now.waiterCount })
  return changes
}
