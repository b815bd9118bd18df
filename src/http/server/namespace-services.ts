import { type Audit, createAudit } from '../../audit/index.ts'
import { type Meter, noMeter } from '../../core/meter.ts'
import {
  createDispatch,
  type Dispatch,
  type DispatchEvent,
  type ServiceCounts,
} from '../../dispatch/index.ts'
import { createSeriesRecorder, resolveSeriesOptions, type SeriesRecorder } from '../../fleet/index.ts'
import {
  createJobs,
  type DependencyStore,
  isReserved,
  type JobLocks,
  type Jobs,
  JobWaits,
} from '../../jobs/index.ts'
import { createLocks, createLocksForJobs, type Locks } from '../../locks/index.ts'
import { createMonitor, type Monitor } from '../../monitor/index.ts'
import { createOnce, type Once, OnceTally } from '../../once/index.ts'
import { ClaimingWorkers } from './background/claiming-workers.ts'
import { LongPollClaims } from './background/long-poll-claims.ts'
import type { Feed, Served, ServedStores } from './call.ts'
import type { CountLocks } from './metrics/lock-meter.ts'
import { queueCountsOf } from './metrics/queue-counts.ts'
import { noRedactor, type Redactor } from './request/redact-job.ts'
import type { ModuleSettings } from './server-options.ts'
import { createQueuesFeed } from './streams/queues-feed.ts'
import { QueueEnds } from './streams/row-feeds.ts'

/** The stores of all namespaces. */
type SpacesSource = Pick<Served, 'within'> & Partial<Pick<Served, 'traits' | 'time'>>

interface SpacesOptions {
  /** Measures waits. @default no meter */
  readonly meter?: Meter
  /** Gets the events of dispatchers. @default ignores them */
  readonly onDispatch?: (namespace: string, event: DispatchEvent) => void
  /** Gets the time that a task waited for its first node. @default ignores it */
  readonly onPlaced?: (namespace: string, waitedMs: number) => void
  /** Gets errors of writing counts of jobs. @default ignores them */
  readonly onSeriesError?: (error: unknown) => void
  /** Wraps the lock store of a namespace to count its calls. @default does not wrap it */
  readonly countLocks?: CountLocks
  /** The options of the modules. @default their own defaults */
  readonly settings?: ModuleSettings
  /** Hides values of jobs. @default hides nothing */
  readonly redactor?: Redactor
  /** @default 1_000 */
  readonly max?: number
}

const spacesDefaults: Required<SpacesOptions> = {
  settings: {},
  meter: noMeter,
  onDispatch: () => undefined,
  onPlaced: () => undefined,
  onSeriesError: () => undefined,
  countLocks: (_namespace, store) => store,
  redactor: noRedactor,
  max: 1_000,
}

/**
 * The services of every namespace in use. The first request of a namespace creates its space, and later ones reuse it.
 * The number of spaces is limited: above the limit, the server closes the space that has been unused for longest. It
 * never closes a space with a request, a waiting claim or a stream.
 */
export class Spaces implements AsyncDisposable {
  readonly #served: SpacesSource
  readonly options: Required<SpacesOptions>
  readonly isCounting: boolean
  readonly #spaces = new Map<string, Space>()
  /** Rises whenever the last reference to a namespace is released. */
  #turn = 0
  #isEndingWaits = false

  constructor(served: SpacesSource, options?: SpacesOptions) {
    this.#served = served
    this.options = { ...spacesDefaults, ...options }
    this.isCounting = resolveSeriesOptions('settings.series', this.options.settings.series) !== undefined
  }

  get size(): number {
    return this.#spaces.size
  }

  /** The store's clock. */
  now(): Promise<number> {
    return this.#served.time?.() ?? Promise.resolve(Date.now())
  }

  get isEndingWaits(): boolean {
    return this.#isEndingWaits
  }

  /** All open spaces, for upkeep. */
  *[Symbol.iterator](): Iterator<Space> {
    yield* [...this.#spaces.values()]
  }

  /** Returns the services of a namespace. Every `enter` needs a `leave`. */
  enter(namespace: string): Space {
    const space = this.#spaces.get(namespace) ?? this.#make(namespace)
    space.refCount++
    return space
  }

  leave(space: Space): void {
    if (--space.refCount > 0) return
    space.emptySince = ++this.#turn
    if (this.#spaces.size > this.options.max) this.#closeUnused()
  }

  /** Ends every waiting request with what it has. Later requests do not wait. */
  endWaits(): void {
    this.#isEndingWaits = true
    for (const space of this.#spaces.values()) space.endWaits()
  }

  /** Stops dispatching tasks. Nodes get `graceMs` to end their tasks, and are then disconnected. */
  async stopDispatch(graceMs: number): Promise<void> {
    await Promise.all([...this.#spaces.values()].map((space) => space.stopDispatch(graceMs)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.endWaits()
    const all = [...this.#spaces.values()]
    this.#spaces.clear()
    await Promise.all(all.map((space) => space.close()))
  }

  #make(namespace: string): Space {
    const remoteWakeUps = this.#served.traits?.remoteWakeUps ?? false
    const space = new Space(namespace, this.#served.within(namespace), remoteWakeUps, this)
    if (this.#isEndingWaits) space.endWaits()
    this.#spaces.set(namespace, space)
    if (this.#spaces.size > this.options.max) this.#closeUnused(space)
    return space
  }

  /** Closes the longest unused space. If all are in use, the limit is exceeded until one becomes unused. */
  #closeUnused(but?: Space): void {
    let oldest: Space | undefined
    for (const space of this.#spaces.values()) {
      if (space.refCount > 0 || space === but) continue
      if (oldest === undefined || space.emptySince < oldest.emptySince) oldest = space
    }
    if (oldest === undefined) return
    this.#spaces.delete(oldest.namespace)
    void oldest.close()
  }
}

/** The services of one namespace, each created on first use. */
export class Space {
  readonly namespace: string
  readonly stores: ServedStores
  /** Hides values of jobs. */
  readonly redactor: Redactor
  /** The dependencies of jobs, and the locks for which jobs wait. */
  readonly dependencies: { readonly store: DependencyStore; readonly locks: JobLocks }
  readonly jobs: Jobs
  /** Requests that wait for jobs to end. */
  readonly jobWaits: JobWaits
  /** Counts jobs that pass through this server. Undefined: the server does not count. */
  readonly activity: SeriesRecorder | undefined
  readonly queueEnds: QueueEnds
  readonly longPollClaims: LongPollClaims
  /** Lists programs that only claim over HTTP. */
  readonly claimingWorkers: ClaimingWorkers
  /** The events of `/v1/events`, for operators. */
  readonly queuesFeed: Feed
  readonly #spaces: Spaces
  readonly #remoteWakeUps: boolean
  #locks: Locks | undefined
  #once: Once | undefined
  #monitor: Monitor | undefined
  #dispatch: Dispatch | undefined
  /** Counts the calls of guards by all callers. */
  readonly tally: OnceTally = new OnceTally()
  #queues: (Feed & AsyncDisposable) | undefined
  refCount = 0
  /** The turn at which the last reference was released. */
  emptySince = 0

  constructor(namespace: string, stores: ServedStores, remoteWakeUps: boolean, spaces: Spaces) {
    this.namespace = namespace
    this.stores = stores
    const { redactor, onSeriesError } = spaces.options
    this.redactor = redactor
    this.dependencies = {
      store: stores.dependencies,
      locks: createLocksForJobs(() => this.locks, stores.notifier),
    }
    const { dependencies, notifier } = stores
    this.jobWaits = new JobWaits({ look: (ids) => dependencies.states(ids), notifier })
    this.activity = spaces.isCounting
      ? createSeriesRecorder({ store: stores.series, onError: onSeriesError })
      : undefined
    this.jobs = createJobs({
      ...(this.activity && { activity: this.activity }),
      store: redactor.store(stores.jobs),
      dependencies: this.dependencies,
      logs: stores.logs,
      attempts: redactor.attempts(stores.attempts),
      schedules: stores.schedules,
      workers: stores.workers,
      notifier,
      waits: this.jobWaits,
      passesSealed: true,
      // The server has its own bulk workers.
      worksBulk: false,
    })
    this.queueEnds = new QueueEnds(stores.jobs, () => spaces.now())
    this.claimingWorkers = new ClaimingWorkers(stores.workers)
    this.longPollClaims = new LongPollClaims(stores.notifier)
    this.#spaces = spaces
    this.#remoteWakeUps = remoteWakeUps
    this.queuesFeed = this.feed((space) => space.#sharedQueuesFeed)
  }

  /** Created on first use. */
  get locks(): Locks {
    this.#locks ??= this.#makeLocks()
    return this.#locks
  }

  #makeLocks(): Locks {
    const { settings, countLocks } = this.#spaces.options
    const { locks, notifier } = this.stores
    const store = countLocks(this.namespace, locks)
    return createLocks({ store, notifier, remoteWakeUps: this.#remoteWakeUps }, settings.locks)
  }

  /** Created on first use. */
  get once(): Once {
    const { stores, tally } = this
    this.#once ??= createOnce({ store: stores.guards, tally }, this.#spaces.options.settings.once)
    return this.#once
  }

  /** Created on first use. */
  get monitor(): Monitor {
    const { namespace, stores, tally } = this
    const { settings } = this.#spaces.options
    const guards = stores.ownGuards ?? stores.guards
    this.#monitor ??= createMonitor(
      {
        ...{ store: stores.monitor, jobs: stores.jobs, guards, notifier: stores.notifier, tally },
        ...{ namespace, secretKeys: settings.secretKeys },
      },
      settings.monitor,
    )
    return this.#monitor
  }

  /** Created on first use; one per namespace, because two would hold the same nodes' slots. */
  get dispatch(): Dispatch {
    const { jobs, logs, notifier, guards, ownGuards, cluster } = this.stores
    const { settings, meter, onDispatch, onPlaced } = this.#spaces.options
    this.#dispatch ??= createDispatch(
      {
        ...{ jobs, logs, notifier, cluster, guards: ownGuards ?? guards, observe: observeWith(meter) },
        remoteWakeUps: this.#remoteWakeUps,
        log: (event) => onDispatch(this.namespace, event),
        placed: (waitedMs) => onPlaced(this.namespace, waitedMs),
        activity: this.activity,
      },
      settings.dispatch,
    )
    return this.#dispatch
  }

  /** The number of nodes connected to this server, by status; empty while dispatch is unused here. */
  nodeStates(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    for (const { status, via } of this.#dispatch?.nodes() ?? [])
      if (via === null) counts.set(status, (counts.get(status) ?? 0) + 1)
    return counts
  }

  /** Whether the server ends waits, because it shuts down. */
  get isEndingWaits(): boolean {
    return this.#spaces.isEndingWaits
  }

  /** This space if it counts jobs, because scaling advice needs the counts. */
  get scaled(): this | undefined {
    return this.activity && this
  }

  /** The counts of this server by service. Empty until dispatch is first used here. */
  serviceCounts(): readonly ServiceCounts[] {
    return this.#dispatch?.serviceCounts() ?? []
  }

  async stopDispatch(graceMs: number): Promise<void> {
    await this.#dispatch?.stop({ graceMs })
  }

  get audit(): Audit {
    return createAudit({ store: this.stores.audit })
  }

  get #sharedQueuesFeed(): Feed {
    const stats = async () => {
      const { lines } = await queueCountsOf(this.stores).now()
      return lines.filter(({ queue }) => !isReserved(queue))
    }
    this.#queues ??= createQueuesFeed({ stats }, this.stores.notifier)
    return this.#queues
  }

  /** Ends waits for jobs with what they have. Later requests do not wait. */
  endWaits(): void {
    this.longPollClaims.close()
    this.jobWaits.endAll()
  }

  async close(): Promise<void> {
    this.endWaits()
    this.claimingWorkers.close()
    await this.#queues?.[Symbol.asyncDispose]()
    await this.stopDispatch(0)
    await this.#locks?.[Symbol.asyncDispose]()
    await this.#monitor?.[Symbol.asyncDispose]()
    await this.#once?.[Symbol.asyncDispose]()
    await this.jobs[Symbol.asyncDispose]()
    await this.activity?.[Symbol.asyncDispose]()
  }

  /**
   * A feed that counts its readers in `refCount`. A stream opens its feed after its request has left the space, which
   * may be closed by then. So the feed enters the namespace again.
   */
  feed(feedOf: (space: Space) => Feed): Feed {
    const { namespace } = this
    const spaces = this.#spaces
    return {
      open(lastEventId, reader) {
        const space = spaces.enter(namespace)
        let isOpen = true
        const leave = () => {
          if (isOpen) spaces.leave(space)
          isOpen = false
        }
        try {
          const close = feedOf(space).open(lastEventId, reader)
          return () => {
            if (isOpen) close()
            leave()
          }
        } catch (error) {
          leave()
          throw error
        }
      },
    }
  }
}

/** Records commands of the registry as turns of one lane. Each command blocks the thread. */
function observeWith(meter: Meter): (command: string, waitMs: number, holdMs: number, who: string) => void {
  const kinds = new Map<string, number>()
  const kindOf = (command: string): number => {
    const kind = meter.kind(`dispatch.${command}`, { lane: 'dispatch', sync: true })
    kinds.set(command, kind)
    return kind
  }
  return (command, waitMs, holdMs, who) => {
    const leftAt = performance.now()
    const enteredAt = leftAt - holdMs
    meter.turn(kinds.get(command) ?? kindOf(command), enteredAt - waitMs, enteredAt, leftAt, who)
  }
}
