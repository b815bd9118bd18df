import { setTimeout as sleep } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import {
  chooseLimited,
  type HeadRow,
  type KeyRange,
  type ReadHeads,
  readHeadsAtOnce,
} from '../../sql/limit-claim.ts'
import { type Procedure, run } from '../../sql/procedure.ts'
import type { Definition } from '../../sql/statement.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { errnoOf } from '../connection/failures.ts'
import type { Store } from '../engine-store.ts'
import { byOrder, handOut, type ReadyRow, readyColumns } from './hand-out.ts'
import { lockOverdue, selectCancels, selectOverdue, takeBack } from './reclaim.ts'

/**
 * Claims from a queue with limits in one transaction. Its first statement locks the queue's row, so no other claim
 * takes jobs from the queue until the commit. Every later statement sees what was committed by then (READ COMMITTED).
 *
 *     lock the queue ──▶ take back, promote ──▶ choose (sql/limit-claim.ts) ──▶ lock (SKIP LOCKED) ──▶ claim, COMMIT
 *
 * An expired lease stops counting after its job was taken back, which happens first. A job whose row another
 * transaction has locked cannot be taken back: that transaction may still settle or renew it, so the job counts.
 *
 * A claim that finds the queue locked waits for a second, the shortest lock wait in MariaDB, and then returns no job.
 * In a caller's transaction a lock wait that fails might undo the whole transaction, so there the claim checks the lock
 * a few times instead.
 */
const waitMs = 1_000
const maxLooks = 20
const sweepLimit = 1_000
const maxSweeps = 20

export async function claimWithin(
  store: Store,
  queue: string,
  request: ClaimRequest,
): Promise<readonly ClaimedRecord[]> {
  const { calls, memory } = store
  const claim = () => calls.run('claim jobs', (call) => claimLocked(store, call, queue, request))
  // A call that already has a connection must not wait for another call that may need it.
  if (calls.isOne) return claim()
  return (await memory.limited.inTurn(queue, waitMs, claim)) ?? []
}

async function claimLocked(
  store: Store,
  call: Call,
  queue: string,
  { kinds, workerId, leaseMs, limit }: ClaimRequest,
): Promise<readonly ClaimedRecord[]> {
  if (!(await lockQueue(store, call, queue))) return []
  await sweep(store, call, queue)
  const ask = { namespace: store.namespace, queue, kinds, limit }
  const choice = await store.database.runOn(call, chooseLimited(ask, createReadHeads(kinds)), true)
  const locked = await lockReady(store, call, choice.ids, kinds)
  // Leaves out jobs that other transactions locked meanwhile.
  const starting = choice.starting(new Set(locked.map(({ id }) => id)))
  const alongside = starting.flatMap((bound) => store.database.encode(bound))
  if (locked.length === 0) {
    await call.packet([...alongside, commit])
    return []
  }
  const jobs = await handOut(store, call, locked, {
    workerId,
    leaseMs,
    now: choice.now,
    stray: [],
    alongside,
  })
  return jobs.map((job) => ({ ...job, limited: true }))
}

/** False: the queue cannot be claimed within limits, now or at all. The transaction is then over. */
async function lockQueue(store: Store, call: Call, queue: string): Promise<boolean> {
  const { tables, namespace, calls, memory } = store
  const select = `SELECT 1 FROM ${tables.control}
      WHERE namespace = ? AND queue = ? AND limits IS NOT NULL AND paused_at IS NULL`
  try {
    for (let looks = 1; ; looks++) {
      const [, [locked], [seen]] = (await call.packet([
        begin,
        [`${select} FOR UPDATE${calls.isOne ? ' SKIP LOCKED' : ''}`, [namespace, queue]],
        [select, [namespace, queue]],
      ])) as [unknown, unknown[], unknown[]]
      memory.limited.record(queue, seen !== undefined)
      if (locked !== undefined) return true
      if (seen === undefined || looks === maxLooks) break
      await sleep(5 + 15 * Math.random())
    }
    await call.packet([commit])
  } catch (error) {
    if (errnoOf(error) !== 1205 || calls.isOne) throw error
    await call.packet([['ROLLBACK', []]])
  }
  return false
}

/** Takes back expired jobs and promotes due ones. */
async function sweep(store: Store, call: Call, queue: string): Promise<void> {
  const states = ['scheduled', 'running'] as const
  const select = selectOverdue(store, [queue], states, sweepLimit)
  const first: readonly Statement[] = [selectCancels(store), select]
  let [wanted, overdue] = (await call.packet(first)) as [{ id: string }[], { id: string }[]]
  const cancels = new Set(wanted.map(({ id }) => id))
  for (let sweeps = 0; overdue.length > 0 && sweeps < maxSweeps; sweeps++) {
    const locked = await lockOverdue(store, call, overdue, [queue], states, sweepLimit)
    if (locked.length === 0) break
    ;[overdue] = (await call.packet([...takeBack(store, locked, cancels).statements, select])).slice(-1) as [
      { id: string }[],
    ]
    store.calls.onCommit(() => store.memory.positions.forget())
  }
}

/**
 * In the order of claims. A job with a cancellation request is left for `reclaim`, and a job of another kind for other
 * claims.
 */
async function lockReady(
  { tables, namespace }: Store,
  call: Call,
  ids: readonly string[],
  kinds: readonly string[] | null,
): Promise<readonly ReadyRow[]> {
  if (ids.length === 0) return []
  const rows = await call.rows<ReadyRow>(
    `SELECT ${readyColumns} FROM ${tables.queue} FORCE INDEX (PRIMARY)
      WHERE namespace = ? AND id IN (?) AND state = 'ready'${kinds === null ? '' : ' AND kind IN (?)'}
        AND id NOT IN (SELECT job_id FROM ${tables.cancel} WHERE namespace = ?) FOR UPDATE SKIP LOCKED`,
    [namespace, ids.toSorted(), ...(kinds === null ? [] : [kinds]), namespace],
  )
  return rows.sort(byOrder)
}

const pageSize = 2_000
const sparseKeys = 100
const hopCount = 200

/**
 * Reads the first job of each key in one of two ways, because MariaDB does not jump along an index by itself. If keys
 * have few jobs each, it reads a page of entries in one state. If keys have many, it jumps from key to key in a loop on
 * the server (20 µs a key, measured). The page before shows which way is better.
 *
 * Kinds are known by their number in the index. `lockReady` separates names that share a number.
 */
function createReadHeads(kinds: readonly string[] | null): ReadHeads {
  const nameOf = new Map((kinds ?? []).map((kind) => [crc32(kind), kind]))
  return function* (range) {
    const heads: HeadRow[] = []
    const keys = new Set<string>()
    let isDense = false
    for (let after = range.after; keys.size < range.limit; after = heads.at(-1)!.limit_key) {
      const most: number = isDense ? Math.min(hopCount, range.limit - keys.size) : pageSize
      const read = isDense ? hopKeys : readHeadsAtOnce
      const rows: readonly HeadRow[] = yield* read({ ...range, after, limit: most })
      const countBefore = keys.size
      for (const row of rows) {
        if (!keys.has(row.limit_key)) heads.push({ ...row, kind: nameOf.get(Number(row.kind)) ?? '' })
        keys.add(row.limit_key)
      }
      if (rows.length < most) break
      isDense = keys.size - countBefore < sparseKeys
    }
    return heads
  }
}

function* hopKeys(range: KeyRange): Procedure<readonly HeadRow[]> {
  // A compound statement returns the rows of its SELECT, and then its own end.
  const [result] = yield* run({ definition: hop, params: { ...range } })
  const [[row]] = result!.rows as unknown as [[{ found: string }]]
  const found = JSON.parse(`[${row.found}]`) as [string, string, number, number, string][]
  return found.map(([limit_key, kind, rank, run_at, id]) => ({
    limit_key,
    kind,
    priority: -rank,
    run_at,
    id,
  }))
}

const hop: Definition = {
  name: 'limit_hop',
  declared: { namespace: 'text', queue: 'text', after: 'text', upTo: 'text', limit: 'integer' },
  optional: ['upTo'],
  isForServers: true,
  text: () => `
BEGIN NOT ATOMIC
  DECLARE hopped VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin DEFAULT :after;
  DECLARE head, found LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin DEFAULT '';
  DECLARE hops INT DEFAULT :limit;
  WHILE hops > 0 AND head IS NOT NULL DO
    SET head = NULL;
    SELECT limit_key, JSON_ARRAY(limit_key, limit_kind, limit_rank, limit_at, id)
      INTO hopped, head FROM @job_queue FORCE INDEX (job_queue_limit)
      WHERE namespace = :namespace AND queue = :queue AND limit_ready = 1 AND limit_key > hopped {AND limit_key <= :upTo}
      ORDER BY limit_key, limit_rank, limit_at, id LIMIT 1;
    IF head IS NOT NULL THEN SET found = CONCAT_WS(IF(found = '', '', ','), found, head); END IF;
    SET hops = hops - 1;
  END WHILE;
  SELECT found;
END`,
}
