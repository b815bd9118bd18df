import type { LockKey } from '../../../locks/index.ts'
import {
  type AcquireAsk,
  groupOf,
  type LockTimes,
  type Requester,
  type Ruled,
  type Standing,
} from '../../../locks/rules/index.ts'
import type { Connection } from '../connection/connection.ts'
import { readLeaseClock, readWallAhead } from './lease-clock.ts'
import { forgetTaken, giveBack, hasTaken, mintToken } from './lock-tokens.ts'

/**
 * The short way for what is asked for most: a wait queue that nobody holds or waits for is taken, and given back with a success.
 * Each is one statement that does what the rules would do where they have nothing to decide, and changes nothing where
 * they have: then the step is left to them. A wait queue that changed within this millisecond is theirs too, for they count on
 * from its revision, which is not known here.
 */
export interface QuickLockScope {
  readonly connection: Connection
  readonly namespace: string
  readonly key: LockKey
  readonly wall: number
}

/** Undefined: it is for the rules. */
export function acquireFree(
  scope: QuickLockScope,
  { node, requestId, ttlMs }: AcquireAsk,
  { conflicts }: LockTimes,
): Ruled<{ readonly standing: Standing }> | undefined {
  const { connection, namespace, key, wall } = scope
  const { operation, resource } = key
  if (groupOf(conflicts, operation)) return undefined
  const now = readLeaseClock(connection)
  // To take tokens is a write. Who is refused must not cost one, nor the commit that would have to reach the disk then.
  if (!hasTaken(connection) && !looksFree(scope, now)) return undefined
  const revision = wall * 1_000
  try {
    const token = mintToken(connection, 0, wall)
    const { changes } = connection
      .prepare(
        `UPDATE lock_queue
         SET attempt = 1, revision = ?5, due_at = ?6, token = ?7, holder_node = ?8, holder_request_id = ?9,
             holder_attempt = 1, holder_since = ?10, holder_ttl_ms = ?11, lease_ends_at = ?6, take_up_by = NULL,
             holder_seq = ?5, progress = NULL
         WHERE namespace = ?1 AND operation = ?2 AND resource = ?3 AND holder_node IS NULL AND waiter_count = 0
           AND outcome_count = 0 AND attempt = 0 AND grant_from <= ?4 AND revision < ?5
           AND (token IS NULL OR token < ?7)`,
      )
      .run(namespace, operation, resource, now, revision, now + ttlMs, token, node, requestId, wall, ttlMs)
    if (changes === 0) {
      giveBack(connection, token)
      return undefined
    }
    return {
      standing: { status: 'granted', token, expiresAt: now + ttlMs + readWallAhead(connection), attempt: 1 },
      told: { requesters: [{ node, requestId }], everyone: false, changed: true },
      revision,
    }
  } catch (error) {
    forgetTaken(connection)
    throw error
  }
}

function looksFree(
  { connection, namespace, key: { operation, resource } }: QuickLockScope,
  now: number,
): boolean {
  const found = connection.rows(
    `SELECT 1 FROM lock_queue
     WHERE namespace = ?1 AND operation = ?2 AND resource = ?3 AND holder_node IS NULL AND waiter_count = 0
       AND grant_from <= ?4`,
    namespace,
    operation,
    resource,
    now,
  )
  return found.length > 0
}

/** Undefined: it is for the rules. */
export function releaseAlone(
  { connection, namespace, key, wall }: QuickLockScope,
  { node, requestId, token }: Requester & { readonly token: number },
  { outcome, value }: { readonly outcome: 'success' | 'failure'; readonly value: string | null },
  { conflicts }: LockTimes,
): Ruled<{ readonly released: { readonly next: null } }> | undefined {
  const { operation, resource } = key
  if (outcome !== 'success' || groupOf(conflicts, operation)) return undefined
  const revision = wall * 1_000
  const { changes } = connection
    .prepare(
      `UPDATE lock_queue
       SET attempt = 0, revision = ?5, due_at = NULL, holder_node = NULL, holder_request_id = NULL,
           holder_attempt = NULL, holder_since = NULL, holder_ttl_ms = NULL, lease_ends_at = NULL, take_up_by = NULL,
           holder_seq = NULL, progress = NULL, last_outcome = 'success', last_node = holder_node,
           last_attempt = holder_attempt, last_at = ?6, last_value = ?7
       WHERE namespace = ?1 AND operation = ?2 AND resource = ?3 AND holder_node = ?8 AND holder_request_id = ?9
         AND token = ?10 AND lease_ends_at > ?4 AND (take_up_by IS NULL OR take_up_by > ?4) AND waiter_count = 0
         AND grant_from <= ?4 AND revision < ?5`,
    )
    .run(
      namespace,
      operation,
      resource,
      readLeaseClock(connection),
      revision,
      wall,
      value,
      node,
      requestId,
      token,
    )
  if (changes === 0) return undefined
  return {
    released: { next: null },
    told: { requesters: [], everyone: false, changed: true },
    revision,
  }
}
