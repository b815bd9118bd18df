/** What the audit asks of a backend, in one namespace. */
export interface AuditStore {
  /** Writes entries, all or none. An entry with a known id stays as it is, so a retry is safe. */
  write(entries: readonly NewAuditEntry[]): Promise<void>
  /** Newest first by id. */
  list(query: AuditQuery): Promise<readonly AuditEntry[]>
  /** Forgets up to `limit` that were recorded longer ago than that, oldest first; answers how many. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** An entry to be written; the store says when it was. */
export type NewAuditEntry = Omit<AuditEntry, 'at'>

export interface AuditQuery {
  readonly action?: string
  /** The actor's id. */
  readonly actor?: string
  readonly limit: number
  /** The last id of the page before. */
  readonly before?: string
}

/**
 * What an operator did, or was refused: who, when, what, to which thing. An entry is written once and never changed, and
 * holds names and ids alone: no secrets, no payloads, no results.
 */
export interface AuditEntry {
  /** Ids rise in the order in which one process recorded. */
  readonly id: string
  /** When it was recorded, by the store's clock. */
  readonly at: number
  readonly actor: AuditActor
  /** One of `auditActions`, or a word of a newer Signalbox on the same store. */
  readonly action: string
  /** Which lock, queue, job or key it was done to. */
  readonly target: AuditTarget
  readonly outcome: AuditOutcome
  /** The error's code; null when it was done. */
  readonly code: string | null
}

/** Who acted. */
export interface AuditActor {
  /** A token's id; `bootstrap`; `local` for a client on a loopback port that needs no token; `library`; `cli`; `server`. */
  readonly id: string
  /** The token's name at the time; null for those who have none. */
  readonly name: string | null
}

/** The words for what was done. They are kept for years, so they are never changed; new ones come. */
export const auditActions = [
  'lock.evict',
  'queue.pause',
  'queue.resume',
  'queue.limit',
  'queue.unlimit',
  'job.cancel',
  'job.retry',
  'jobs.retryDead',
  'jobs.prune',
  'jobs.remove',
  'jobs.bulk',
  'jobs.cancelBulk',
  'worker.quiet',
  'worker.resume',
  'worker.stop',
  'alerts.add',
  'alerts.remove',
  'alerts.test',
  'schedule.set',
  'schedule.remove',
  'schedule.pause',
  'schedule.resume',
  'schedule.run',
  'token.create',
  'token.revoke',
  'guard.forget',
  'monitor.subscribe',
  'monitor.unsubscribe',
  'monitor.silence',
  'monitor.unsilence',
  'monitor.replay',
  'monitor.test',
  'task.cancel',
  'node.drain',
  'node.cordon',
  'pool.define',
  'pool.remove',
] as const

export type AuditAction = (typeof auditActions)[number]

/** A few names and numbers. */
export type AuditTarget = Readonly<Record<string, string | number>>

/** `unknown`: the store or the server failed on the way, so it may have been done or not. */
export type AuditOutcome = 'done' | 'refused' | 'unknown'

export const auditOutcomes: readonly AuditOutcome[] = ['done', 'refused', 'unknown']
