import type { Backend, BackendNotifier, Stores } from '../backend.ts'
import { createNotifyingClusterStore } from '../cluster-state.ts'
import { createAttemptStore } from './attempts/attempts.ts'
import { createAuditStore } from './audit.ts'
import { createClusterStore, listDispatchedNamespaces } from './cluster-state.ts'
import type { Database } from './database.ts'
import { createDependencyStore, listBlockedNamespaces } from './dependencies/dependencies.ts'
import { createGuardStore } from './guards/guards.ts'
import { createLogStore } from './logs.ts'
import { createMonitorStore } from './monitor/monitor.ts'
import { readAll, readNamespaces, readOne } from './operations.ts'
import { pruneRequestKeys } from './request-keys.ts'
import { createScheduleStore, listScheduledNamespaces } from './schedules.ts'
import { createSeriesStore } from './series/series.ts'
import { statement } from './statement.ts'
import { createTokenStore } from './tokens.ts'
import { createWorkerStore } from './workers.ts'

export interface SharedStoresOptions {
  readonly database: Database
  /** The same database, for operations that add jobs. */
  readonly adding: Database
  readonly namespace: string
  readonly jobs: Stores['jobs']
  readonly notifier: BackendNotifier
  /** Called after blocked jobs became ready. */
  onReady(): void
}

/** The stores of one namespace that are the same on all SQL engines. */
export function createSharedStores({
  database,
  adding,
  namespace,
  jobs,
  notifier,
  onReady,
}: SharedStoresOptions): Omit<Stores, 'locks' | 'keyed'> {
  return {
    jobs,
    notifier,
    logs: createLogStore(database, namespace),
    attempts: createAttemptStore(database, namespace),
    schedules: createScheduleStore(adding, namespace),
    dependencies: createDependencyStore({ database, namespace, jobs, onReady }),
    guards: createGuardStore(database, namespace, jobs),
    monitor: createMonitorStore(adding, namespace),
    audit: createAuditStore(database, namespace),
    series: createSeriesStore(database, namespace),
    cluster: createNotifyingClusterStore(createClusterStore(database, namespace), notifier),
    workers: createWorkerStore(database, namespace),
  }
}

/** The functions over all namespaces that are the same on all SQL engines. */
export function createStoreWide(
  database: Database,
): Pick<
  Backend,
  | 'tokens'
  | 'pruneKeys'
  | 'subscribedNamespaces'
  | 'scheduledNamespaces'
  | 'blockedNamespaces'
  | 'queuedNamespaces'
  | 'dispatchedNamespaces'
  | 'ping'
  | 'time'
> {
  return {
    tokens: createTokenStore(database),
    pruneKeys: (limit) => pruneRequestKeys(database, limit),
    subscribedNamespaces: (limit) => database.run(listSubscribed, [limit]),
    scheduledNamespaces: (limit) => database.run(listScheduledNamespaces, [limit]),
    queuedNamespaces: (queue, limit) => database.run(listQueued, [queue, limit]),
    blockedNamespaces: (limit) => database.run(listBlockedNamespaces, [limit]),
    dispatchedNamespaces: (limit) => database.run(listDispatchedNamespaces, [limit]),
    ping: async () => void (await database.run(readTime, [])),
    time: async () => (await database.run(readTime, []))!,
  }
}

const selectSubscribed = statement(
  'monitor_namespaces',
  { limit: 'integer' },
  () => 'SELECT DISTINCT namespace FROM @monitor_subscription ORDER BY namespace LIMIT :limit',
)

const listSubscribed = readNamespaces('list namespaces with subscriptions', selectSubscribed)

const selectQueued = statement(
  'job_namespaces',
  { queue: 'text', limit: 'integer' },
  ({ jobs }) => jobs.queued,
)

const listQueued = readAll(
  'list namespaces with keyed jobs',
  (queue: string, limit: number) => selectQueued({ queue, limit }),
  (row: { readonly namespace: string }) => row.namespace,
)

const selectTime = statement('time', {}, (d) => `SELECT ${d.now} AS now`)

const readTime = readOne(
  'read the clock',
  () => selectTime({}),
  (row: { readonly now: number | string }) => Number(row.now),
)

/**
 * Caches the stores of the namespaces that were used last, because a namespace's stores remember hints for the next
 * call. A dropped view still works for its current users. The next caller of that namespace gets a new view without
 * hints.
 */
export class Views {
  readonly #views = new Map<string, Stores>()
  readonly #create: (namespace: string) => Stores

  constructor(create: (namespace: string) => Stores) {
    this.#create = create
  }

  within(namespace: string): Stores {
    const view = this.#views.get(namespace) ?? this.#create(namespace)
    // A Map keeps insertion order: its first entry is the least recently used one.
    this.#views.delete(namespace)
    this.#views.set(namespace, view)
    if (this.#views.size > maxViews) this.#views.delete(this.#views.keys().next().value!)
    return view
  }
}

const maxViews = 100
