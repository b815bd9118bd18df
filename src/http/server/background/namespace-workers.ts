import { createAudit } from '../../../audit/index.ts'
import { bulkQueue, createBulkWork, createDependencyResolver } from '../../../jobs/index.ts'
import type { Served } from '../call.ts'
import { redact } from '../log/log-line.ts'
import type { Spaces } from '../namespace-services.ts'
import type { Redactor } from '../request/redact-job.ts'
import { createNamespaceWork, type NamespaceWork, type OnLoopEvent } from './namespace-work.ts'

interface DispatchersParts {
  readonly served: Pick<Served, 'dispatchedNamespaces'>
  readonly spaces: Spaces
  /** How often to look for namespaces. @default 1_000 */
  readonly pollMs?: number
  readonly onLoopEvent?: OnLoopEvent
}

/** Runs dispatchers in every namespace that has tasks or nodes. The namespace's services stop them. */
export function createDispatchers(parts: DispatchersParts): NamespaceWork {
  const { served, spaces, pollMs, onLoopEvent } = parts
  return createNamespaceWork({
    ...{ name: 'server.dispatchers', pollMs, keepMs: 0, onLoopEvent },
    // Sorted, so that all servers begin with the same namespaces.
    find: async (limit) => (await served.dispatchedNamespaces(limit)).toSorted(),
    begin(namespace) {
      // Keeps the services of the namespace while the dispatcher works.
      const space = spaces.enter(namespace)
      return {
        start: async () => space.dispatch.start(),
        stop: async () => spaces.leave(space),
      }
    },
  })
}

interface ResolversParts {
  readonly served: Pick<Served, 'blockedNamespaces'>
  readonly spaces: Spaces
  readonly onLoopEvent: OnLoopEvent
}

/** Unblocks jobs in every namespace with jobs that wait for other jobs or for a lock. */
export function createResolvers({ served, spaces, onLoopEvent }: ResolversParts): NamespaceWork {
  return createNamespaceWork({
    ...{ name: 'server.dependencies', onLoopEvent },
    find: (limit) => served.blockedNamespaces(limit),
    begin(namespace) {
      // A resolver uses the locks of the namespace, so it keeps the services of the namespace while it runs.
      const space = spaces.enter(namespace)
      const { store: dependencies, locks } = space.dependencies
      const { jobs: store, notifier } = space.stores
      const loop = createDependencyResolver({ dependencies, locks, store, notifier })
      loop.events.on('stopped', () => spaces.leave(space))
      return loop
    },
  })
}

interface BulkWorkersParts {
  readonly served: Pick<Served, 'queuedNamespaces' | 'within'>
  /** Searches read only values that the redactor shows. */
  readonly redactor: Redactor
  readonly onLoopEvent: OnLoopEvent
  /** Gets the error of an audit entry that was not written. Must not throw. */
  readonly onAuditFailed: (action: string, error: unknown) => void
}

/** How often a worker polls: no wake-up follows when the lease of a dead server's operation ends. */
const bulkPollMs = 2_000
/** The beginning of a search is enough to recognise it. */
const maxSearchChars = 500

/** Runs bulk operations in every namespace that has some, so another server continues the operations of a dead one. */
export function createBulkWorkers(parts: BulkWorkersParts): NamespaceWork {
  const { served, redactor, onLoopEvent, onAuditFailed } = parts
  return createNamespaceWork({
    ...{ name: 'server.bulkers', onLoopEvent },
    find: (limit) => served.queuedNamespaces(bulkQueue, limit),
    begin(namespace) {
      const { jobs, logs, notifier, audit } = served.within(namespace)
      const work = createBulkWork({
        ...{ store: redactor.store(jobs), logs, notifier, pollMs: bulkPollMs },
        async onCompleted({ id, action, search, matched, done, skipped }) {
          const shown = redact(search.slice(0, maxSearchChars))
          const target = { operationId: id, action, search: shown, matched, done, skipped }
          // As for every entry: a failed write does not undo the operation.
          await createAudit({ store: audit })
            .record({ actor: { id: 'server', name: null }, action: 'jobs.bulk', target, outcome: 'done' })
            .catch((error: unknown) => onAuditFailed('jobs.bulk', error))
        },
      })
      return { start: async () => work.start(), stop: () => work.close() }
    },
  })
}
