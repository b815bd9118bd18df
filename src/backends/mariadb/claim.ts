import type { ClaimedRecord, ClaimRequest } from '../../jobs/index.ts'
import { decodeJobRow, type JobRow } from '../jobrow.ts'
import { createNonce, encodeToken } from '../token.ts'
import { begin, type Call, commit, type Statement } from './calls.ts'
import { nowMs } from './clock.ts'
import { toCancelled } from './history.ts'
import type { Place } from './position.ts'
import { lockOverdue, selectCancels, selectOverdue, takeBack } from './reclaim.ts'
import type { Store } from './store.ts'

/**
 * Claiming: see where each queue's line begins, lock what comes first from there, skipping what others have locked,
 * keep the first `limit` of all together, mark them by primary key, commit. Two packets when nothing was due or expired;
 * when something was, it is put in line first and the look is repeated, so that priorities hold over it too.
 *
 * Whatever may have to pass index entries that are dead but not yet purged is a plain read: it passes one in 0.1 µs,
 * and a locking read, which locks each of them, in 2 to 4 (measured).
 *
 * Nobody waits for anybody here: every row is locked with SKIP LOCKED, and the rows written are locked already.
 */
const sweepLimit = 1_000
const maxSweeps = 20
const noRows: Statement = ['SELECT id FROM (SELECT 1 AS id) nothing WHERE FALSE', []]
/** By the server's clock: the way there and the locking of rows is not what makes a look slow. */
const measured: Statement = [
  `SELECT TIMESTAMPDIFF(MICROSECOND, @signalbox_begun, SYSDATE(6)) / 1000 AS tookMs, ${nowMs} AS now`,
  [],
]

/** The session's variables that hold where a queue's line begins. */
type Front = readonly [rank: string, at: string, id: string]

function nameFront(_queue: string, index: number): Front {
  return [`@signalbox_rank${index}`, `@signalbox_at${index}`, `@signalbox_id${index}`]
}

interface ReadyRow extends JobRow {
  readonly lease_no: number
  readonly sort_rank: number
}

export function createClaim(store: Store): (request: ClaimRequest) => Promise<readonly ClaimedRecord[]> {
  const { tables, namespace } = store
  const { positions, idle } = store.memory

  const line = `FROM ${tables.queue} FORCE INDEX (job_queue_order)
      WHERE namespace = ? AND queue = ? AND state = 'ready'
        AND NOT EXISTS (SELECT 1 FROM ${tables.control} c WHERE c.namespace = ? AND c.queue = ?)`
  const columns = `id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts, free_count, run_at,
      created_at, started_at, NULL AS finished_at, worker_id, lease_ends_at, backoff, timeout_ms, meta, NULL AS result, error,
      FALSE AS cancel_requested, FALSE AS cancel_ignored, lease_no, sort_rank`

  const onward = (rank: string, at: string, id: string) =>
    ` AND (sort_rank > ${rank} OR (sort_rank = ${rank} AND (sort_at > ${at} OR (sort_at = ${at} AND id >= ${id}))))`

  /** What comes first in line, as far as others have committed; not locked. */
  function selectFront(
    select: string,
    queue: string,
    kinds: readonly string[] | null,
    from: Place | undefined,
  ): Statement {
    const some = kinds === null ? '' : ' AND kind IN (?)'
    const after = from === undefined ? '' : onward('?', '?', '?')
    return [
      `SELECT ${select} ${line}${some}${after} ORDER BY sort_rank, sort_at, id LIMIT 1`,
      [
        ...[namespace, queue, namespace, queue],
        ...(kinds === null ? [] : [kinds]),
        ...(from === undefined ? [] : [from.rank, from.rank, from.at, from.at, from.id]),
      ],
    ]
  }

  /** From the front that was found just before; there is none when no job is ready, and NULL finds none. */
  function selectReady(
    front: Front,
    queue: string,
    kinds: readonly string[] | null,
    limit: number,
  ): Statement {
    const some = kinds === null ? '' : ' AND kind IN (?)'
    return [
      `SELECT ${columns} ${line}${some}${onward(...front)}
        ORDER BY sort_rank, sort_at, id LIMIT ? FOR UPDATE SKIP LOCKED`,
      [namespace, queue, namespace, queue, ...(kinds === null ? [] : [kinds]), limit],
    ]
  }

  /** Whether there is anything to do, in one statement and without a transaction: what an idle worker costs. */
  async function anything(call: Call, queues: readonly string[], kinds: readonly string[] | null) {
    const looks = [
      selectOverdue(store, queues, ['scheduled', 'running'], 1),
      ...queues.map((queue) => selectFront('id', queue, kinds, undefined)),
    ]
    const rows = await call.rows(
      looks.map(([sql]) => `(${sql})`).join(' UNION ALL '),
      looks.flatMap(([, values]) => values),
    )
    return rows.length > 0
  }

  return async function claim({ queues, kinds, workerId, limit, leaseMs }) {
    if (limit < 1 || queues.length === 0 || kinds?.length === 0) return []
    const distinct = [...new Set(queues)]
    const fronts = distinct.map(nameFront)
    const key = JSON.stringify([distinct, kinds])
    const claimed = await store.calls.run('claim jobs', async (call) => {
      if (idle.has(key) && !(await anything(call, distinct, kinds))) return []
      for (let sweep = 0; ; sweep++) {
        using look = positions.begin(key)
        const { from } = look
        const answers = await call.packet([
          begin,
          [
            `SET @signalbox_begun = SYSDATE(6)${fronts.map((front) => front.map((name) => `, ${name} = NULL`).join('')).join('')}`,
            [],
          ],
          // With a place remembered (dead entries are many) what is due or expired waits for the next look from the
          // front, a second at most: InnoDB reads past the end of a range for as long as it meets dead entries.
          from === undefined ? selectOverdue(store, distinct, ['scheduled', 'running'], sweepLimit) : noRows,
          ...distinct.map((queue, i) =>
            selectFront(`sort_rank, sort_at, id INTO ${fronts[i]!.join(', ')}`, queue, kinds, from),
          ),
          measured,
          selectCancels(store),
          ...distinct.map((queue, i) => selectReady(fronts[i]!, queue, kinds, limit)),
        ])
        const overdue = answers[2] as { id: string }[]
        const [[measure], cancelRows, ...found] = answers.slice(3 + distinct.length) as [
          [{ tookMs: number; now: number }],
          { id: string }[],
          ...ReadyRow[][],
        ]

        const cancels = new Set(cancelRows.map(({ id }) => id))
        if (overdue.length > 0 && sweep < maxSweeps) {
          const locked = await lockOverdue(
            store,
            call,
            overdue,
            distinct,
            ['scheduled', 'running'],
            sweepLimit,
          )
          if (locked.length > 0) {
            await call.packet([...takeBack(store, locked, cancels).statements, commit])
            // For our own next look, and for others once they can see what was put in line.
            positions.forget()
            store.calls.onCommit(() => positions.forget())
            continue
          }
        }
        const inLine = found.length === 1 ? found[0]! : found.flat().sort(byOrder)
        const stray = inLine.filter(({ id }) => cancels.has(id)).map(({ id }) => id)
        const chosen = inLine.filter(({ id }) => !cancels.has(id)).slice(0, limit)
        if (from !== undefined && (stray.length > 0 || chosen.length === 0)) {
          // Nothing from the middle of the line on: there may be something before it.
          positions.forget()
          await call.packet([commit])
          continue
        }
        const last = chosen.at(-1)
        const place = last && { rank: last.sort_rank, at: Number(last.run_at), id: last.id }
        if (from === undefined) look.note({ tookMs: Number(measure.tookMs), now: Number(measure.now), place })
        else if (place !== undefined) look.advance(place)

        if (chosen.length === 0) {
          await call.packet([...toCancelled(store, stray), commit])
          return []
        }
        return hand(call, chosen, stray, workerId, leaseMs)
      }
    })
    if (claimed.length > 0) idle.delete(key)
    else if (idle.size < 1_000) idle.add(key)
    return claimed
  }

  async function hand(
    call: Call,
    chosen: readonly ReadyRow[],
    stray: readonly string[],
    workerId: string,
    leaseMs: number,
  ): Promise<readonly ClaimedRecord[]> {
    const nonce = createNonce()
    const [, clock] = (await call.packet([
      [`SET @signalbox_now = ${nowMs}`, []],
      ['SELECT @signalbox_now AS now', []],
      ...toCancelled(store, stray),
      [
        `UPDATE ${tables.queue}
          SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, lease_nonce = ?,
            lease_ends_at = @signalbox_now + ?, worker_id = ?, room = '', started_at = @signalbox_now, updated_at = @signalbox_now
          WHERE namespace = ? AND id IN (?)`,
        [nonce, leaseMs, workerId, namespace, chosen.map(({ id }) => id).sort()],
      ],
      commit,
    ])) as [unknown, { now: number }[]]
    const now = Number(clock[0]!.now)
    const leaseEndsAt = now + leaseMs
    return chosen.map((row) => ({
      ...decodeJobRow(row),
      state: 'running',
      attempt: row.attempt + 1,
      startedAt: now,
      workerId,
      leaseEndsAt,
      token: encodeToken({ leaseNo: String(row.lease_no + 1), nonce }),
    }))
  }
}

function byOrder(a: ReadyRow, b: ReadyRow): number {
  return (
    a.sort_rank - b.sort_rank ||
    Number(a.run_at) - Number(b.run_at) ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
  )
}
