/** The store of the audit of one namespace. */
export interface AuditStore {
  /** Writes all entries or none. An entry with a known id does not change, so a retry is safe. */
  write(entries: readonly NewAuditEntry[]): Promise<void>
  /** Lists entries by id, newest first. */
  list(query: AuditQuery): Promise<readonly AuditEntry[]>
  /** Deletes up to `limit` older entries, oldest first. Returns their number. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** An entry to write; the store adds its time. */
export type NewAuditEntry = Omit<AuditEntry, 'at'>

export interface AuditQuery {
  readonly action?: string
  /** The actor's id. */
  readonly actor?: string
  readonly limit: number
  /** The last id of the previous page. */
  readonly before?: string
}

/**
 * An action of an operator, done or refused: actor, time, action and target. An entry never changes. It has only names and
 * ids: no secrets, no payloads, no results.
 */
export interface AuditEntry {
  /** Ids of one process rise in the order of its entries. */
  readonly id: string
  /** The time of the entry, by the store's clock. */
  readonly at: number
  readonly actor: AuditActor
  /** One of `auditActions`, or an action of a newer Signalbox on the same store. */
  readonly action: string
  /** The lock, queue, job, key and so on. */
  readonly target: AuditTarget
  readonly outcome: AuditOutcome
  /** The error's code; null: the action was done. */
  readonly code: string | null
}

/** The actor of an entry. */
export interface AuditActor {
  /** A token's id; `bootstrap`; `local` for a client on a loopback port that needs no token; `library`; `cli`; `server`. */
  readonly id: string
  /** The token's name at the time; null: the actor has no token. */
  readonly name: string | null
}

/** All actions. Entries stay for years, so an action is never renamed. */
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

/** `unknown`: the store or the server failed, so the action may or may not have been done. */
export type AuditOutcome = 'done' | 'refused' | 'unknown'

export const auditOutcomes: readonly AuditOutcome[] = ['done', 'refused', 'unknown']
