import type { Clock } from '../../../core/clock.ts'
import { setNewest } from '../../../core/newest-entries.ts'
import type { LockKey, LockStore } from '../../../locks/index.ts'
import { createCappedLines } from './capped-series.ts'
import {
  createHistogramCell,
  type Family,
  type HistogramCell,
  type Labels,
  type Value,
  workBounds,
} from './metric-series.ts'

/**
 * Counts the locks that are taken through this server, from what the store answers anyway: how long they were waited
 * for, how long they were held, who waits now, and whose lease ran out. A release names no beginning, so who waits and
 * who holds is remembered until that is over; what began elsewhere has no times here. Nothing is asked of the store.
 *
 *     acquire ──▶ queued ──▶ granted (a wait ends, a hold begins) ──▶ released, lost (the hold ends)
 *                   └──────▶ completed, failed, gone
 *
 * People choose the names of operations, and a metric must not grow with them: up to 100 operations have series of their
 * own, the rest share those of `other`. Resources and nodes are never shown.
 */
export interface LockMeter {
  /** The same store, counted. What it answers is not touched. */
  store(namespace: string, store: LockStore): LockStore
  /** What was counted, of one namespace or of all. */
  families(namespace: string | undefined): readonly Family[]
}

/** How much a meter remembers, at half a kilobyte each; beyond it the oldest are forgotten. */
export const lockMeterLimits: {
  readonly operations: number
  readonly waiting: number
  readonly held: number
} = { operations: 100, waiting: 50_000, held: 50_000 }

/** `gone`: it left, was evicted, or its deadline or lease was over. */
const waitEnds = ['granted', 'completed', 'failed', 'gone'] as const
type WaitEnd = (typeof waitEnds)[number]
/** `lost`: its lease ran out, it was evicted, or it was never taken up. */
const holdEnds = ['success', 'failure', 'lost'] as const
type HoldEnd = (typeof holdEnds)[number]

type Step = Pick<Awaited<ReturnType<LockStore['acquire']>>, 'told' | 'elsewhere'>
type Told = Step['told']
type Requester = Told['requesters'][number]
type Standing = Awaited<ReturnType<LockStore['keep']>>['standing']
type OutcomeKind = Extract<Standing, { readonly status: 'ended' }>['kind']

const waitEndOf: Readonly<Record<OutcomeKind, WaitEnd>> = {
  completed: 'completed',
  failed: 'failed',
  timeout: 'gone',
  evicted: 'gone',
  lost: 'gone',
}

/** Of one operation. Times have a cell for each end that there was. */
interface Cells {
  readonly waits: Partial<Record<WaitEnd, HistogramCell>>
  readonly holds: Partial<Record<HoldEnd, HistogramCell>>
  waiterCount: number
  expiredCount: number
}

interface Waiting {
  readonly cells: Cells
  readonly since: number
  /** When it was last heard of, and when its place is lost if it is not heard of again. */
  seenAt: number
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

export function createLockMeter(clock: Clock): LockMeter {
  const operations = createCappedLines<Cells>({
    labelNames: ['namespace', 'operation'],
    limit: lockMeterLimits.operations,
    create: () => ({ waits: {}, holds: {}, waiterCount: 0, expiredCount: 0 }),
  })
  /** Who was not heard of for the longest first: all of them have the same time to be heard of again. */
  const waiting = new Map<string, Waiting>()
  /** Oldest first. */
  const held = new Map<string, Holding>()

  const cellsOf = ({ namespace, operation }: WaitQueue) =>
    operations.find([namespace, operation], clock.now())

  function waits(queue: WaitQueue, who: Requester, leaseMs: number): void {
    const name = nameOf(queue, who)
    const now = clock.now()
    const known = waiting.get(name)
    // Taken out first, so that it is the last.
    if (known !== undefined) waiting.delete(name)
    else if (waiting.size >= lockMeterLimits.waiting) forgetFirstWaiter()
    const waiter = known ?? { cells: cellsOf(queue), since: now, seenAt: now, goneAt: now }
    if (known === undefined) waiter.cells.waiterCount++
    waiter.seenAt = now
    waiter.goneAt = now + leaseMs
    waiting.set(name, waiter)
  }

  function forgetFirstWaiter(): void {
    for (const [name, { cells }] of waiting) {
      waiting.delete(name)
      cells.waiterCount--
      return
    }
  }

  /** The cells that it was counted in; undefined: nobody knew here that it waited. */
  function waitEnded(name: string, end: WaitEnd): Cells | undefined {
    const waiter = waiting.get(name)
    if (waiter === undefined) return undefined
    waiting.delete(name)
    const { cells, since } = waiter
    cells.waiterCount--
    observe(cells.waits, end, clock.now() - since)
    return cells
  }

  function grantedAtOnce(queue: WaitQueue): Cells {
    const cells = cellsOf(queue)
    observe(cells.waits, 'granted', 0)
    return cells
  }

  /** Who waits asks now and then, to keep its place; one that has not is gone, or asks another server. */
  function forgetGone(): void {
    const now = clock.now()
    for (const [name, { cells, since, seenAt, goneAt }] of waiting) {
      if (goneAt > now) return
      waiting.delete(name)
      cells.waiterCount--
      observe(cells.waits, 'gone', seenAt - since)
    }
  }

  function holds(name: string, cells: Cells): void {
    setNewest(held, name, { cells, since: clock.now() }, lockMeterLimits.held)
  }

  function holdEnded(name: string, end: HoldEnd): void {
    const hold = held.get(name)
    if (hold === undefined) return
    held.delete(name)
    observe(hold.cells.holds, end, clock.now() - hold.since)
  }

  /** Who held it and is told of a step, was told that it does not any more; a grant is told to one who did not. */
  function told(queue: WaitQueue, { requesters, lapsed }: Told): void {
    if (lapsed) cellsOf(queue).expiredCount++
    for (const who of requesters) holdEnded(nameOf(queue, who), 'lost')
  }

  function stepped<Answer extends Step>(queue: WaitQueue, answer: Answer): Answer {
    told(queue, answer.told)
    for (const other of answer.elsewhere ?? []) told({ ...queue, operation: other.operation }, other.told)
    return answer
  }

  /** How it stands with one who asked. */
  function stands(
    queue: WaitQueue,
    who: Requester,
    { standing, told }: Step & { readonly standing: Standing },
    leaseMs: number,
  ): void {
    const name = nameOf(queue, who)
    if (standing?.status === 'queued') {
      waits(queue, who, leaseMs)
    } else if (standing?.status === 'granted') {
      // One that neither waited nor was granted by this very step asked again for what it has.
      const isNew = told.requesters.some((one) => isSame(one, who))
      const cells = waitEnded(name, 'granted') ?? (isNew ? grantedAtOnce(queue) : undefined)
      if (cells) holds(name, cells)
    } else {
      held.delete(name)
      waitEnded(name, standing?.status === 'ended' ? waitEndOf[standing.kind] : 'gone')
    }
  }

  /** One that waits at another server is counted there. */
  function calledNext(name: string): void {
    const cells = waitEnded(name, 'granted')
    if (cells) holds(name, cells)
  }

  function countStore(namespace: string, store: LockStore): LockStore {
    const queueOf = ({ operation, resource }: LockKey): WaitQueue => ({ namespace, operation, resource })
    return {
      // These without async: there is one of each for every turn, and each promise on its way adds to it.
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
        for (const one of swept) told(queueOf(one.key), one.told)
        return swept
      },
      inspect: (key, limit) => store.inspect(key, limit),
      list: (query) => store.list(query),
      findWaitingHolders: (keys) => store.findWaitingHolders(keys),
    }
  }

  function families(namespace: string | undefined): readonly Family[] {
    forgetGone()
    const shown = operations
      .all()
      .filter(({ labels }) => namespace === undefined || labels.namespace === namespace)
    const seriesOf = (count: (cells: Cells) => number): readonly Value[] =>
      shown.map(({ labels, cells }) => ({ labels, value: count(cells) }))
    return [
      {
        name: 'signalbox_lock_wait_seconds',
        help: 'From asking for a lock to the end of the wait, both through this server, by how it ended; 0 where it was free.',
        type: 'histogram',
        values: shown.flatMap(({ labels, cells }) =>
          timesOf('signalbox_lock_wait_seconds', labels, waitEnds, cells.waits),
        ),
      },
      {
        name: 'signalbox_lock_hold_seconds',
        help: 'From a grant to its end, both through this server, by how it ended.',
        type: 'histogram',
        values: shown.flatMap(({ labels, cells }) =>
          timesOf('signalbox_lock_hold_seconds', labels, holdEnds, cells.holds),
        ),
      },
      {
        name: 'signalbox_lock_waiters',
        help: 'Who waits for locks and was lately heard of by this server; the store is not asked.',
        type: 'gauge',
        values: seriesOf(({ waiterCount }) => waiterCount),
      },
      {
        name: 'signalbox_lock_expired_total',
        help: 'Turns that ended because their lease ran out, as this server found; each is found by one server.',
        type: 'counter',
        values: seriesOf(({ expiredCount }) => expiredCount),
      },
    ]
  }

  return { store: countStore, families }
}

function observe<End extends string>(times: Partial<Record<End, HistogramCell>>, end: End, ms: number): void {
  const cell: HistogramCell = times[end] ?? createHistogramCell(workBounds)
  times[end] = cell
  cell.observe(ms / 1_000)
}

function timesOf<End extends string>(
  name: string,
  labels: Labels,
  ends: readonly End[],
  times: Partial<Record<End, HistogramCell>>,
): readonly Value[] {
  return ends.flatMap((outcome) => times[outcome]?.values(name, { ...labels, outcome }) ?? [])
}

/** No name has a control character in it. */
function nameOf({ namespace, operation, resource }: WaitQueue, { node, requestId }: Requester): string {
  return `${namespace}\n${operation}\n${resource}\n${node}\n${requestId}`
}

function isSame(a: Requester, b: Requester): boolean {
  return a.node === b.node && a.requestId === b.requestId
}
