import { createAudit } from '../../../audit/index.ts'
import { bulkQueue, createBulkWork } from '../../../jobs/index.ts'
import type { Served } from '../call.ts'
import { redact } from '../log/log-line.ts'
import type { Redactor } from '../request/redact-job.ts'
import { createNamespaceWork, type NamespaceWork, type OnTrouble } from './namespace-work.ts'

export interface BulkWorkersParts {
  readonly served: Pick<Served, 'queuedNamespaces' | 'within'>
  /** What is hidden of what jobs carry. */
  readonly redactor: Redactor
  readonly onTrouble: OnTrouble
  /** Learns of an entry of the audit that was not written. Must not throw. */
  readonly onAuditFailed: (action: string, error: unknown) => void
}

/** An operation is pending: its server may die at any moment, and no wake-up follows when its lease runs out. */
const pollMs = 2_000
/** Of a search; its beginning tells what it was about. */
const maxSearchChars = 500

/** Works on bulk operations in every namespace that has some: one whose server died must not wait for a visitor. */
export function createBulkWorkers(parts: BulkWorkersParts): NamespaceWork {
  const { served, redactor, onTrouble, onAuditFailed } = parts
  return createNamespaceWork({
    ...{ name: 'server.bulkers', onTrouble },
    find: (limit) => served.queuedNamespaces(bulkQueue, limit),
    begin(namespace) {
      const { jobs, logs, notifier, audit } = served.within(namespace)
      const work = createBulkWork({
        // What cannot be seen cannot be found either.
        ...{ store: redactor.store(jobs), logs, notifier, pollMs },
        async onCompleted({ id, action, search, matched, done, skipped }) {
          const counts = { matched, done, skipped }
          const target = {
            operationId: id,
            action,
            search: redact(search.slice(0, maxSearchChars)),
            ...counts,
          }
          // Like every entry: what was done is done, whether or not it could be written down.
          await createAudit({ store: audit })
            .record({ actor: { id: 'server', name: null }, action: 'jobs.bulk', target, outcome: 'done' })
            .catch((error: unknown) => onAuditFailed('jobs.bulk', error))
        },
      })
      return { start: async () => work.start(), stop: () => work.close() }
    },
  })
}
