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
 * A backend stores all data. It has the stores of the modules, a notifier, and the traits of the engine. A trait is
 * something that not every engine can do; callers check the trait, never the backend's name.
 */
export interface Backend extends Stores, AsyncDisposable {
  /** For messages: 'memory', 'sqlite', 'postgres', 'mariadb'. */
  readonly name: string
  readonly traits: Traits
  /** The tokens of all namespaces. */
  readonly tokens: TokenStore
  readonly migrator: Migrator
  /** Warnings about unsafe settings that the backend found when it opened. */
  readonly warnings: readonly string[]
  /** The stores of another namespace, on the same connections. Cheap to create; they need no close. */
  within(namespace: string): Stores
  /** Deletes up to `limit` expired request keys of all namespaces, and returns their number. */
  pruneKeys(limit: number): Promise<number>
  /** Up to `limit` namespaces with subscriptions to changes. A server starts a sender for each. */
  subscribedNamespaces(limit: number): Promise<readonly string[]>
  /** Up to `limit` namespaces with nodes or with tasks for nodes. A server runs dispatch for each. */
  dispatchedNamespaces(limit: number): Promise<readonly string[]>
  /**
   * Up to `limit` namespaces with a schedule that will run, ordered by their next due time. A server runs the schedules
   * of each.
   */
  scheduledNamespaces(limit: number): Promise<readonly string[]>
  /**
   * Up to `limit` namespaces with a live job in that queue that has a unique key. A server starts workers for each.
   * Jobs without a key are ignored, because the index of keys finds namespaces without reading jobs.
   */
  queuedNamespaces(queue: string, limit: number): Promise<readonly string[]>
  /** Up to `limit` namespaces with jobs that wait for other jobs or for a lock. A server unblocks the jobs of each. */
  blockedNamespaces(limit: number): Promise<readonly string[]>
  /** Checks that the store answers. Throws `store_unavailable` or `store_busy`. */
  ping(): Promise<void>
  /** The time by the store's own clock. */
  time(): Promise<number>
  /** Closes all connections. Later calls fail with `closed`. Safe to call twice. */
  close(): Promise<void>
}

/** The stores of one namespace. */
export interface Stores {
  readonly jobs: JobStore
  /** The logs and progress of attempts, always in the store that holds the jobs. */
  readonly logs: LogStore
  /** Attempts that failed or were lost, always in the store that holds the jobs, which writes them. */
  readonly attempts: AttemptStore
  /** Always in the store that holds the jobs: a run of a schedule commits with the jobs that it adds. */
  readonly schedules: ScheduleStore
  /** What jobs wait for, always in the store that holds the jobs. */
  readonly dependencies: DependencyStore
  readonly locks: LockStore
  readonly guards: GuardStore
  /**
   * The guards of the store that holds the jobs, if `guards` are in another store: they protect decisions of this
   * store.
   */
  readonly ownGuards?: GuardStore
  /** Always in the store that holds the jobs: a decision commits with its effects. */
  readonly monitor: MonitorStore
  /** The actions of operators, always in the store that holds the jobs, like the monitor. */
  readonly audit: AuditStore
  /** Counts and durations of jobs, always in the store that holds the jobs. */
  readonly series: SeriesStore
  /** The cluster state: the shared knowledge of servers about nodes. */
  readonly cluster: ClusterStore
  /** The rows of workers, always in the store that holds the jobs. */
  readonly workers: WorkerStore
  readonly notifier: BackendNotifier
  /**
   * The same stores for one request that must not take effect twice. The first call that writes (add, claim, renew,
   * settle, cancel, retry, retryDead, pause, resume, limit, remove, prune) stores the key and its answer in the same
   * transaction as its effect. If the key exists already, the call returns the stored answer and does nothing else.
   * Reads, and further writes through the same view, behave as usual.
   *
   * `idempotency_mismatch`: the key was used with another fingerprint. `in_progress`: another call with the key is
   * still running. A call that throws, and a claim that finds nothing, store no key. The store does not write to a
   * caller's transaction on its own (`add` with `tx`, `settleIn`, `transact`), so these ignore the key.
   */
  keyed(key: RequestKey): KeyedStores
}

export interface KeyedStores {
  readonly jobs: JobStore
}

/** A request that must not take effect twice. Keys of different callers are different keys. */
export interface RequestKey {
  /** The caller: a token's id, or one fixed word for all callers on this machine. */
  readonly caller: string
  /** Chosen by the caller: 1 to 255 printable characters. */
  readonly key: string
  /** SHA-256 of the request, in hexadecimal: the route and the body. */
  readonly fingerprint: string
  /** How long the store keeps the key. */
  readonly keepMs: number
}

export interface Traits {
  /** Whether calls accept a caller's `tx`, and `transact` gives a real connection. */
  readonly transactions: boolean
  /** Whether wake-ups reach other processes. If not, these processes find changes by polling. */
  readonly remoteWakeUps: boolean
}

/**
 * Wakes listeners of this process at once, and listeners of other processes where the engine can. A wake-up is a hint
 * that something may have changed. It may be merged with others or lost, so listeners also poll.
 */
export interface BackendNotifier {
  /**
   * Call it after the caller's commit, never before. Wake-ups of a topic in quick succession reach other processes as
   * one.
   */
  wake(topic: string): void
  /**
   * Wakes these topics when the caller's transaction commits, and never if it does not commit. Missing on engines that
   * cannot do it, or that notice every commit anyway.
   */
  wakeAtCommit?(tx: unknown, topics: readonly string[]): Promise<void>
  /** Calls `heard` at every wake-up of these topics, until the returned function is called. `heard` must not throw. */
  listen(topics: readonly string[], heard: () => void): () => void
  /**
   * Whether wake-ups of other processes arrive now, as far as the engine knows. When they begin to arrive again, it
   * wakes the listeners. Missing on engines where the answer would save nothing.
   */
  hearsOthers?(): boolean
}

/** The versions of the schema, and the migration between them. */
export interface Migrator {
  status(): Promise<MigrationStatus>
  /**
   * Brings the schema up to date and returns the applied steps. Several processes may run it at once, and any may be
   * killed. It calls `onStep` before each step; `onStep` must not throw.
   */
  up(onStep?: OnMigrationStep): Promise<readonly AppliedMigration[]>
  /** All steps as one text that an administrator can read and run. */
  sql(): string
}

/** Reports the step that runs next, the number of finished steps, and the number of all steps. */
export type OnMigrationStep = (step: AppliedMigration, at: number, count: number) => void

export interface AppliedMigration {
  readonly number: number
  readonly name: string
}

export interface MigrationStatus {
  /** The last applied step; 0 without a schema. */
  readonly current: number
  /** The newest step that this version of Signalbox knows. */
  readonly latest: number
  readonly pending: readonly AppliedMigration[]
  /**
   * Whether this version of Signalbox can use the schema: it knows the last step, or the last steps are compatible with
   * it.
   */
  readonly isRunnable: boolean
  /**
   * Whether an unreleased version created the schema, before the baseline. This version can neither migrate nor copy
   * it.
   */
  readonly isBeforeBaseline: boolean
}

/** The options that every engine accepts. */
export interface BackendOptions {
  readonly namespace: string
  /** Bring the schema up to date when opening. */
  readonly migrate: boolean
  /**
   * SQLite: write in a separate thread, so that no fsync blocks this one. `transact`, `transactAll` and a caller's `tx`
   * are then refused. Other engines ignore the option, because their server writes. @default false
   */
  readonly thread?: boolean
  /** The address of a Redis that holds the locks and guards instead. @default none */
  readonly redis?: string | undefined
  /** The store of guards when there is a Redis. @default 'redis' */
  readonly guards?: 'sql' | 'redis' | undefined
  /**
   * A test clock in epoch milliseconds, for memory and for SQLite without `thread`. Other stores always use their own
   * clock. @default the store's own clock
   */
  readonly now?: (() => number) | undefined
  /** Measures how long calls waited for a connection or the writer, and which calls used it. @default no meter */
  readonly meter?: Meter
  /** How often claims check that the schema is still usable. For tests. @default 10_000 */
  readonly schemaLookMs?: number | undefined
}
