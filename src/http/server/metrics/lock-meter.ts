import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Clock } from '../../../core/clock.ts'
import { setNewest } from '../../../core/newest-entries.ts'
import type { LockKey, LockStore } from '../../../locks/index.ts'
import { CappedSeries, workBounds } from './metric-registry.ts'

/**
 * Counts the locks that callers take through this server: waits, holds, waiters and expired leases. It reads the
 * answers of the store and sends no requests of its own. A release does not say when its hold began, so the meter
 * remembers each waiter and holder until the end. It measures no wait or hold that began at another server.
 *
 *     acquire ──▶ queued ──▶ granted (a wait ends, a hold begins) ──▶ released, lost (the hold ends)
 *                   └──────▶ completed, failed, gone
 *
 * Users choose the names of operations, so the number of series needs a limit. Up to 100 operations have their own
 * series, and all others share `other`. The metrics never show resources and nodes.
 */
export type CountLocks = (namespace: string, store: LockStore) => LockStore

/** How much a meter remembers, at half a kilobyte each. Above the limit it forgets the oldest. */
export const lockMeterLimits = { operations: 100, waiting: 50_000, held: 50_000 } as const

/** `gone`: the waiter left, an operator evicted it, or its deadline or lease ended. */
type WaitEnd = 'granted' | 'completed' | 'failed' | 'gone'
/** `lost`: the lease ended, an operator evicted the holder, or the requester never took up its grant. */
type HoldEnd = 'success' | 'failure' | 'lost'

type Step = Pick<Awaited<ReturnType<LockStore['acquire']>>, 'notified' | 'elsewhere'>
type Notified = Step['notified']
type Requester = Notified['requesters'][number]
type Standing = Awaited<ReturnType<LockStore['keep']>>['standing']
type OutcomeKind = Extract<Standing, { readonly status: 'ended' }>['kind']

const waitEndOf: Readonly<Record<OutcomeKind, WaitEnd>> = {
  completed: 'completed',
  failed: 'failed',
  timeout: 'gone',
  evicted: 'gone',
  lost: 'gone',
}

/** The counters of one operation. */
interface Cells {
  waited(end: WaitEnd, ms: number): void
  held(end: HoldEnd, ms: number): void
  readonly waiters: Gauge.Internal<string>
  readonly expired: Counter.Internal
}

interface Waiting {
  readonly cells: Cells
  readonly since: number
  /** When the waiter last asked. */
  seenAt: number
  /** When the waiter loses its position unless it asks again. */
  goneAt: number
}

interface Holding {
  readonly cells: Cells
  readonly since: number
}

/** One wait queue of one namespace. */
interface WaitQueue extends LockKey {
  readonly namespace: string
}

/** Returns a function that wraps a store to count its answers, which do not change. */
export function createLockMeter(registry: Registry, clock: Clock): CountLocks {
  const registers = [registry]
  const labelNames = ['namespace', 'operation']
  const waitSeconds = new Histogram({
    name: 'signalbox_lock_wait_seconds',
    help: 'From asking for a lock to the end of the wait, both through this server, by outcome; 0 if the lock was free.',
    labelNames: [...labelNames, 'outcome'],
    buckets: workBounds,
    registers,
    collect: forgetGone,
  })
  const holdSeconds = new Histogram({
    name: 'signalbox_lock_hold_seconds',
    help: 'From a grant to its end, both through this server, by outcome.',
    labelNames: [...labelNames, 'outcome'],
    buckets: workBounds,
    registers,
  })
  const waiters = new Gauge({
    name: 'signalbox_lock_waiters',
    help: 'Waiters that asked this server lately.',
    labelNames,
    registers,
  })
  const expired = new Counter({
    name: 'signalbox_lock_expired_total',
    help: 'Holds that ended because their lease ended. One server finds and counts each.',
    labelNames,
    registers,
  })
  const operations = new CappedSeries<Cells>({
    labelNames,
    limit: lockMeterLimits.operations,
    create(labels) {
      waiters.set(labels, 0)
      expired.inc(labels, 0)
      return {
        waited: (outcome, ms) => waitSeconds.observe({ ...labels, outcome }, ms / 1_000),
        held: (outcome, ms) => holdSeconds.observe({ ...labels, outcome }, ms / 1_000),
        waiters: waiters.labels(labels),
        expired: expired.labels(labels),
      }
    },
    remove(labels) {
      for (const outcome of ['granted', 'completed', 'failed', 'gone'])
        waitSeconds.remove({ ...labels, outcome })
      for (const outcome of ['success', 'failure', 'lost']) holdSeconds.remove({ ...labels, outcome })
      waiters.remove(labels)
      expired.remove(labels)
    },
  })
  /** In the order in which they last asked. All waiters have the same time to ask again. */
  const waiting = new Map<string, Waiting>()
  /** Oldest first. */
  const held = new Map<string, Holding>()

  const cellsOf = ({ namespace, operation }: WaitQueue) =>
    operations.find([namespace, operation], clock.now())

  function waits(queue: WaitQueue, who: Requester, leaseMs: number): void {
    const name = nameOf(queue, who)
    const now = clock.now()
    const known = waiting.get(name)
    // Deletes the entry first, so that it moves to the end.
    if (known !== undefined) waiting.delete(name)
    else if (waiting.size >= lockMeterLimits.waiting) forgetFirstWaiter()
    const waiter = known ?? { cells: cellsOf(queue), since: now, seenAt: now, goneAt: now }
    if (known === undefined) waiter.cells.waiters.inc()
    waiter.seenAt = now
    waiter.goneAt = now + leaseMs
    waiting.set(name, waiter)
  }

  function forgetFirstWaiter(): void {
    for (const [name, { cells }] of waiting) {
      waiting.delete(name)
      cells.waiters.dec()
      return
    }
  }

  /** Returns the cells of a waiter; undefined if it did not wait at this server. */
  function waitEnded(name: string, end: WaitEnd): Cells | undefined {
    const waiter = waiting.get(name)
    if (waiter === undefined) return undefined
    waiting.delete(name)
    const { cells, since } = waiter
    cells.waiters.dec()
    cells.waited(end, clock.now() - since)
    return cells
  }

  function grantedAtOnce(queue: WaitQueue): Cells {
    const cells = cellsOf(queue)
    cells.waited('granted', 0)
    return cells
  }

  /** Forgets waiters that no longer ask to keep their position: they are gone, or ask another server. */
  function forgetGone(): void {
    const now = clock.now()
    for (const [name, { cells, since, seenAt, goneAt }] of waiting) {
      if (goneAt > now) return
      waiting.delete(name)
      cells.waiters.dec()
      cells.waited('gone', seenAt - since)
    }
  }

  function holds(name: string, cells: Cells): void {
    setNewest(held, name, { cells, since: clock.now() }, lockMeterLimits.held)
  }

  function holdEnded(name: string, end: HoldEnd): void {
    const hold = held.get(name)
    if (hold === undefined) return
    held.delete(name)
    hold.cells.held(end, clock.now() - hold.since)
  }

  /** A step names the requesters whose standing it changed. A holder among them no longer holds the lock. */
  function countNotified(queue: WaitQueue, { requesters, lapsed }: Notified): void {
    if (lapsed) cellsOf(queue).expired.inc()
    for (const who of requesters) holdEnded(nameOf(queue, who), 'lost')
  }

  function stepped<Answer extends Step>(queue: WaitQueue, answer: Answer): Answer {
    countNotified(queue, answer.notified)
    for (const other of answer.elsewhere ?? [])
      countNotified({ ...queue, operation: other.operation }, other.notified)
    return answer
  }

  /** Counts the standing of a requester that asked. */
  function stands(
    queue: WaitQueue,
    who: Requester,
    { standing, notified }: Step & { readonly standing: Standing },
    leaseMs: number,
  ): void {
    const name = nameOf(queue, who)
    if (standing?.status === 'queued') {
      waits(queue, who, leaseMs)
    } else if (standing?.status === 'granted') {
      // A requester that did not wait, and that this step did not grant, already held the lock and asked again.
      const isNew = notified.requesters.some((one) => isSame(one, who))
      const cells = waitEnded(name, 'granted') ?? (isNew ? grantedAtOnce(queue) : undefined)
      if (cells) holds(name, cells)
    } else {
      held.delete(name)
      waitEnded(name, standing?.status === 'ended' ? waitEndOf[standing.kind] : 'gone')
    }
  }

  /** Another server counts its own waiters. */
  function calledNext(name: string): void {
    const cells = waitEnded(name, 'granted')
    if (cells) holds(name, cells)
  }

  return (namespace, store) => {
    const queueOf = ({ operation, resource }: LockKey): WaitQueue => ({ namespace, operation, resource })
    return {
      // Not async: every lock calls these methods, and each further promise costs time.
      acquire: (key, ask, times) =>
        store.acquire(key, ask, times).then((answer) => {
          const queue = queueOf(key)
          stands(queue, ask, stepped(queue, answer), times.waiterLeaseMs)
          return answer
        }),
      release: (key, who, end, times) =>
        store.release(key, who, end, times).then((answer) => {
          const queue = queueOf(key)
          const { released } = stepped(queue, answer)
          const name = nameOf(queue, who)
          if (released) holdEnded(name, end.outcome)
          else held.delete(name)
          if (released?.next) calledNext(nameOf(queue, released.next))
          return answer
        }),
      renew: (key, who, terms, times) =>
        store.renew(key, who, terms, times).then((answer) => stepped(queueOf(key), answer)),
      async keep(key, who, options, times) {
        const queue = queueOf(key)
        const answer = stepped(queue, await store.keep(key, who, options, times))
        stands(queue, who, answer, times.waiterLeaseMs)
        return answer
      },
      async leave(key, who, times) {
        const queue = queueOf(key)
        const answer = stepped(queue, await store.leave(key, who, times))
        if (answer.left !== true) return answer
        waitEnded(nameOf(queue, who), 'gone')
        holdEnded(nameOf(queue, who), 'lost')
        return answer
      },
      async evict(key, who, times) {
        const queue = queueOf(key)
        const answer = stepped(queue, await store.evict(key, who, times))
        if (answer.evicted) waitEnded(nameOf(queue, who), 'gone')
        return answer
      },
      shorten: async (key, who, toMs, times) =>
        stepped(queueOf(key), await store.shorten(key, who, toMs, times)),
      fail: async (key, who, value, times) => stepped(queueOf(key), await store.fail(key, who, value, times)),
      async sweep(limit, times) {
        const swept = await store.sweep(limit, times)
        for (const one of swept) countNotified(queueOf(one.key), one.notified)
        return swept
      },
      inspect: (key, limit) => store.inspect(key, limit),
      list: (query) => store.list(query),
      findWaitingHolders: (keys) => store.findWaitingHolders(keys),
    }
  }
}

/** No name contains a control character. */
function nameOf({ namespace, operation, resource }: WaitQueue, { node, requestId }: Requester): string {
  return `${namespace}\n${operation}\n${resource}\n${node}\n${requestId}`
}

function isSame(a: Requester, b: Requester): boolean {
  return a.node === b.node && a.requestId === b.requestId
}
