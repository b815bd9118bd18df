import { SignalboxError } from '../../../core/errors.ts'
import type { Verdict } from '../../../jobs/index.ts'
import { leavesAttempt } from '../../attempt-error.ts'
import { encodeToken } from '../../token.ts'
import { toCallerTx, transactionRequired, wrongDatabase } from '../connection/caller-transaction.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { errnoOf } from '../connection/failures.ts'
import { packItems, sendAll, valueSize } from '../connection/packets.ts'
import type { Store } from '../engine-store.ts'
import { type AckAnswer, decodeAckAnswer, encodeAck } from './ack.ts'
import { carried, deleteCancelRequests, deleteJobs, ending, findRelease, keepAttempts } from './history.ts'

/**
 * Writes verdicts in batches. One transaction locks (SKIP LOCKED) the rows whose token and lease are valid, and moves
 * them to the history, or makes them ready again, by primary key. Payloads never leave the server.
 *
 * Another transaction has locked a skipped row, most likely an ack of the same attempt. It does not delay the other
 * verdicts: these are committed first, and the skipped one is tried again alone until its row is unlocked.
 */
interface HeldRow {
  readonly id: string
  readonly lease_no: number
  readonly lease_nonce: string
  readonly priority: number
  readonly run_at: number
}

const batch = 1_000
/** More than the short values of a verdict need. */
const rowBytes = 400

export async function settle(store: Store, verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
  const written = new Array<boolean>(verdicts.length).fill(false)
  let openIndexes: number[] = []
  for (let i = 0; i < verdicts.length; i += batch) {
    const some = Array.from({ length: Math.min(batch, verdicts.length - i) }, (_, n) => i + n)
    openIndexes.push(...(await settleSome(store, verdicts, some, written)))
  }
  if (openIndexes.length === 0) return written
  await store.calls.until('settle a job', async () => {
    openIndexes = await settleSome(store, verdicts, openIndexes, written)
    return openIndexes.length === 0 ? true : undefined
  })
  return written
}

/** Writes the verdicts at `indexes` whose rows are not locked. Returns the indexes to try again. */
async function settleSome(
  store: Store,
  verdicts: readonly Verdict[],
  indexes: readonly number[],
  written: boolean[],
): Promise<number[]> {
  const { tables, namespace, calls, memory } = store
  // If the same attempt occurs twice in one call, the first verdict counts.
  const byId = new Map<string, number>()
  const repeated: number[] = []
  for (const index of indexes) {
    const { jobId } = verdicts[index]!
    if (byId.has(jobId)) repeated.push(index)
    else byId.set(jobId, index)
  }
  const ids = [...byId.keys()].sort()
  const held = `SELECT id, lease_no, lease_nonce, priority, run_at FROM ${tables.queue} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) AND state = 'running' AND lease_ends_at > ${nowMs}`
  const holds = ({ id, lease_no, lease_nonce }: HeldRow) =>
    verdicts[byId.get(id)!]!.token === encodeToken({ leaseNo: String(lease_no), nonce: lease_nonce })

  const { mine, skipped } = await calls.run('settle jobs', async (call) => {
    const [, locked, cancels] = (await call.packet([
      begin,
      [`${held} FOR UPDATE SKIP LOCKED`, [namespace, ids]],
      [
        // Requests are rare, so one range of ids is searched instead of each id.
        `SELECT job_id AS id FROM ${tables.cancel} WHERE namespace = ? AND job_id BETWEEN ? AND ?`,
        [namespace, ids[0], ids.at(-1)],
      ],
    ])) as [unknown, HeldRow[], { id: string }[]]
    const mine = new Map(locked.filter(holds).map((row) => [row.id, row]))
    // A row that is live but was not locked here is locked by another transaction. Read in this transaction, before its
    // own rows are deleted.
    const rest = ids.filter((id) => !mine.has(id))
    const seen = rest.length === 0 ? [] : await call.rows<HeldRow>(held, [namespace, rest])
    await write(
      store,
      call,
      [...mine.keys()].map((id) => verdicts[byId.get(id)!]!),
      new Set(cancels.map(({ id }) => id)),
    )
    return { mine, skipped: seen.filter(holds).map(({ id }) => byId.get(id)!) }
  })
  for (const [id, { priority, run_at }] of mine) {
    const index = byId.get(id)!
    written[index] = true
    const { state, delayMs } = verdicts[index]!
    const { positions } = memory
    calls.onCommit(() => {
      if (state === 'ready') positions.jobReadyAt({ rank: -priority, at: Number(run_at), id })
      else if (state === 'scheduled' && delayMs <= 0) positions.jobReadyNow(-priority)
    })
  }
  return [...skipped, ...repeated]
}

/** Writes verdicts of rows that this transaction has locked, and commits. */
async function write(
  store: Store,
  call: Call,
  verdicts: readonly Verdict[],
  cancels: ReadonlySet<string>,
): Promise<void> {
  const { tables, namespace } = store
  const ends: [verdict: Verdict, state: string][] = []
  const backs: Statement[] = []
  for (const verdict of verdicts) {
    if (verdict.state !== 'ready' && verdict.state !== 'scheduled') ends.push([verdict, verdict.state])
    else if (cancels.has(verdict.jobId)) ends.push([verdict, 'cancelled'])
    else backs.push(bringBack(store, verdict))
  }
  const failed = verdicts.filter(leavesAttempt)
  const attempts = packItems(failed, ({ error }) => valueSize(error) + rowBytes, store.packetBytes)
  // Runs before the jobs leave the queue, and before retries change their start times.
  const statements: Statement[] = [...attempts.map((chunk) => keepAttempts(store, chunk)), ...backs]
  // A packet must not exceed the server's limit, and a result may have 256 KiB.
  const sizeOfEnd = ([{ result, error }]: (typeof ends)[number]) => valueSize([result, error]) + rowBytes
  for (const chunk of packItems(ends, sizeOfEnd, store.packetBytes)) {
    const ids = chunk.map(([{ jobId }]) => jobId).sort()
    statements.push(
      [
        `INSERT INTO ${tables.history} (${carried}, ${ending})
          WITH v (job_id, state, attempt, hand_back_count, snooze_count, ran_ms, result, error, ignored) AS (VALUES ?)
          SELECT ${carried
            .split(',')
            .map((column) => `q.${column.trim()}`)
            .join(', ')}, v.state, v.attempt, v.hand_back_count, v.snooze_count,
            IF(v.ran_ms < 0, q.started_at, ${nowMs} - v.ran_ms), ${nowMs},
            q.worker_id, q.lease_nonce, v.result, v.error, v.ignored
          FROM v STRAIGHT_JOIN ${tables.queue} q ON q.namespace = ? AND q.id = v.job_id`,
        [
          chunk.map(([verdict, state]) => [
            verdict.jobId,
            state,
            verdict.attempt,
            verdict.handBackCount,
            verdict.snoozeCount,
            verdict.ranMs === null ? -1 : Math.max(0, Math.round(verdict.ranMs)),
            verdict.result,
            verdict.error,
            state === 'completed' && cancels.has(verdict.jobId) ? 1 : 0,
          ]),
          namespace,
        ],
      ],
      ...markDead(
        store,
        chunk.filter(([, state]) => state === 'dead').map(([{ jobId }]) => jobId),
      ),
      deleteJobs(store, ids),
      ...(cancels.size === 0 ? [] : [deleteCancelRequests(store, ids)]),
    )
  }
  await sendAll(call, [...statements, commit], store.packetBytes)
}

function markDead({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [
    [
      `INSERT IGNORE INTO ${tables.dead} (namespace, queue, id, kind)
        SELECT namespace, queue, id, kind FROM ${tables.queue} WHERE namespace = ? AND id IN (?)`,
      [namespace, ids],
    ],
  ]
}

function bringBack({ tables, namespace }: Store, verdict: Verdict): Statement {
  const isReady = verdict.state === 'ready'
  const delayMs = Math.max(0, Math.round(verdict.delayMs))
  return [
    `UPDATE ${tables.queue}
      SET state = IF(${isReady ? 'run_at' : `${nowMs} + ?`} <= ${nowMs}, 'ready', 'scheduled'),
        attempt = ?, hand_back_count = ?, snooze_count = ?, run_at = ${isReady ? 'run_at' : `${nowMs} + ?`},
        started_at = IF(? < 0, started_at, ${nowMs} - ?), error = ?, settled_tokens = CONCAT_WS(' ', settled_tokens, CONCAT(lease_no, '.', lease_nonce)),
        lease_ends_at = NULL, updated_at = ${nowMs}
      WHERE namespace = ? AND id = ?`,
    [
      ...(isReady ? [] : [delayMs]),
      verdict.attempt,
      verdict.handBackCount,
      verdict.snoozeCount,
      ...(isReady ? [] : [delayMs]),
      verdict.ranMs === null ? -1 : Math.round(verdict.ranMs),
      verdict.ranMs === null ? 0 : Math.round(verdict.ranMs),
      verdict.error,
      namespace,
      verdict.jobId,
    ],
  ]
}

/** Implements JobStore.settleIn: writes in the caller's transaction. */
export async function settleIn(store: Store, tx: unknown, verdict: Verdict): Promise<boolean> {
  const caller = await toCallerTx(tx)
  const cancelRequested = await wantsCancel(store, verdict.jobId)
  const release = leavesAttempt(verdict) ? await findRelease(store, verdict.jobId) : null
  const ack = encodeAck(store, verdict, { cancelRequested, release, foreign: true })
  if (ack === undefined) return false
  let answer: AckAnswer | undefined
  try {
    answer = decodeAckAnswer(await caller.query(ack.sql, ack.values))
  } catch (error) {
    // A missing table or database, or no permission to see it: the connection is to another server than the store.
    if ([1146, 1049, 1142, 1044].includes(errnoOf(error) ?? 0)) throw wrongDatabase(error)
    throw error
  }
  if (answer === 'no_transaction') throw transactionRequired()
  if (answer === 'wrong_database') throw wrongDatabase()
  if (answer === undefined) {
    throw new SignalboxError('internal', 'MariaDB gave no answer to an ack. Roll the transaction back.')
  }
  return answer === 'took'
}

async function wantsCancel({ calls, tables, namespace }: Store, jobId: string): Promise<boolean> {
  const rows = await calls.run('look up a cancellation', (call) =>
    call.rows(`SELECT 1 FROM ${tables.cancel} WHERE namespace = ? AND job_id = ?`, [namespace, jobId]),
  )
  return rows.length > 0
}
