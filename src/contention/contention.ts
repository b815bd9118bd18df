import { createEvents, type EventSource } from '../core/events.ts'
import { type Meter, noMeter } from '../core/meter.ts'
import { real, whole, withDefaults } from '../core/options.ts'
import { Commands, meterStore } from './commands.ts'
import { KeyWaits } from './key-waits.ts'
import { type Kind, Kinds, noteWait } from './kinds.ts'
import { LoopWatch, loopActiveMs } from './loop-watch.ts'
import { Recorder, Slowest } from './recorder.ts'
import {
  type ContentionSeries,
  type ContentionSnapshot,
  type HolderTotal,
  seriesOf,
  takeSnapshot,
} from './snapshot.ts'
import { Matrix, type Pending, type Share } from './wait-matrix.ts'

/**
 * The recorder of the process. It collects waits and turns, and computes which kinds wait for which holders. Its
 * memory is bounded, a report takes less than a microsecond, and no report makes it throw.
 */
export interface Contention extends Meter {
  /** Whether it measures. */
  readonly enabled: boolean
  readonly events: EventSource<ContentionEvents>
  /** Runs `work` as a command of this kind. Calls of metered stores are its waits; the remaining time is its turn. */
  during<Result>(kind: number, work: () => Promise<Result>, what?: string): Promise<Result>
  /** The current command. */
  readonly command: CommandUnderWay
  /** Returns the store with every call measured, as `store.<name>.<method>`. */
  store<Store extends object>(store: Store, name: string): Store
  /** Waits for locks, by key. */
  readonly keys: LockWaits
  /** All data; with a namespace, without the data of other namespaces. */
  snapshot(options?: SnapshotOptions): ContentionSnapshot
  /** The data for Prometheus: how many waits and holds of each kind are within each bound. */
  series(boundsMs: readonly number[]): ContentionSeries
  /** Starts to watch the event loop and the garbage collector; each start needs a stop. */
  start(): void
  stop(): void
}

export interface CommandUnderWay {
  /** Sets the kind of the command when it is known. */
  is(kind: number): void
  /** The command waits for an event until `resume`. This is not contention and is not counted. */
  rest(): void
  resume(): void
}

/** Reports about locks. */
export type LockWaits = Pick<KeyWaits, 'queued' | 'granted' | 'left' | 'released' | 'heldBy'>

export interface SnapshotOptions {
  /** Leaves out keys of other namespaces, and the subjects of the slowest turns. @default everything */
  readonly namespace?: string | undefined
}

export interface ContentionEvents {
  /** Waits of a kind were longer than `warnMs`: a summary, at most one per `warnEveryMs` and kind. */
  readonly slow: SlowWaits
}

/** The slow waits of one kind in one interval. */
export interface SlowWaits {
  readonly kind: string
  /** How many waits were longer than `aboveMs`, within `withinMs`. */
  readonly count: number
  readonly aboveMs: number
  readonly withinMs: number
  /** The longest wait: its length, its subject, and its end in epoch milliseconds. */
  readonly longestMs: number
  readonly what: string | null
  readonly at: number
  /** The holders that delayed the longest wait, longest first. */
  readonly holders: readonly HolderTotal[]
}

/** A recorder that measures nothing. */
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

/** Creates a separate recorder. Most code uses the recorder of the process: `processContention`. */
export function createContention(options?: ContentionOptions): Contention {
  const { warnMs, warnEveryMs, maxKinds, maxKeys } = resolveContentionOptions(options)
  const now = () => performance.now()
  const since = Date.now()
  const events = createEvents<ContentionEvents>()
  const kinds = new Kinds(maxKinds)
  const holder = (name: string) => kinds.get(kinds.of(name))
  const named = { gc: holder('gc'), eventLoop: holder('event-loop'), host: holder('host') }
  const store = kinds.of('store')
  const timer = kinds.of('timer')
  const matrix = new Matrix({ kinds, named, onSettled })
  const slowest = new Slowest(slowestCount, now())
  const recorder = new Recorder({ kinds, matrix, slowest, now })
  const commands = new Commands({ kinds, matrix, slowest, store, now })
  const keys = new KeyWaits(maxKeys, now)
  const loop = new LoopWatch(
    {
      kinds,
      now,
      activeMs: loopActiveMs,
      // A late timer is not a turn, so it is not recorded among the slowest.
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

  /** Emits `slow` for kinds at the end of their interval; with `isLast`, for all. */
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

  /** Attributes all waits up to now. */
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
      return takeSnapshot({ since, kinds, recorder, matrix, slowest, keys, now: now(), namespace })
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

/** The recorder of this process. There is one, because all work of a thread can delay all other work. */
export function processContention(): Contention {
  shared ??= createContention()
  return shared
}

/** The options of a recorder. */
export interface ContentionOptions {
  /** A wait above this is slow. A healthy machine stays below it. @default 500 */
  readonly warnMs?: number | undefined
  /** Slow waits of a kind within this time are one `slow` event. @default 60_000 */
  readonly warnEveryMs?: number | undefined
  /** The most kinds of commands; further kinds count as `other`. @default 512 */
  readonly maxKinds?: number | undefined
  /** The most keys of locks that are remembered. @default 1_000 */
  readonly maxKeys?: number | undefined
}

/** Complete options. */
export type ResolvedContentionOptions = { readonly [Key in keyof ContentionOptions]-?: number }

/** The default options of a recorder. */
export const contentionDefaults: ResolvedContentionOptions = {
  warnMs: 500,
  warnEveryMs: 60_000,
  maxKinds: 512,
  maxKeys: 1_000,
}

export function resolveContentionOptions(options: ContentionOptions | undefined): ResolvedContentionOptions {
  const given = withDefaults<ResolvedContentionOptions>(
    'createContention',
    options as never,
    contentionDefaults,
  )
  return Object.freeze({
    warnMs: real('warnMs', given.warnMs),
    warnEveryMs: whole('warnEveryMs', given.warnEveryMs),
    maxKinds: whole('maxKinds', given.maxKinds, { min: 16, max: 4_096 }),
    maxKeys: whole('maxKeys', given.maxKeys, { min: 1, max: 100_000 }),
  })
}
