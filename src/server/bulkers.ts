import { createAudit } from '../audit/index.ts'
import { createLoop, type Loop, type LoopEvents } from '../core/loop.ts'
import { type BulkWork, createBulkWork } from '../jobs/index.ts'
import type { Served } from './call.ts'
import { redact } from './redact.ts'
import { noRedactor, type Redactor } from './redactjob.ts'
import type { Spaces } from './spaces.ts'

/**
 * Works on bulk operations in every namespace that is in use, and in the one that is used when none is named: a store
 * cannot list those that have some. So one that was cut off elsewhere goes on as soon as anybody speaks of its namespace.
 */
export interface Bulkers {
  readonly loop: Loop
  /** One was begun there: it need not wait until it is found. */
  begun(namespace: string): void
  /** Hands back what is under way. */
  stop(): Promise<void>
}

export interface BulkersParts {
  readonly served: Pick<Served, 'within'>
  readonly spaces: Spaces
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
/** Of a search; its beginning tells what it was about. */
const maxSearchChars = 500

export function createBulkers(parts: BulkersParts): Bulkers {
  const {
    served,
    spaces,
    redactor = noRedactor,
    lookMs = defaultLookMs,
    onTrouble = () => {},
    onAuditFailed = () => {},
  } = parts
  const working = new Map<string, BulkWork>()

  let isStopping = false

  function begin(namespace: string): BulkWork {
    const { jobs, notes, bell, audit } = served.within(namespace)
    // What cannot be seen cannot be found either.
    const store = redactor.store(jobs)
    const work = createBulkWork({
      ...{ store, notes, bell },
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
    working.set(namespace, work)
    work.watch()
    return work
  }

  const loop = createLoop({
    name: 'server.bulkers',
    idleMs: lookMs,
    async step(): Promise<'idle'> {
      const used = new Set(['default', ...[...spaces].map(({ namespace }) => namespace)])
      for (const namespace of used) if (!working.has(namespace)) begin(namespace)
      const over = [...working].filter(([namespace]) => !used.has(namespace))
      for (const [namespace] of over) working.delete(namespace)
      await Promise.all(over.map(([, work]) => work.close()))
      return 'idle'
    },
  })
  for (const trouble of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(trouble, (event) => onTrouble(loop.name, trouble, event))

  return {
    loop,
    begun(namespace) {
      if (!isStopping) (working.get(namespace) ?? begin(namespace)).start()
    },
    async stop() {
      isStopping = true
      await loop.stop({ graceMs: 1_000 })
      await Promise.all([...working.values()].map((work) => work.close()))
      working.clear()
    },
  }
}
