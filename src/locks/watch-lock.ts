import { isSignalboxError } from '../core/errors.ts'
import { createNotifier, type Notifier } from '../core/notifier.ts'
import { flag, whole } from '../core/options.ts'
import { decodeHolder, decodeQueue, failureOf, parse } from './decode-lock.ts'
import { handedOver } from './local-waits.ts'
import type { LockEvent, LockRequest } from './lock.ts'
import type { LockKey, WaitQueueView } from './lock-store.ts'
import { endTopic, requesterTopic, wakeForStep } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import { onlyRequestKeys, requestKeysAnd, resolveKey, resolveRequester } from './locks-options.ts'
import type { LockTimes, Requester, Standing } from './rules/index.ts'
import type { Sweeper } from './upkeep.ts'
import { createQueueHub, nameOf, positionsIn, type WaitQueueHub } from './wait-queue-hub.ts'

/**
 * A wait queue's changes, as they happen. A waiter sees its own standing (its position, its grant, the outcome) and keeps
 * its position by watching. An observer sees the wait queue. Wake-ups are hints: every watcher polls now and then, and
 * each event shows the store's state at that moment.
 */
export interface WatchOptions extends Partial<Pick<LockRequest, 'node' | 'requestId'>>, LockKey {
  /** Ends it. With the reason `draining` it is the server that goes, so a bound lease is left as it is. */
  readonly signal?: AbortSignal | undefined
  /** The last event seen. While nothing has happened since, nothing is told; else `reset`, and how it stands. */
  readonly lastEventId?: number | undefined
  /** When this stream ends while its node holds the lock, the lease is shortened to two seconds. @default false */
  readonly bind?: boolean | undefined
}

export interface Watcher {
  watch(options: WatchOptions): AsyncIterable<LockEvent>
  close(): void
}

const watchKeys = requestKeysAnd('signal', 'lastEventId', 'bind')
const boundMs = 2_000
/** How often one who holds looks whether it still does. */
const holderPollMs = 5_000
const shownAtReset = 100
const untouched = { revision: 0, holder: null, waiters: [], waiterCount: 0, lastOutcome: null } as const

/** An event without its id. */
type Happening = LockEvent extends infer Event ? (Event extends LockEvent ? Omit<Event, 'id'> : never) : never

export function createWatcher(parts: LocksParts, times: LockTimes, sweeper: Sweeper): Watcher {
  const hub = createQueueHub(parts)
  const doors: Doors = { areClosed: false, notifiers: new Set() }

  return {
    watch(options) {
      onlyRequestKeys('watch', options, watchKeys)
      const key = resolveKey('watch', options)
      const { signal, lastEventId = 0, bind = false } = options
      const since = whole('watch.lastEventId', lastEventId)
      const isBound = flag('watch.bind', bind)
      sweeper.wake()
      if (options.node === undefined) return watchQueue(hub, doors, key, since, signal)
      const who = resolveRequester('watch', options)
      return new WaiterWatch({ parts, times, hub, doors, sweeper, key, who, since, isBound, signal }).events()
    },
    close() {
      doors.areClosed = true
      for (const notifier of doors.notifiers) notifier.wake()
      hub.close()
    },
  }
}

/**
 * Whether it goes on at all, and whom to wake when it does not. A signal made of two for each who watches would be a
 * good part of all that one takes.
 */
interface Doors {
  areClosed: boolean
  readonly notifiers: Set<Notifier>
}

interface WaiterParts {
  readonly parts: LocksParts
  readonly times: LockTimes
  readonly hub: WaitQueueHub
  readonly doors: Doors
  readonly sweeper: Sweeper
  readonly key: LockKey
  readonly who: Requester
  readonly since: number
  readonly isBound: boolean
  readonly signal: AbortSignal | undefined
}

/** One who waits, or holds. */
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
    this.#name = nameOf(own.who)
    this.#lastId = own.since
    this.#resumes = own.since > 0
  }

  async *events(): AsyncGenerator<LockEvent> {
    const { parts, hub, doors, key, who, signal } = this.#own
    doors.notifiers.add(this.#notifier)
    const wake = () => {
      this.#isWoken = true
      this.#notifier.wake()
    }
    const unlisten = parts.notifier.listen([requesterTopic(key, who), endTopic(key)], wake)
    const unsubscribe = hub.subscribe(key, (view) => {
      const before = this.#view
      this.#view = view
      if (this.#isConcernedBy(before, view)) wake()
      else if (this.#progressIsNew() || this.#hasMoved()) this.#notifier.wake()
    })
    let lookAt = 0
    try {
      while (!isOver(doors, signal)) {
        if (this.#isWoken || performance.now() >= lookAt) {
          this.#isWoken = false
          yield* await this.#look()
          lookAt = performance.now() + this.#pauseMs()
          if (this.#standing === undefined || this.#standing.status === 'ended') return
        }
        const moved = this.#moved()
        if (moved) yield moved
        const progress = this.#progress()
        if (progress) yield progress
        if (this.#isWoken) continue
        await this.#notifier
          .wait({ timeoutMs: Math.max(1, lookAt - performance.now()), ...(signal && { signal }) })
          .catch(() => undefined)
      }
    } finally {
      doors.notifiers.delete(this.#notifier)
      unlisten()
      unsubscribe()
      this.#leaveStream()
    }
  }

  /** Keeps the position and tells what is new about it. */
  async #look(): Promise<readonly LockEvent[]> {
    const { parts, times, sweeper, key, who } = this.#own
    const had = this.#standing
    const answer = await parts.store.keep(key, who, { isStreamed: true }, times)
    wakeForStep(parts.notifier, key, answer)
    this.#standing = answer.standing
    if (answer.standing?.status === 'queued') sweeper.suspect(key)
    if (answer.standing === undefined) {
      // The end of a turn that was released is no event; a position that is missing or was lost is one.
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
    const reset: Happening = { type: 'reset', ...decodeQueue(queue ?? { ...key, ...untouched }) }
    return [this.#number(reset, answer.revision - 1), this.#number(event, answer.revision)]
  }

  /**
   * Whether what all who watch this wait queue were shown makes it worth asking the store: the turn is this one's, the wait queue
   * has ended, or this one is not in it any more. Where wake-ups do not reach from other processes, this is what does.
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

  /** A position further ahead that the shared view of the wait queue shows; the store is not asked for it. */
  #moved(): LockEvent | undefined {
    if (!this.#hasMoved()) return undefined
    const position = positionsIn(this.#view!).get(this.#name)!
    this.#standing = { status: 'queued', position }
    const event: Happening = { type: 'queued', position }
    this.#lastText = JSON.stringify(event)
    return this.#number(event, this.#view!.revision)
  }

  #progressIsNew(): boolean {
    const progress = this.#view?.holder?.progress ?? null
    return progress !== null && progress !== this.#lastProgress
  }

  #progress(): LockEvent | undefined {
    if (!this.#progressIsNew()) return undefined
    const { holder, revision } = this.#view!
    this.#lastProgress = holder!.progress
    // The holder knows what it said.
    if (this.#isSelf(holder!)) return undefined
    return this.#number({ type: 'progress', node: holder!.node, progress: parse(holder!.progress) }, revision)
  }

  #number(event: Happening, revision: number): LockEvent {
    this.#lastId = Math.max(this.#lastId + 1, revision)
    return { id: this.#lastId, ...event } as LockEvent
  }

  /**
   * A position in the wait queue is kept by looking, and a look is a write: so as seldom as the lease allows. News of others'
   * steps come by the notifier, and where that does not reach, by the view of the wait queue that all who watch it share.
   */
  #pauseMs(): number {
    const { times } = this.#own
    const isHolder = this.#standing?.status === 'granted'
    return (isHolder ? holderPollMs : times.waiterLeaseMs / 3) * (0.75 + Math.random() / 4)
  }

  /** No watcher hears a grant any more: the take-up window may be longer, or the lease of a bound holder ends soon. */
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
    // Best effort: without it the leases run out as they would have.
    step.then((answer) => wakeForStep(parts.notifier, key, answer)).catch(() => undefined)
  }
}

function eventOf(standing: Standing, { node }: Requester): Happening {
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
      // Neither is an answer to one who has a position already.
      return { type: 'lost' }
  }
}

/** One who looks on. */
async function* watchQueue(
  hub: WaitQueueHub,
  doors: Doors,
  key: LockKey,
  since: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<LockEvent> {
  const notifier = createNotifier()
  doors.notifiers.add(notifier)
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
    while (!isOver(doors, signal)) {
      if (isSeen) {
        isSeen = false
        const view = latest ?? { ...key, ...untouched }
        const happenings = isFirst ? beginning(view, since) : changesBetween(shown!, view)
        for (const happening of happenings) {
          lastId = Math.max(lastId + 1, view.revision)
          yield { id: lastId, ...happening } as LockEvent
        }
        isFirst = false
        shown = view
        continue
      }
      await notifier.wait(signal ? { signal } : {}).catch(() => undefined)
    }
  } finally {
    doors.notifiers.delete(notifier)
    unsubscribe()
  }
}

function isOver({ areClosed }: Doors, signal: AbortSignal | undefined): boolean {
  return areClosed || signal?.aborted === true
}

function beginning(view: WaitQueueView, since: number): readonly Happening[] {
  return since > 0 && isCurrent(since, view.revision) ? [] : [{ type: 'reset', ...decodeQueue(view) }]
}

/**
 * Whether nothing has happened since that event. Ids may run a little ahead of the wait queue's revision, one for each of
 * several events; one that is far ahead is not of this wait queue as it is now: the wait queue was cleared away, or is another's.
 */
function isCurrent(since: number, revision: number): boolean {
  return revision <= since && since - revision <= 1_000
}

function changesBetween(before: WaitQueueView, now: WaitQueueView): readonly Happening[] {
  const changes: Happening[] = []
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
