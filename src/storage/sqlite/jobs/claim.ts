import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import { chooseLimited } from '../../sql/limit-claim.ts'
import { run } from '../../sql/procedure.ts'
import { createNonce, encodeToken } from '../../token.ts'
import type { Connection, Moment } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import { byPriorityThenAge, chooseReady, findReady, type ReadyRow } from './ready-order.ts'
import { takeBackLapsed } from './reclaim.ts'

/**
 * Claims jobs. One transaction makes due and expired jobs ready, then chooses the first jobs of all requested queues
 * and marks them. So each job goes to one claimer, and the order is exact.
 */

/** The number of rows that one turn promotes or takes back. If there are more, the claim continues in another turn. */
const sweepLimit = 2_000

/** Whether a claim could find anything. The reader answers, so that an idle worker never needs the writer's lock. */
export function mayClaim(moment: Moment, request: ClaimRequest): boolean {
  const { connection, namespace, now } = moment
  const { due } = connection.get<{ due: number }>(
    `SELECT EXISTS (SELECT 1 FROM job_queue
         WHERE namespace = ?1 AND state = 'scheduled' AND run_at <= ?2)
       OR EXISTS (SELECT 1 FROM job_queue
         WHERE namespace = ?1 AND state = 'running' AND lease_ends_at <= ?2) AS due`,
    namespace,
    now,
  )!
  if (due === 1) return true
  const controls = readControls(moment)
  if (chooseOpen(moment, { ...request, limit: 1 }, controls).length > 0) return true
  return limitedAmong(request.queues, controls).some((queue) => {
    const ask = { namespace, queue, kinds: request.kinds, limit: 1 }
    const { ids, isMoved } = runHere(connection, chooseLimited(ask), now)
    // If there are more keys than one claim reads, the next claim may find a job.
    return ids.length > 0 || isMoved
  })
}

/** Claims jobs. Undefined: there was too much to sweep for one turn, and the caller should claim again. */
export function claimJobs(moment: Moment, request: ClaimRequest): readonly ClaimedRecord[] | undefined {
  const { connection, namespace, now } = moment
  const { turn } = connection
  if (!turn.swept.has(namespace)) {
    const promoted = promoteDue(moment)
    const lapsed = takeBackLapsed(moment, sweepLimit)
    if (promoted === sweepLimit || lapsed.length === sweepLimit) return undefined
    turn.swept.add(namespace)
  }

  const controls = turn.controls.get(namespace) ?? readControls(moment)
  turn.controls.set(namespace, controls)
  const lease: Lease = {
    workerId: request.workerId,
    nonce: createNonce(),
    startedAt: now,
    leaseEndsAt: now + request.leaseMs,
  }
  const limited = limitedAmong(request.queues, controls)
  if (limited.length > 0) return claimFromAll(moment, request, { controls, limited, lease })
  const rows = chooseOpen(moment, request, controls)
  markClaimed(connection, rows, lease)
  return rows.map((row) => decodeClaimed(row, lease))
}

/** Which queue with limits, or the group of all other queues, the connection's next claim asks first. */
const turns = new WeakMap<Connection, number>()

/**
 * Asks the queues with limits and the group of all other queues in turn, starting with another one each time, so that
 * none starves.
 */
function claimFromAll(
  moment: Moment,
  request: ClaimRequest,
  { controls, limited, lease }: { controls: QueueControls; limited: readonly string[]; lease: Lease },
): readonly ClaimedRecord[] {
  const { connection, namespace, now } = moment
  const parts: readonly (string | null)[] = [null, ...limited]
  const turn = (turns.get(connection) ?? 0) % parts.length
  turns.set(connection, turn + 1)
  const chosen: { readonly row: ReadyRow; readonly limited: boolean }[] = []
  for (const part of [...parts.slice(turn), ...parts.slice(0, turn)]) {
    const rest = { ...request, limit: request.limit - chosen.length }
    if (rest.limit < 1) break
    if (part === null) {
      const rows = chooseOpen(moment, rest, controls)
      chosen.push(...rows.map((row) => ({ row, limited: false })))
      continue
    }
    const ask = { namespace, queue: part, kinds: rest.kinds, limit: rest.limit }
    const choice = runHere(connection, chooseLimited(ask), now)
    runHere(connection, run(...choice.starting()), now)
    chosen.push(...findReady(moment, choice.ids).map((row) => ({ row, limited: true })))
  }
  chosen.sort((a, b) => byPriorityThenAge(a.row, b.row))
  markClaimed(
    connection,
    chosen.map(({ row }) => row),
    lease,
  )
  return chosen.map(({ row, limited: isLimited }) => {
    const record = decodeClaimed(row, lease)
    return isLimited ? { ...record, limited: true } : record
  })
}

function markClaimed(connection: Connection, rows: readonly ReadyRow[], lease: Lease): void {
  const [first] = rows
  if (first === undefined) return
  const isOne = rows.length === 1
  connection.run(
    isOne ? markOne : markMany,
    isOne ? first[3] : `[${rows.map(([, , , row]) => row).join()}]`,
    lease.nonce,
    lease.leaseEndsAt,
    lease.workerId,
    lease.startedAt,
  )
}

const mark = `UPDATE job_queue
     SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, lease_nonce = ?2, lease_ends_at = ?3,
         worker_id = ?4, started_at = ?5, updated_at = ?5`
const markOne = `${mark} WHERE rowid = ?1`
const markMany = `${mark} WHERE rowid IN (SELECT value FROM json_each(?1))`

interface Lease {
  readonly workerId: string
  readonly nonce: string
  readonly startedAt: number
  readonly leaseEndsAt: number
}

/** The row after the claim. */
function decodeClaimed(row: ReadyRow, { workerId, nonce, startedAt, leaseEndsAt }: Lease): ClaimedRecord {
  const [priority, runAt, id, , leaseNo, queue, kind, payload, uniqueKey, attempt, maxAttempts, ...rest] = row
  const [handBackCount, snoozeCount, createdAt, backoff, timeoutMs, meta, error] = rest
  return {
    id,
    queue,
    kind,
    payload,
    priority,
    uniqueKey,
    state: 'running',
    attempt: attempt + 1,
    maxAttempts,
    handBackCount,
    snoozeCount,
    runAt,
    createdAt,
    startedAt,
    finishedAt: null,
    workerId,
    leaseEndsAt,
    backoff,
    timeoutMs,
    meta,
    result: null,
    error,
    cancelRequested: false,
    cancelIgnored: false,
    token: encodeToken({ leaseNo: String(leaseNo + 1), nonce }),
  }
}

function promoteDue({ connection, namespace, now }: Moment): number {
  return connection.run(
    `UPDATE job_queue SET state = 'ready', updated_at = ?2
     WHERE rowid IN (SELECT rowid FROM job_queue
       WHERE namespace = ?1 AND state = 'scheduled' AND run_at <= ?2 LIMIT ${sweepLimit})`,
    namespace,
    now,
  )
}

/** The first jobs of the requested queues that have no limits and are not paused. */
function chooseOpen(
  moment: Moment,
  { queues, kinds, limit }: ClaimRequest,
  { paused, limited, hasKeyed }: QueueControls,
): readonly ReadyRow[] {
  const open = queues.filter((queue) => !paused.has(queue) && !limited.has(queue))
  const keyed = hasKeyed ? bothLines : plainLines
  return chooseReady(moment, { queues: open, kinds, keyed, limit })
}

const plainLines: readonly boolean[] = [false]
const bothLines: readonly boolean[] = [false, true]

function limitedAmong(queues: readonly string[], { limited }: QueueControls): readonly string[] {
  if (limited.size === 0) return []
  return [...new Set(queues)].filter((queue) => limited.has(queue))
}

/** The pauses and limits of a namespace's queues, as a claim needs them. */
export interface QueueControls {
  readonly paused: ReadonlySet<string>
  /** The queues with limits that are not paused. */
  readonly limited: ReadonlySet<string>
  /** Whether any ready job has a limit key. If not, claims do not search for such jobs. */
  readonly hasKeyed: boolean
}

/** Reads everything with one statement. The row without a queue shows whether there are jobs with a key. */
function readControls({ connection, namespace }: Moment): QueueControls {
  const rows = connection.all<{ queue: string | null; paused_at: number | null }>(
    `SELECT queue, paused_at FROM queue_control
     WHERE namespace = ?1 AND (paused_at IS NOT NULL OR limits IS NOT NULL)
     UNION ALL
     SELECT NULL, NULL
     WHERE EXISTS (SELECT 1 FROM job_queue INDEXED BY job_queue_keyed
       WHERE namespace = ?1 AND state = 'ready' AND limit_key IS NOT NULL)`,
    namespace,
  )
  const paused = new Set<string>()
  const limited = new Set<string>()
  let hasKeyed = false
  for (const { queue, paused_at: pausedAt } of rows) {
    if (queue === null) hasKeyed = true
    else if (pausedAt !== null) paused.add(queue)
    else limited.add(queue)
  }
  return { paused, limited, hasKeyed }
}
