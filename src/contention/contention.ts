import { createEvents, type EventSource } from '../core/events.ts'
import { type Meter, noMeter } from '../core/meter.ts'
import { Commands } from './commands.ts'
import { type ContentionOptions, resolveContentionOptions } from './contention-options.ts'
import { KeyWaits, type WaitKey } from './key-waits.ts'
import { type Kind, Kinds, noteWait } from './kinds.ts'
import { LoopWatch, loopActiveMs } from './loop-watch.ts'
import { meterStore } from './metered-stores.ts'
import { Recorder } from './recorder.ts'
import { Slowest } from './slowest.ts'
import type { ContentionSnapshot, HolderTotal, MatrixCell } from './snapshot.ts'
import { type KindSeries, seriesOf, takeSnapshot } from './take-snapshot.ts'
import { Tickets } from './tickets.ts'
import { Matrix, type Pending, type Share } from './wait-matrix.ts'

/**
 * One recorder for the whole process: whoever waits tells it, whoever holds up others tells it, and it says who waits on
 * whom. Its memory is fixed, telling it something takes well under a microsecond, and nothing that is told makes it throw.
 */
export interface Contention extends Meter {
  /** Whether anything is measured. */
  readonly enabled: boolean
  readonly events: EventSource<ContentionEvents>
  /** Does `work` as a command of that kind: what it asks of metered stores is its wait, and the rest its hold. */
  during<Result>(kind: number, work: () => Promise<Result>, what?: string): Promise<Result>
  /** The command under way: what kind it turned out to be, and that it has nothing to do for a while. */
  readonly command: CommandUnderWay
  /** The same store, measured call by call: `store.<name>.<method>`. */
  store<Store extends object>(store: Store, name: string): Store
  /** Waits for locks, by key. */
  readonly keys: LockWaits
  /** Everything that is known; with a namespace, without what is of other namespaces. */
  snapshot(options?: SnapshotOptions): ContentionSnapshot
  /** The same for Prometheus: how many waits and holds of each kind lie within each bound. */
  series(boundsMs: readonly number[]): ContentionSeries
  /** Begins to watch the event loop and the garbage collector; the caller that starts it stops it. */
  start(): void
  stop(): void
}

export interface CommandUnderWay {
  /** It is of this kind, as is known by now. */
  is(kind: number): void
  /** It waits for an event, until `resume`. That is no contention and is not counted. */
  rest(): void
  resume(): void
}

/** What is told of locks; see KeyWaits. */
export interface LockWaits {
  queued(key: WaitKey, node: string, requestId: string): void
  granted(key: WaitKey, node: string, requestId: string): void
  left(key: WaitKey, node: string, requestId: string): void
  released(key: WaitKey, next: { readonly node: string; readonly requestId: string } | null): void
  heldBy(key: WaitKey, node: string | null): void
}

export interface SnapshotOptions {
  /** Leaves out keys of other namespaces, and what the slowest turns were about. @default everything */
  readonly namespace?: string | undefined
}

export interface ContentionSeries {
  readonly kinds: readonly KindSeries[]
  readonly matrix: readonly MatrixCell[]
}

export interface ContentionEvents {
  /** Waits of a kind were longer than the bound: a summary, at most one in `warnEveryMs` for each kind. */
  readonly slow: SlowWaits
}

/** The slow waits of one kind in one interval. */
export interface SlowWaits {
  readonly kind: string
  /** How many waits were longer than `aboveMs`, within how long. */
  readonly count: number
  readonly aboveMs: number
  readonly withinMs: number
  /** The longest of them: how long, what it was about, and when it ended, in epoch milliseconds. */
  readonly longestMs: number
  readonly what: string | null
  readonly at: number
  /** On whom the longest waited, and how long; most first. */
  readonly holders: readonly HolderTotal[]
}

/** For those who measure nothing: everything is there and does nothing. */
export const noContention: Contention = Object.freeze({
  ...noMeter,
  enabled: false,
  events: createEvents<ContentionEvents>(),
  during: <Result>(_kind: number, work: () => Promise<Result>) => work(),
  command: { is: () => undefined, rest: () => undefined, resume: () => undefined },
  store: <Store extends object>(store: Store) => store,
  keys: {
    queued: () => undefined,
    granted: () => undefined,
    left: () => undefined,
    released: () => undefined,
    heldBy: () => undefined,
  },
  snapshot: () => ({
    since: 0,
    at: Date.now(),
    holders: [],
    matrix: [],
    kinds: [],
    lanes: [],
    slowest: [],
    keys: [],
    overflow: { kinds: 0, tickets: 0, cells: 0, keys: 0 },
  }),
  series: () => ({ kinds: [], matrix: [] }),
  start: () => undefined,
  stop: () => undefined,
})

/** Makes a recorder of its own. Most want the one of the process: `processContention`. */
export function createContention(options?: ContentionOptions): Contention {
  const { warnMs, warnEveryMs, maxKinds, maxKeys } = resolveContentionOptions(options)
  const now = () => performance.now()
  const since = Date.now()
  const events = createEvents<ContentionEvents>()
  const kinds = new Kinds(maxKinds)
  const tickets = new Tickets()
  const holder = (name: string) => kinds.get(kinds.of(name))
  const named = { gc: holder('gc'), eventLoop: holder('event-loop'), host: holder('host') }
  const store = kinds.of('store')
  const timer = kinds.of('timer')
  const matrix = new Matrix({ kinds, tickets, named, onSettled })
  const slowest = new Slowest(slowestCount, now())
  const recorder = new Recorder({ kinds, tickets, matrix, slowest, now })
  const commands = new Commands({ kinds, matrix, slowest, store, now })
  const keys = new KeyWaits(maxKeys, now)
  const loop = new LoopWatch(
    {
      kinds,
      now,
      activeMs: loopActiveMs,
      // Late timers are no turns, so they are not among the slowest.
      timerWaited: (dueAt, firedAt) => {
        noteWait(kinds.get(timer), firedAt - dueAt)
        matrix.waited(timer, dueAt, firedAt, 0, undefined)
      },
      onTick: (until) => {
        matrix.settle(until)
        slowest.tick(until)
        warn(until)
      },
    },
    named,
  )
  /** Kinds with slow waits that were not reported yet. */
  const slowKinds = new Set<Kind>()
  let starts = 0

  function onSettled({ kind: id, from, to, what, count }: Pending, shares: readonly Share[]): void {
    const kind = kinds.get(id)
    const ms = to - from
    if (ms <= (kind.warnMs ?? warnMs) || events.listenerCount('slow') === 0) return
    warn(to)
    if (kind.slow !== undefined && ms <= kind.slow.longest.ms) {
      kind.slow.count += count
      return
    }
    const holders = shares
      .map((share) => ({ holder: kinds.get(share.holder).name, ms: share.ms }))
      .sort((one, other) => other.ms - one.ms)
    const longest = { ms, endedAt: to, what, holders }
    kind.slow ??= { beganAt: to, count: 0, longest }
    kind.slow.count += count
    kind.slow.longest = longest
    slowKinds.add(kind)
  }

  /** Reports the kinds whose interval is over; with `isLast`, all of them. */
  function warn(until: number, isLast = false): void {
    for (const kind of slowKinds) {
      const { beganAt, count, longest } = kind.slow!
      if (!isLast && until - beganAt < warnEveryMs) continue
      slowKinds.delete(kind)
      kind.slow = undefined
      events.emit('slow', {
        ...{ kind: kind.name, count, aboveMs: kind.warnMs ?? warnMs },
        withinMs: Math.round(Math.max(0, until - beganAt)),
        ...{ longestMs: longest.ms, what: longest.what ?? null, holders: longest.holders },
        at: Math.round(performance.timeOrigin + longest.endedAt),
      })
    }
  }

  /** All that is known is shared out: the latest lateness, the latest waits. */
  function settleAll(): void {
    loop.look()
    matrix.settle(Number.POSITIVE_INFINITY)
  }

  return {
    enabled: true,
    events,
    kind: (name, traits) => recorder.kind(name, traits),
    begin: (kind, what) => recorder.begin(kind, what),
    enter: (ticket) => recorder.enter(ticket),
    leave: (ticket) => recorder.leave(ticket),
    turn: (kind, begunAt, enteredAt, leftAt, what) => recorder.turn(kind, begunAt, enteredAt, leftAt, what),
    depth: (lane, waiting) => recorder.depth(lane, waiting),
    during: (kind, work, what) => commands.during(kind, work, what),
    command: {
      is(kind) {
        const { current } = commands
        if (current !== undefined) current.kind = kind
      },
      rest: () => commands.current?.rest(now()),
      resume: () => commands.current?.resume(now()),
    },
    store: (real, name) => meterStore(real, name, kinds, commands, now),
    keys,
    snapshot({ namespace } = {}) {
      settleAll()
      return takeSnapshot({ since, kinds, tickets, matrix, slowest, keys, now: now(), namespace })
    },
    series(boundsMs) {
      settleAll()
      return seriesOf(kinds, matrix, boundsMs)
    },
    start() {
      if (starts++ === 0) loop.start()
    },
    stop() {
      if (starts === 0 || --starts > 0) return
      loop.stop()
      warn(now(), true)
    },
  }
}

const slowestCount = 100

let shared: Contention | undefined

/** The recorder of this process, made when it is first asked for: whatever runs in one thread waits on each other. */
export function processContention(): Contention {
  shared ??= createContention()
  return shared
}
