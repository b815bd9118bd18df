import { createAudit } from '../../../audit/index.ts'
import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'
import { type BulkWork, bulkQueue, createBulkWork } from '../../../jobs/index.ts'
import type { Served } from '../call.ts'
import { redact } from '../log/redact.ts'
import { noRedactor, type Redactor } from '../request/redact-job.ts'

/**
 * Works on bulk operations in every namespace that has some, also before the first request: an operation whose server
 * died must not wait for a visitor. Servers that share a store share the work.
 */
export interface Bulkers {
  readonly loop: Loop
  /** One was begun there: it need not wait until it is found. */
  begun(namespace: string): void
  /** Hands back what is under way. */
  stop(): Promise<void>
}

export interface BulkersParts {
  readonly served: Pick<Served, 'queuedNamespaces' | 'within'>
  /** What is hidden of what jobs carry. @default nothing */
  readonly redactor?: Redactor
  /** How often to look for namespaces. @default 1_000 */
  readonly lookMs?: number
  /** Learns of the loop's trouble. Must not throw. */
  readonly onTrouble?: (loop: string, trouble: keyof LoopEvents, event: object) => void
  /** Learns of an entry of the audit that was not written. Must not throw. */
  readonly onAuditFailed?: (action: string, error: unknown) => void
}

const defaultLookMs = 1_000
const maxNamespaces = 1_000
/** An operation is pending: its server may die at any moment, and no wake-up follows when its lease runs out. */
const pollMs = 2_000
/** How long a namespace is looked after when it has none left, so that one after the other does not start it anew. */
const restMs = 60_000
/** Of a search; its beginning tells what it was about. */
const maxSearchChars = 500

export function createBulkers(parts: BulkersParts): Bulkers {
  const {
    served,
    redactor = noRedactor,
    lookMs = defaultLookMs,
    onTrouble = () => {},
    onAuditFailed = () => {},
  } = parts
  const working = new Map<string, { readonly work: BulkWork; wantedAt: number }>()
  let isStopping = false

  /** There is something to do. */
  function want(namespace: string): void {
    if (isStopping) return
    const known = working.get(namespace) ?? { work: createWork(namespace), wantedAt: 0 }
    known.wantedAt = performance.now()
    working.set(namespace, known)
    known.work.start()
  }

  function createWork(namespace: string): BulkWork {
    const { jobs, logs, notifier, audit } = served.within(namespace)
    // What cannot be seen cannot be found either.
    const store = redactor.store(jobs)
    return createBulkWork({
      ...{ store, logs, notifier, pollMs },
      async onCompleted({ id, action, search, matched, done, skipped }) {
        const target = {
          operationId: id,
          action,
          search: redact(search.slice(0, maxSearchChars)),
          matched,
          done,
          skipped,
        }
        const entry = {
          actor: { id: 'server', name: null },
          action: 'jobs.bulk',
          target,
          outcome: 'done',
        } as const
        // Like every entry: what was done is done, whether or not it could be written down.
        await createAudit({ store: audit })
          .record(entry)
          .catch((error: unknown) => onAuditFailed('jobs.bulk', error))
      },
    })
  }

  const loop = createLoop({
    name: 'server.bulkers',
    idleMs: lookMs,
    async step(): Promise<'idle'> {
      for (const namespace of await served.queuedNamespaces(bulkQueue, maxNamespaces)) want(namespace)
      const now = performance.now()
      const over = [...working].filter(([, { wantedAt }]) => now - wantedAt > restMs)
      for (const [namespace] of over) working.delete(namespace)
      await Promise.all(over.map(([, { work }]) => work.close()))
      return 'idle'
    },
  })
  for (const trouble of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(trouble, (event) => onTrouble(loop.name, trouble, event))

  return {
    loop,
    begun: want,
    async stop() {
      isStopping = true
      await loop.stop({ graceMs: 1_000 })
      await Promise.all([...working.values()].map(({ work }) => work.close()))
      working.clear()
    },
  }
}
