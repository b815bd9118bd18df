import { createAudit } from '../../../audit/index.ts'
import { bulkQueue, createBulkWork, createDependencyResolver } from '../../../jobs/index.ts'
import type { SendingCounts, SendingTrouble } from '../../../monitor/index.ts'
import type { Served } from '../call.ts'
import { redact } from '../log/log-line.ts'
import type { NamespaceSendings } from '../metrics/module-gauges.ts'
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

/**
 * Sends the notifications of monitors in every namespace with subscriptions. `stop` begins no more messages, and waits
 * for those in flight. A message that is cut off then is marked as a possible repeat when it is sent again.
 */
export interface Senders extends NamespaceWork {
  /** The notifications that this server has sent since it started. */
  counts(): readonly NamespaceSendings[]
}

interface SendersParts {
  readonly served: Pick<Served, 'subscribedNamespaces'>
  readonly spaces: Spaces
  readonly onLoopEvent?: OnLoopEvent
  /**
   * Called for every notification that is given up, and once for each subscription whose notifications wait for a key.
   */
  readonly onSendingTrouble?: (namespace: string, trouble: SendingTrouble) => void
}

/** The most namespaces whose counts are kept after their sender has ended. */
const maxPast = 1_000

type Counts = Readonly<Record<string, Readonly<SendingCounts>>>

export function createSenders({ served, spaces, onLoopEvent, onSendingTrouble }: SendersParts): Senders {
  const present = new Map<string, () => Counts>()
  /** The counts of senders that have ended; the earliest end first. */
  const past = new Map<string, Counts>()

  /** A notification that waits for a key is tried repeatedly, so each subscription is reported once. */
  function reportOnce(namespace: string): (trouble: SendingTrouble) => void {
    const sealed = new Set<string>()
    return (trouble) => {
      const isKnown = trouble.kind === 'sealed' && sealed.has(trouble.subscriptionId)
      if (trouble.kind === 'sealed') sealed.add(trouble.subscriptionId)
      if (!isKnown) onSendingTrouble?.(namespace, trouble)
    }
  }

  const work = createNamespaceWork({
    ...{ name: 'server.senders', keepMs: 0, onLoopEvent },
    find: (limit) => served.subscribedNamespaces(limit),
    begin(namespace) {
      // A separate reference: the namespace's services stay while the sender works.
      const space = spaces.enter(namespace)
      try {
        const sender = space.monitor.sender({ onTrouble: reportOnce(namespace) })
        present.set(namespace, () => sender.counts())
        return {
          start: () => sender.start(),
          async stop(options) {
            try {
              await sender.stop(options)
            } finally {
              const counts = sum(past.get(namespace), sender.counts())
              present.delete(namespace)
              past.delete(namespace)
              past.set(namespace, counts)
              if (past.size > maxPast) past.delete(past.keys().next().value!)
              spaces.leave(space)
            }
          },
        }
      } catch (error) {
        spaces.leave(space)
        throw error
      }
    },
  })
  return {
    ...work,
    counts: () =>
      Array.from(new Set([...past.keys(), ...present.keys()]), (namespace) => ({
        namespace,
        counts: sum(past.get(namespace), present.get(namespace)?.()),
      })),
  }
}

function sum(one: Counts = {}, other: Counts = {}): Counts {
  const types = new Set([...Object.keys(one), ...Object.keys(other)])
  return Object.fromEntries(
    Array.from(types, (type) => {
      const added = { ...(one[type] ?? other[type]!) }
      if (one[type] && other[type])
        for (const what of Object.keys(added) as (keyof SendingCounts)[]) added[what] += other[type][what]
      return [type, added]
    }),
  )
}
