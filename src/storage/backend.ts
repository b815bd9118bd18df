import type { TokenStore } from '../access/index.ts'
import type { AuditStore } from '../audit/index.ts'
import type { Meter } from '../core/meter.ts'
import type { ClusterStore } from '../dispatch/cluster/cluster-store.ts'
import type { SeriesStore } from '../fleet/series/series-store.ts'
import type { WorkerStore } from '../fleet/workers/index.ts'
import type { AttemptStore, DependencyStore, JobStore, LogStore, ScheduleStore } from '../jobs/index.ts'
import type { LockStore } from '../locks/index.ts'
import type { MonitorStore } from '../monitor/monitor-store.ts'
import type { GuardStore } from '../once/guard-store.ts'

/**
 * A backend keeps all data: the stores of the modules, a notifier, and the traits of the engine. What engines cannot all
 * do is a trait; callers check the trait, never the backend's name.
 */
export interface Backend extends Stores, AsyncDisposable {
  /** For messages and people: 'memory', 'sqlite', 'postgres', 'mariadb'. */
  readonly name: string
  readonly traits: Traits
  /** The tokens of all namespaces. */
  readonly tokens: TokenStore
  readonly migrator: Migrator
  /** Weak settings that were found at opening, in words; empty when all is well. */
  readonly warnings: readonly string[]
  /** The stores of another namespace, on the same connections. Cheap to make, and nothing to close. */
  within(namespace: string): Stores
  /** Forgets up to `limit` request keys, of any namespace, whose time is over; answers how many. */
  pruneKeys(limit: number): Promise<number>
  /** Up to `limit` namespaces with subscriptions to changes, so that a server starts a sender for each. */
  subscribedNamespaces(limit: number): Promise<readonly string[]>
  /** Up to `limit` namespaces that have nodes or tasks for nodes, so that something must be there to place them. */
  dispatchedNamespaces(limit: number): Promise<readonly string[]>
  /**
   * Up to `limit` namespaces with a schedule that will run some day, so that something must be there to run it; those
   * first in which one is due first.
   */
  scheduledNamespaces(limit: number): Promise<readonly string[]>
  /**
   * Up to `limit` namespaces in which a job of that queue that has a unique key is not over, so that something must be
   * there to work on it. Jobs without a key are not looked at: keys are found without looking through jobs.
   */
  queuedNamespaces(queue: string, limit: number): Promise<readonly string[]>
  /** Up to `limit` namespaces in which a job waits for another or for a lock, so that something must be there to let it on. */
  blockedNamespaces(limit: number): Promise<readonly string[]>
  /** Whether the store answers; throws `store_unavailable` or `store_busy` when it does not. */
  ping(): Promise<void>
  /** The time by the store's own clock. */
  time(): Promise<number>
  /** Closes all connections; later calls fail with `closed`. Safe to call twice. */
  close(): Promise<void>
}

/** What belongs to one namespace. */
export interface Stores {
  readonly jobs: JobStore
  /** What attempts say of themselves; always in the store that holds the jobs. */
  readonly logs: LogStore
  /** Attempts that failed or were lost; always in the store that holds the jobs, which writes them. */
  readonly attempts: AttemptStore
  /** Always in the store that holds the jobs: a run of a schedule commits with the jobs it adds. */
  readonly schedules: ScheduleStore
  /** What jobs wait for; always in the store that holds the jobs. */
  readonly dependencies: DependencyStore
  readonly locks: LockStore
  readonly guards: GuardStore
  /** The guards of the store that holds the jobs, where `guards` are elsewhere: what is decided there is guarded there. */
  readonly ownGuards?: GuardStore
  /** Always in the store that holds the jobs: a decision commits with what it leads to. */
  readonly monitor: MonitorStore
  /** What operators did; like the monitor, always in the store that holds the jobs. */
  readonly audit: AuditStore
  /** Counts and times of jobs; always in the store that holds the jobs. */
  readonly series: SeriesStore
  /** What servers that share nodes know of each other: the cluster state. */
  readonly cluster: ClusterStore
  /** The rows of workers; always in the store that holds the jobs. */
  readonly workers: WorkerStore
  readonly notifier: BackendNotifier
  /**
   * The same stores for one request that must not be done twice. The first call that writes (add, claim, renew,
   * settle, cancel, retry, retryDead, pause, resume, limit, remove, prune) writes the key and its own answer in the same transaction
   * as its effect. Where the key is there already, the answer kept with it is given and nothing else is done. Reads,
   * and further writes through the same view, are as ever.
   *
   * `idempotency_mismatch`: the key was used with another fingerprint. `in_progress`: another call with it has not
   * ended. A call that throws, and a claim that finds nothing, leave no key. A caller's transaction (`add` with `tx`,
   * `settleIn`, `transact`) is none of ours to write in: there the key is not looked at.
   */
  keyed(key: RequestKey): KeyedStores
}

export interface KeyedStores {
  readonly jobs: JobStore
}

/** A request that must not be done twice. Keys of different callers are different keys. */
export interface RequestKey {
  /** Who asks: a token's id, or a word for everybody on this machine. */
  readonly caller: string
  /** As the caller chose it: 1 to 255 printable characters. */
  readonly key: string
  /** SHA-256 of the request, in hexadecimal: the route and the body. */
  readonly fingerprint: string
  /** How long it is kept. */
  readonly keepMs: number
}

export interface Traits {
  /** A caller's `tx` is taken, and `transact` gives a real connection. */
  readonly transactions: boolean
  /** Wake-ups reach other processes. Where they do not, polling finds what they would have told. */
  readonly remoteWakeUps: boolean
}

/**
 * Wakes listeners of this process at once, and other processes where the engine can: there may be news. A wake-up may be
 * merged with others or lost, so listeners poll as well.
 */
export interface BackendNotifier {
  /** Wakes after the caller's commit, never within it. Wake-ups of a topic that follow each other at once are told to other processes as one. */
  wake(topic: string): void
  /**
   * Wakes these when the caller's transaction commits, and not at all when it does not. An engine that cannot, or where
   * every commit is noticed anyway, leaves it out.
   */
  wakeAtCommit?(tx: unknown, topics: readonly string[]): Promise<void>
  /** Calls `heard` at every wake-up of these topics, until the returned function is called. `heard` must not throw. */
  listen(topics: readonly string[], heard: () => void): () => void
  /**
   * Whether wake-ups of other processes arrive now, as far as is known; a listener is woken when they begin to arrive
   * again. An engine on which nothing is saved by knowing leaves it out.
   */
  hearsOthers?(): boolean
}

/** The schema's versions, and the way from one to the next. */
export interface Migrator {
  status(): Promise<MigrationStatus>
  /**
   * Brings the schema up to date; answers the steps it applied. Several processes may try at once, and any may be killed.
   * It calls `onStep` before each step; `onStep` must not throw.
   */
  up(onStep?: OnMigrationStep): Promise<readonly AppliedMigration[]>
  /** All the steps as one text that a person can read and run. */
  sql(): string
}

/** Which step comes now, and how many of how many are behind it. */
export type OnMigrationStep = (step: AppliedMigration, at: number, count: number) => void

export interface AppliedMigration {
  readonly number: number
  readonly name: string
}

export interface MigrationStatus {
  /** The last one applied; 0 when there is no schema. */
  readonly current: number
  /** The newest this version of Signalbox knows. */
  readonly latest: number
  readonly pending: readonly AppliedMigration[]
  /** Whether this version of Signalbox may work on it: it knows the schema, or the schema's last steps allow for it. */
  readonly isRunnable: boolean
  /** Whether an unreleased version made it, before the baseline: this version can neither migrate nor copy it. */
  readonly isBeforeBaseline: boolean
}

/** What every engine is opened with. */
export interface BackendOptions {
  readonly namespace: string
  /** Bring the schema up to date when opening. */
  readonly migrate: boolean
  /**
   * SQLite: make writes in a thread of their own, so that no fsync stops this one. `transact`, `transactAll` and a
   * caller's `tx` are refused then. Engines whose writes are made elsewhere anyway ignore it. @default false
   */
  readonly thread?: boolean
  /** The address of a Redis that holds the locks and guards instead. @default none */
  readonly redis?: string | undefined
  /** Where guards are kept when there is a Redis. @default 'redis' */
  readonly guards?: 'sql' | 'redis' | undefined
  /**
   * The clock of a test, in epoch milliseconds, for memory and for SQLite without `thread`. Every other store reads the
   * time from its own. @default the store’s own
   */
  readonly now?: (() => number) | undefined
  /** Learns how long calls waited for a connection or the writer, and which calls had it. @default no meter */
  readonly meter?: Meter
  /** How often claims see whether the schema is still one to work on. For tests. @default 10_000 */
  readonly schemaLookMs?: number | undefined
}
