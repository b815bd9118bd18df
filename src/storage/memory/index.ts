import { SignalboxError } from '../../core/errors.ts'
import { wrapMethods } from '../../core/wrap-methods.ts'
import type { JobStore } from '../../jobs/index.ts'
import type { GuardStore } from '../../once/guard-store.ts'
import type { Backend, BackendNotifier, BackendOptions, Stores } from '../backend.ts'
import { createNotifyingClusterStore } from '../cluster-state.ts'
import { LocalNotifiers } from '../local-notifiers.ts'
import { createKeyedJobs } from '../request-key.ts'
import { MemoryAttempts } from './attempts.ts'
import { MemoryAudit } from './audit.ts'
import { MemoryClusterState } from './cluster-state.ts'
import { MemoryDependencies } from './dependencies.ts'
import { MemoryGuards } from './guards.ts'
import { MemoryJobs } from './jobs.ts'
import { createMemoryLocks } from './locks.ts'
import { MemoryLogs } from './logs.ts'
import { MemoryMonitor } from './monitor.ts'
import { MemoryKeys } from './request-keys.ts'
import { MemorySchedules } from './schedules.ts'
import { MemorySeries } from './series.ts'
import { MemoryTokens } from './tokens.ts'
import { MemoryWorkers } from './workers.ts'

/**
 * A store in the memory of this process, which is lost when it closes. It is for tests, and it is the model with which
 * the other engines are compared. Each call is synchronous, which makes it atomic. The code is simple, so that it shows
 * the right behaviour. Each namespace has separate jobs and a separate notifier.
 */
export async function openMemory({ namespace, now = Date.now }: BackendOptions): Promise<Backend> {
  let closed = false
  const check = () => {
    if (closed) {
      throw new SignalboxError('closed', 'This memory store was closed, and its data is gone. Open another.')
    }
  }
  const clock = () => Math.floor(now())
  const notifiers = new LocalNotifiers()
  const keys = new MemoryKeys(clock)
  const namespaces = new Map<string, Namespace>()
  /** The first namespaces for which the condition holds. */
  const namesOf = (limit: number, isSo: (namespace: Namespace) => boolean): readonly string[] => {
    check()
    return [...namespaces].flatMap(([name, one]) => (isSo(one) ? [name] : [])).slice(0, limit)
  }
  const within = (name: string): Stores => {
    const known = namespaces.get(name)
    if (known) return known.stores
    const logs = new MemoryLogs(clock)
    const attempts = new MemoryAttempts(clock)
    const workers = new MemoryWorkers(clock, { list: (query) => ownJobs.list(query) })
    const ownJobs = new MemoryJobs(clock, {
      keepAttempt: (attempt) =>
        attempts.keep({ ...attempt, release: workers.releaseAt(attempt.workerId, attempt.startedAt) }),
      keepDependencies: (id, dependsOn) => dependencies.keep(id, dependsOn),
      deleteFullLogs: (id) => logs.deleteFullLogs(id),
      forget(ids) {
        logs.forget(ids)
        attempts.forget(ids)
        dependencies.forget(ids)
      },
      forgetAttempts: (ids) => attempts.forget(ids),
    })
    const dependencies = new MemoryDependencies(clock, ownJobs)
    const jobs: JobStore = refusing(ownJobs, check)
    const guards: GuardStore = refusing(new MemoryGuards(clock), check)
    const cluster = new MemoryClusterState(clock)
    const notifier = notifiers.within(name)
    const ownNotifier: BackendNotifier = {
      wake: notifier.wake,
      listen(topics, heard) {
        check()
        return notifier.listen(topics, heard)
      },
    }
    const stores: Stores = {
      jobs,
      logs: refusing(logs, check),
      attempts: refusing(attempts, check),
      schedules: refusing(new MemorySchedules(clock, ownJobs), check),
      dependencies: refusing(dependencies, check),
      locks: refusing(createMemoryLocks(clock), check),
      guards,
      monitor: refusing(new MemoryMonitor(clock, { jobs, guards }), check),
      audit: refusing(new MemoryAudit(clock), check),
      series: refusing(new MemorySeries(clock), check),
      cluster: createNotifyingClusterStore(refusing(cluster, check), ownNotifier),
      workers: refusing(workers, check),
      notifier: ownNotifier,
      keyed: (key) => ({
        jobs: createKeyedJobs(jobs, (method, args) => {
          const call = jobs[method] as (...args: readonly unknown[]) => Promise<unknown>
          return keys.once(name, key, method, () => call(...args))
        }),
      }),
    }
    namespaces.set(name, { stores, ownJobs, dependencies, cluster })
    return stores
  }
  const close = async () => {
    closed = true
    notifiers.silence()
  }
  return {
    ...within(namespace),
    name: 'memory',
    traits: { transactions: false, remoteWakeUps: false },
    tokens: refusing(new MemoryTokens(clock), check),
    within,
    async pruneKeys(limit) {
      check()
      return keys.prune(limit)
    },
    async subscribedNamespaces(limit) {
      const subscribed: string[] = []
      for (const [name, { stores }] of namespaces) {
        if ((await stores.monitor.rules()).subscriptions.length > 0) subscribed.push(name)
      }
      return subscribed.slice(0, limit)
    },
    async scheduledNamespaces(limit) {
      check()
      const scheduled: { readonly name: string; readonly nextAt: number }[] = []
      for (const [name, { stores }] of namespaces) {
        const { nextAt } = await stores.schedules.nextDue()
        if (nextAt !== null) scheduled.push({ name, nextAt })
      }
      const soonest = scheduled.sort((a, b) => a.nextAt - b.nextAt).slice(0, limit)
      return soonest.map(({ name }) => name)
    },
    queuedNamespaces: async (queue, limit) => namesOf(limit, ({ ownJobs }) => ownJobs.hasKeyIn(queue)),
    blockedNamespaces: async (limit) => namesOf(limit, ({ dependencies }) => dependencies.isBlocked),
    dispatchedNamespaces: async (limit) => namesOf(limit, ({ cluster }) => cluster.isDispatched()),
    migrator: {
      async status() {
        check()
        return { current: 1, latest: 1, pending: [], isRunnable: true, isBeforeBaseline: false }
      },
      async up() {
        check()
        return []
      },
      sql: () => '',
    },
    warnings: [],
    async ping() {
      check()
    },
    async time() {
      check()
      return clock()
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The stores of a namespace, and classes behind them whose extra methods other parts need. */
interface Namespace {
  readonly stores: Stores
  readonly ownJobs: MemoryJobs
  readonly dependencies: MemoryDependencies
  readonly cluster: MemoryClusterState
}

/** The same store, with a call of `check` before each method. */
function refusing<Store extends object>(store: Store, check: () => void): Store {
  return wrapMethods(store, (method) => async (...args) => {
    check()
    return await method(...args)
  })
}
