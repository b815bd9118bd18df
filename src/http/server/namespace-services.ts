import { type Audit, createAudit } from '../../audit/index.ts'
import { type Meter, noMeter } from '../../core/meter.ts'
import {
  createDispatch,
  type Dispatch,
  type DispatchEvent,
  type ServiceCounts,
} from '../../dispatch/index.ts'
import { createJobs, type GateStore, isReserved, type JobLocks, type Jobs } from '../../jobs/index.ts'
import {
  createLocks,
  createLocksForJobs,
  type LockStore,
  type Locks,
  type WatchOptions,
} from '../../locks/index.ts'
import { createMonitor, type Monitor } from '../../monitor/index.ts'
import { createOnce, type Once, OnceTally } from '../../once/index.ts'
import { createClaimDesk } from './background/long-poll-claims.ts'
import type { ClaimDesk, Feed, Served, ServedStores, Space } from './call.ts'
import { queueCountsOf } from './metrics/queue-counts.ts'
import { noRedactor, type Redactor } from './request/redact-job.ts'
import type { RoomSettings } from './server-options.ts'
import { createHintsFeed, createQueuesFeed } from './streams/feeds.ts'
import { createLocksFeed } from './streams/locks-feed.ts'
import { createTasksFeed } from './streams/tasks-feed.ts'

/**
 * The services of every namespace that somebody uses. A space is made when it is first entered and kept for the next
 * one who comes. There is room for a bounded number: beyond it, those that nobody is in are forgotten first, the
 * longest unused before the others. A space with a request, a waiting claim or a stream in it is never forgotten.
 */
export interface Spaces extends AsyncDisposable {
  /** The namespace's services; whoever enters must leave. */
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

const maxSpaces = 1_000

/** What spaces are made from. */
export type SpacesSource = Pick<Served, 'within'> & Partial<Pick<Served, 'traits'>>

export interface SpacesOptions {
  /** Who measures waits. @default nobody */
  readonly meter?: Meter
  /** Learns what dispatchers find worth telling. @default nobody */
  readonly onDispatch?: (namespace: string, event: DispatchEvent) => void
  /** Learns how long a task waited for its first node. @default nobody */
  readonly onPlaced?: (namespace: string, waitedMs: number) => void
  /** The store of a namespace's locks, counted. @default as it is */
  readonly countLocks?: (namespace: string, store: LockStore) => LockStore
  /** How the rooms behave. @default by their own defaults */
  readonly settings?: RoomSettings
  /** What is hidden of what jobs carry. @default nothing */
  readonly redactor?: Redactor
  /** @default 1_000 */
  readonly max?: number
}

export function createSpaces(
  served: SpacesSource,
  {
    settings = {},
    meter = noMeter,
    onDispatch = () => undefined,
    onPlaced = () => undefined,
    countLocks = (_namespace, store) => store,
    redactor = noRedactor,
    max = maxSpaces,
  }: SpacesOptions = {},
): Spaces {
  return new KnownSpaces(served, { settings, meter, onDispatch, onPlaced, countLocks, redactor, max })
}

class KnownSpaces implements Spaces {
  readonly #served: SpacesSource
  readonly settings: RoomSettings
  readonly meter: Meter
  readonly redactor: Redactor
  readonly onDispatch: Required<SpacesOptions>['onDispatch']
  readonly onPlaced: Required<SpacesOptions>['onPlaced']
  readonly countLocks: Required<SpacesOptions>['countLocks']
  readonly #max: number
  readonly #rooms = new Map<string, Room>()
  /** Rises whenever a room falls empty. */
  #turn = 0
  #isLettingGo = false

  constructor(served: SpacesSource, options: Required<SpacesOptions>) {
    this.#served = served
    this.redactor = options.redactor
    this.settings = options.settings
    this.meter = options.meter
    this.onDispatch = options.onDispatch
    this.onPlaced = options.onPlaced
    this.countLocks = options.countLocks
    this.#max = options.max
  }

  get size(): number {
    return this.#rooms.size
  }

  get isLettingGo(): boolean {
    return this.#isLettingGo
  }

  *[Symbol.iterator](): Iterator<Space> {
    yield* [...this.#rooms.values()]
  }

  enter(namespace: string): Space {
    const room = this.#rooms.get(namespace) ?? this.#make(namespace)
    room.guests++
    return room
  }

  leave(space: Space): void {
    const room = space as Room
    if (--room.guests > 0) return
    room.emptySince = ++this.#turn
    if (this.#rooms.size > this.#max) this.#forgetOne()
  }

  letGo(): void {
    this.#isLettingGo = true
    for (const room of this.#rooms.values()) room.desk.close()
  }

  async stopDispatch(graceMs: number): Promise<void> {
    await Promise.all([...this.#rooms.values()].map((room) => room.stopDispatch(graceMs)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.letGo()
    const rooms = [...this.#rooms.values()]
    this.#rooms.clear()
    await Promise.all(rooms.map((room) => room.close()))
  }

  #make(namespace: string): Room {
    const remoteWakeUps = this.#served.traits?.remoteWakeUps ?? false
    const room = new Room(namespace, this.#served.within(namespace), remoteWakeUps, this)
    if (this.#isLettingGo) room.desk.close()
    this.#rooms.set(namespace, room)
    if (this.#rooms.size > this.#max) this.#forgetOne(room)
    return room
  }

  /** Where all are in use there are too many for a while: each that falls empty then is forgotten at once. */
  #forgetOne(but?: Room): void {
    let oldest: Room | undefined
    for (const room of this.#rooms.values()) {
      if (room.guests > 0 || room === but) continue
      if (oldest === undefined || room.emptySince < oldest.emptySince) oldest = room
    }
    if (oldest === undefined) return
    this.#rooms.delete(oldest.namespace)
    void oldest.close()
  }
}

class Room implements Space {
  readonly namespace: string
  readonly stores: ServedStores
  readonly redactor: Redactor
  /** What jobs wait for here, and with which locks. */
  readonly gates: { readonly store: GateStore; readonly locks: JobLocks }
  readonly jobs: Jobs
  readonly desk: ClaimDesk
  readonly queuesFeed: Feed
  readonly #spaces: KnownSpaces
  readonly #remoteWakeUps: boolean
  #locks: Locks | undefined
  #once: Once | undefined
  #monitor: Monitor | undefined
  #dispatch: Dispatch | undefined
  /** Counts of guards, whoever claims them. */
  readonly tally: OnceTally = new OnceTally()
  #queues: (Feed & AsyncDisposable) | undefined
  /** How many are in it, and the turn at which the last one left. */
  guests = 0
  emptySince = 0

  constructor(namespace: string, stores: ServedStores, remoteWakeUps: boolean, spaces: KnownSpaces) {
    this.namespace = namespace
    this.stores = stores
    this.redactor = spaces.redactor
    this.gates = { store: stores.gates, locks: createLocksForJobs(() => this.locks, stores.notifier) }
    this.jobs = createJobs({
      store: spaces.redactor.store(stores.jobs),
      gates: this.gates,
      notes: stores.notes,
      schedules: stores.schedules,
      notifier: stores.notifier,
      passesSealed: true,
      // The server has others for that.
      worksBulk: false,
    })
    this.desk = createClaimDesk(stores.notifier)
    this.#spaces = spaces
    this.#remoteWakeUps = remoteWakeUps
    this.queuesFeed = this.#kept((room) => room.queues)
  }

  /** Made when somebody first asks for one. */
  get locks(): Locks {
    this.#locks ??= this.#makeLocks()
    return this.#locks
  }

  #makeLocks(): Locks {
    const { settings, countLocks } = this.#spaces
    const { locks, notifier } = this.stores
    const store = countLocks(this.namespace, locks)
    return createLocks({ store, notifier, remoteWakeUps: this.#remoteWakeUps }, settings.locks)
  }

  /** Made when somebody first asks for one. */
  get once(): Once {
    const { stores, tally } = this
    this.#once ??= createOnce({ store: stores.guards, tally }, this.#spaces.settings.once)
    return this.#once
  }

  /** Made when somebody first asks for it. */
  get monitor(): Monitor {
    const { namespace, stores, tally } = this
    const { settings } = this.#spaces
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

  /** Made when somebody first asks for it; one per namespace, for two would hold the same nodes' slots. */
  get dispatch(): Dispatch {
    const { jobs, notes, notifier, guards, ownGuards, fleet } = this.stores
    const { meter, onDispatch, onPlaced } = this.#spaces
    this.#dispatch ??= createDispatch(
      {
        ...{ jobs, notes, notifier, fleet, guards: ownGuards ?? guards, observe: observeWith(meter) },
        remoteWakeUps: this.#remoteWakeUps,
        log: (event) => onDispatch(this.namespace, event),
        placed: (waitedMs) => onPlaced(this.namespace, waitedMs),
      },
      this.#spaces.settings.dispatch,
    )
    return this.#dispatch
  }

  /** None while nobody has asked for dispatch here. Those of other servers are for them to tell. */
  nodeStates(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>()
    for (const { status, via } of this.#dispatch?.nodes() ?? [])
      if (via === null) counts.set(status, (counts.get(status) ?? 0) + 1)
    return counts
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
    return this.#kept((room) => createLocksFeed(room.locks, options, () => spaces.isLettingGo))
  }

  tasksFeed(taskId: string): Feed {
    return this.#kept((room) => createTasksFeed(room.dispatch, taskId))
  }

  /** Made when somebody first watches. */
  get queues(): Feed {
    const stats = async () => {
      const { lines } = await queueCountsOf(this.stores).now()
      return lines.filter(({ queue }) => !isReserved(queue))
    }
    this.#queues ??= createQueuesFeed({ stats }, this.stores.notifier)
    return this.#queues
  }

  hintsFeed(queues: readonly string[]): Feed {
    return this.#kept((room) => createHintsFeed(room.stores.notifier, queues))
  }

  async close(): Promise<void> {
    this.desk.close()
    await this.#queues?.[Symbol.asyncDispose]()
    await this.stopDispatch(0)
    await this.#locks?.[Symbol.asyncDispose]()
    await this.#monitor?.[Symbol.asyncDispose]()
    await this.#once?.[Symbol.asyncDispose]()
    await this.jobs[Symbol.asyncDispose]()
  }

  /**
   * A feed whose readers count as guests. It is opened after the request that asked for it has left, when the space
   * may be forgotten already; so it enters again.
   */
  #kept(feedOf: (room: Room) => Feed): Feed {
    const { namespace } = this
    const spaces = this.#spaces
    return {
      open(lastEventId, reader) {
        const room = spaces.enter(namespace) as Room
        let isOpen = true
        const leave = () => {
          if (isOpen) spaces.leave(room)
          isOpen = false
        }
        try {
          const close = feedOf(room).open(lastEventId, reader)
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
