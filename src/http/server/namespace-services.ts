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
import type { Feed, LongPollClaims, Served, ServedStores } from './call.ts'
import { queueCountsOf } from './metrics/queue-counts.ts'
import { noRedactor, type Redactor } from './request/redact-job.ts'
import type { ModuleSettings } from './server-options.ts'
import { createQueuesFeed } from './streams/queues-feed.ts'
import { createJobFeed, createQueueFeed, QueueEnds } from './streams/row-feeds.ts'
import { createHintsFeed, createLocksFeed, createTasksFeed } from './streams/watch-feeds.ts'

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

/**
 * The services of every namespace in use. A space is created by its first request and kept for the next. Their number is
 * bounded: beyond it, unused ones are dropped first, the longest unused before the others. A space with a request, a
 * waiting claim or a stream is never dropped.
 */
export class Spaces implements AsyncDisposable {
  readonly #served: SpacesSource
  readonly options: Required<SpacesOptions>
  readonly isCounting: boolean
  readonly #spaces = new Map<string, Space>()
  /** Rises whenever the last reference to a namespace is released. */
  #turn = 0
  #isLettingGo = false

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

  get isLettingGo(): boolean {
    return this.#isLettingGo
  }

  /** Those that are kept, for upkeep. */
  *[Symbol.iterator](): Iterator<Space> {
    yield* [...this.#spaces.values()]
  }

  /** The namespace's services; every `enter` needs a `leave`. */
  enter(namespace: string): Space {
    const space = this.#spaces.get(namespace) ?? this.#make(namespace)
    space.refCount++
    return space
  }

  leave(space: Space): void {
    if (--space.refCount > 0) return
    space.emptySince = ++this.#turn
    if (this.#spaces.size > this.options.max) this.#forgetOne()
  }

  /** Lets every claim that waits go with what it has; later ones do not wait. */
  letGo(): void {
    this.#isLettingGo = true
    for (const space of this.#spaces.values()) space.letGo()
  }

  /** Gives out no more tasks; what nodes run may end for so long, and then they are sent away. */
  async stopDispatch(graceMs: number): Promise<void> {
    await Promise.all([...this.#spaces.values()].map((space) => space.stopDispatch(graceMs)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.letGo()
    const all = [...this.#spaces.values()]
    this.#spaces.clear()
    await Promise.all(all.map((space) => space.close()))
  }

  #make(namespace: string): Space {
    const remoteWakeUps = this.#served.traits?.remoteWakeUps ?? false
    const space = new Space(namespace, this.#served.within(namespace), remoteWakeUps, this)
    if (this.#isLettingGo) space.letGo()
    this.#spaces.set(namespace, space)
    if (this.#spaces.size > this.options.max) this.#forgetOne(space)
    return space
  }

  /** Where all are in use there are too many for a while: each that falls empty then is forgotten at once. */
  #forgetOne(but?: Space): void {
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

/** One namespace's services. Made when first asked for, and forgotten when idle. */
export class Space {
  readonly namespace: string
  readonly stores: ServedStores
  /** What is hidden of what jobs carry. */
  readonly redactor: Redactor
  /** What jobs wait for here, and with which locks. */
  readonly dependencies: { readonly store: DependencyStore; readonly locks: JobLocks }
  readonly jobs: Jobs
  /** Requests that wait for jobs to end. */
  readonly jobWaits: JobWaits
  /** Counts what passes through this server. Undefined: nothing is counted. */
  readonly activity: SeriesRecorder | undefined
  readonly queueEnds: QueueEnds
  readonly longPollClaims: LongPollClaims
  /** Lists programs that only claim over HTTP. */
  readonly claimingWorkers: ClaimingWorkers
  /** What operators watch: `/v1/events`. */
  readonly queuesFeed: Feed
  readonly #spaces: Spaces
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

  constructor(namespace: string, stores: ServedStores, remoteWakeUps: boolean, spaces: Spaces) {
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
    this.queuesFeed = this.#kept((space) => space.#queuesRead)
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

  /** How many nodes are connected to this server, by status; none while dispatch is unused here. */
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

  /** The events of a wait queue: `/v1/locks/events`. */
  locksFeed(options: Omit<WatchOptions, 'signal' | 'lastEventId'>): Feed {
    const spaces = this.#spaces
    return this.#kept((space) => createLocksFeed(space.locks, options, () => spaces.isLettingGo))
  }

  /** What happens to a job: `/v1/jobs/{id}/events`. */
  jobFeed(jobId: string): Feed {
    return this.#kept(({ jobs, jobWaits }) => createJobFeed({ jobs, waits: jobWaits }, jobId))
  }

  /** Which jobs of a queue ended: `/v1/queues/{name}/events`. */
  queueFeed(queue: string): Feed {
    return this.#kept(({ queueEnds }) => createQueueFeed(queueEnds, queue))
  }

  /** What happens to a task: `/v1/tasks/{id}/events`. */
  tasksFeed(taskId: string): Feed {
    return this.#kept((space) => createTasksFeed(space.dispatch, taskId))
  }

  get #queuesRead(): Feed {
    const stats = async () => {
      const { lines } = await queueCountsOf(this.stores).now()
      return lines.filter(({ queue }) => !isReserved(queue))
    }
    this.#queues ??= createQueuesFeed({ stats }, this.stores.notifier)
    return this.#queues
  }

  /** Hints for remote workers of these queues: `/v1/jobs/events`. */
  hintsFeed(queues: readonly string[]): Feed {
    return this.#kept((space) => createHintsFeed(space.stores.notifier, queues))
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
  #kept(feedOf: (space: Space) => Feed): Feed {
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
