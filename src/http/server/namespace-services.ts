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
import {
  createLocks,
  createLocksForJobs,
  type LockStore,
  type Locks,
  type WatchOptions,
} from '../../locks/index.ts'
import { createMonitor, type Monitor } from '../../monitor/index.ts'
import { createOnce, type Once, OnceTally } from '../../once/index.ts'
import { type ClaimingWorkers, createClaimingWorkers } from './background/claiming-workers.ts'
import { createLongPollClaims } from './background/long-poll-claims.ts'
import type { Feed, LongPollClaims, Served, ServedStores, Space } from './call.ts'
import { queueCountsOf } from './metrics/queue-counts.ts'
import { noRedactor, type Redactor } from './request/redact-job.ts'
import type { ModuleSettings } from './server-options.ts'
import { createJobFeed } from './streams/job-feed.ts'
import { createQueueFeed, QueueEnds } from './streams/queue-feed.ts'
import { createQueuesFeed } from './streams/queues-feed.ts'
import { createHintsFeed, createLocksFeed, createTasksFeed } from './streams/watch-feeds.ts'

/**
 * The services of every namespace in use. A space is created by its first request and kept for the next. Their number is
 * bounded: beyond it, unused ones are dropped first, the longest unused before the others. A space with a request, a
 * waiting claim or a stream is never dropped.
 */
export interface Spaces extends AsyncDisposable {
  /** The namespace's services; every `enter` needs a `leave`. */
  enter(namespace: string): Space
  leave(space: Space): void
  /** Those that are kept, for upkeep. */
  [Symbol.iterator](): Iterator<Space>
  readonly size: number
  /** Lets every claim that waits go with what it has; later ones do not wait. */
  letGo(): void
  /** Gives out no more tasks; what nodes run may end for so long, and then they are sent away. */
  stopDispatch(graceMs: number): Promise<void>
}

/** What spaces are made from. */
export type SpacesSource = Pick<Served, 'within'> & Partial<Pick<Served, 'traits' | 'time'>>

export interface SpacesOptions {
  /** Measures waits. @default no meter */
  readonly meter?: Meter
  /** Learns of events of dispatchers. @default none */
  readonly onDispatch?: (namespace: string, event: DispatchEvent) => void
  /** Learns how long a task waited for its first node. @default none */
  readonly onPlaced?: (namespace: string, waitedMs: number) => void
  /** Learns of counts of jobs that could not be written yet. @default nobody */
  readonly onSeriesTrouble?: (error: unknown) => void
  /** The store of a namespace's locks, counted. @default as it is */
  readonly countLocks?: (namespace: string, store: LockStore) => LockStore
  /** How the modules behave. @default by their own defaults */
  readonly settings?: ModuleSettings
  /** What is hidden of what jobs carry. @default nothing */
  readonly redactor?: Redactor
  /** @default 1_000 */
  readonly max?: number
}

const spacesDefaults: Required<SpacesOptions> = {
  settings: {},
  meter: noMeter,
  onDispatch: () => undefined,
  onPlaced: () => undefined,
  onSeriesTrouble: () => undefined,
  countLocks: (_namespace, store) => store,
  redactor: noRedactor,
  max: 1_000,
}

export function createSpaces(served: SpacesSource, options?: SpacesOptions): Spaces {
  return new KnownSpaces(served, { ...spacesDefaults, ...options })
}

class KnownSpaces implements Spaces {
  readonly #served: SpacesSource
  readonly options: Required<SpacesOptions>
  readonly isCounting: boolean
  readonly #services = new Map<string, NamespaceServices>()
  /** Rises whenever the last reference to a namespace is released. */
  #turn = 0
  #isLettingGo = false

  constructor(served: SpacesSource, options: Required<SpacesOptions>) {
    this.#served = served
    this.options = options
    this.isCounting = resolveSeriesOptions('settings.series', options.settings.series) !== undefined
  }

  get size(): number {
    return this.#services.size
  }

  /** The store's clock. */
  now(): Promise<number> {
    return this.#served.time?.() ?? Promise.resolve(Date.now())
  }

  get isLettingGo(): boolean {
    return this.#isLettingGo
  }

  *[Symbol.iterator](): Iterator<Space> {
    yield* [...this.#services.values()]
  }

  enter(namespace: string): Space {
    const services = this.#services.get(namespace) ?? this.#make(namespace)
    services.refCount++
    return services
  }

  leave(space: Space): void {
    const services = space as NamespaceServices
    if (--services.refCount > 0) return
    services.emptySince = ++this.#turn
    if (this.#services.size > this.options.max) this.#forgetOne()
  }

  letGo(): void {
    this.#isLettingGo = true
    for (const services of this.#services.values()) services.letGo()
  }

  async stopDispatch(graceMs: number): Promise<void> {
    await Promise.all([...this.#services.values()].map((services) => services.stopDispatch(graceMs)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.letGo()
    const all = [...this.#services.values()]
    this.#services.clear()
    await Promise.all(all.map((services) => services.close()))
  }

  #make(namespace: string): NamespaceServices {
    const remoteWakeUps = this.#served.traits?.remoteWakeUps ?? false
    const services = new NamespaceServices(namespace, this.#served.within(namespace), remoteWakeUps, this)
    if (this.#isLettingGo) services.letGo()
    this.#services.set(namespace, services)
    if (this.#services.size > this.options.max) this.#forgetOne(services)
    return services
  }

  /** Where all are in use there are too many for a while: each that falls empty then is forgotten at once. */
  #forgetOne(but?: NamespaceServices): void {
    let oldest: NamespaceServices | undefined
    for (const services of this.#services.values()) {
      if (services.refCount > 0 || services === but) continue
      if (oldest === undefined || services.emptySince < oldest.emptySince) oldest = services
    }
    if (oldest === undefined) return
    this.#services.delete(oldest.namespace)
    void oldest.close()
  }
}

class NamespaceServices implements Space {
  readonly namespace: string
  readonly stores: ServedStores
  readonly redactor: Redactor
  /** What jobs wait for here, and with which locks. */
  readonly dependencies: { readonly store: DependencyStore; readonly locks: JobLocks }
  readonly jobs: Jobs
  readonly jobWaits: JobWaits
  readonly activity: SeriesRecorder | undefined
  readonly queueEnds: QueueEnds
  readonly longPollClaims: LongPollClaims
  readonly claimingWorkers: ClaimingWorkers
  readonly queuesFeed: Feed
  readonly #spaces: KnownSpaces
  readonly #remoteWakeUps: boolean
  #locks: Locks | undefined
  #once: Once | undefined
  #monitor: Monitor | undefined
  #dispatch: Dispatch | undefined
  /** Counts of guards, of all callers. */
  readonly tally: OnceTally = new OnceTally()
  #queues: (Feed & AsyncDisposable) | undefined
  /** How many are in it, and the turn at which the last one left. */
  refCount = 0
  emptySince = 0

  constructor(namespace: string, stores: ServedStores, remoteWakeUps: boolean, spaces: KnownSpaces) {
    this.namespace = namespace
    this.stores = stores
    const { redactor, onSeriesTrouble } = spaces.options
    this.redactor = redactor
    this.dependencies = {
      store: stores.dependencies,
      locks: createLocksForJobs(() => this.locks, stores.notifier),
    }
    const { dependencies, notifier } = stores
    this.jobWaits = new JobWaits({ look: (ids) => dependencies.states(ids), notifier })
    this.activity = spaces.isCounting
      ? createSeriesRecorder({ store: stores.series, onTrouble: onSeriesTrouble })
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
      // The server has others for that.
      worksBulk: false,
    })
    this.queueEnds = new QueueEnds(stores.jobs, () => spaces.now())
    this.claimingWorkers = createClaimingWorkers(stores.workers)
    this.longPollClaims = createLongPollClaims(stores.notifier)
    this.#spaces = spaces
    this.#remoteWakeUps = remoteWakeUps
    this.queuesFeed = this.#kept((services) => services.queues)
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

  /** None while dispatch is unused here. Other servers report their own nodes. */
  nodeStates(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    for (const { status, via } of this.#dispatch?.nodes() ?? [])
      if (via === null) counts.set(status, (counts.get(status) ?? 0) + 1)
    return counts
  }

  /** Its queues are scaled by what is counted. */
  get scaled(): this | undefined {
    return this.activity && this
  }

  /** By service, of this server only. Empty until dispatch is first used here. */
  serviceCounts(): readonly ServiceCounts[] {
    return this.#dispatch?.serviceCounts() ?? []
  }

  async stopDispatch(graceMs: number): Promise<void> {
    await this.#dispatch?.stop({ graceMs })
  }

  get audit(): Audit {
    return createAudit({ store: this.stores.audit })
  }

  locksFeed(options: Omit<WatchOptions, 'signal' | 'lastEventId'>): Feed {
    const spaces = this.#spaces
    return this.#kept((services) => createLocksFeed(services.locks, options, () => spaces.isLettingGo))
  }

  jobFeed(jobId: string): Feed {
    return this.#kept(({ jobs, jobWaits }) => createJobFeed({ jobs, waits: jobWaits }, jobId))
  }

  queueFeed(queue: string): Feed {
    return this.#kept(({ queueEnds }) => createQueueFeed(queueEnds, queue))
  }

  tasksFeed(taskId: string): Feed {
    return this.#kept((services) => createTasksFeed(services.dispatch, taskId))
  }

  /** Created for the first watcher. */
  get queues(): Feed {
    const stats = async () => {
      const { lines } = await queueCountsOf(this.stores).now()
      return lines.filter(({ queue }) => !isReserved(queue))
    }
    this.#queues ??= createQueuesFeed({ stats }, this.stores.notifier)
    return this.#queues
  }

  hintsFeed(queues: readonly string[]): Feed {
    return this.#kept((services) => createHintsFeed(services.stores.notifier, queues))
  }

  /** Ends what waits for jobs, with what there is; later requests do not wait. */
  letGo(): void {
    this.longPollClaims.close()
    this.jobWaits.letGo()
  }

  async close(): Promise<void> {
    this.letGo()
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
   * A feed whose readers are counted in refCount. It is opened after the request that asked for it has left, when the space
   * may be forgotten already; so it enters again.
   */
  #kept(feedOf: (services: NamespaceServices) => Feed): Feed {
    const { namespace } = this
    const spaces = this.#spaces
    return {
      open(lastEventId, reader) {
        const services = spaces.enter(namespace) as NamespaceServices
        let isOpen = true
        const leave = () => {
          if (isOpen) spaces.leave(services)
          isOpen = false
        }
        try {
          const close = feedOf(services).open(lastEventId, reader)
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

/** Commands of the registry as turns in one lane, each of which stops the thread while it lasts. */
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
