import { setTimeout as sleep } from 'node:timers/promises'
import type { ClaimedRecord, ClaimRequest, QueueLimits } from '../../../jobs/index.ts'
import { decodeLimits, LimitPlan, type LimitSight, maxKeys, wholeQueue } from '../../sql/limit-plan.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { errnoOf } from '../connection/failures.ts'
import type { Store } from '../engine-store.ts'
import { byOrder, handOut, type ReadyRow, readyColumns } from './hand-out.ts'
import { toCancelled } from './history.ts'
import { LimitLook, type Waiting } from './limit-look.ts'
import { LimitRates, type RateRow } from './limit-rates.ts'
import { lockOverdue, selectCancels, selectOverdue, takeBack } from './reclaim.ts'

/**
 * Claims from a queue with limits: one transaction, with the queue's row locked from its first statement on, so no other
 * claim takes jobs from it until the commit. Every later statement sees what was committed by then (READ COMMITTED).
 *
 *     lock the queue ──▶ take back, promote ──▶ count ──▶ look ──▶ lock what fits (SKIP LOCKED) ──▶ claim, COMMIT
 *
 * The claim first reads the front of the queue. Only if that is full of jobs whose keys have no capacity does it look
 * at the keys one by one.
 *
 * An expired lease stops counting once its job was taken back, which happens first. A job whose row another transaction
 * has locked cannot be taken back: that transaction may still settle or renew it, so the job counts.
 *
 * A claim that finds the queue locked waits for a second, the shortest lock wait in MariaDB, and then answers that there
 * is no job. In a caller's transaction, a lock wait that fails might undo the whole transaction, so there the claim
 * checks the lock a few times instead.
 */
const waitMs = 1_000
const maxLooks = 20
const sweepLimit = 1_000
const maxSweeps = 20
/** How many more jobs than requested a claim looks at in the front of the queue, where jobs have keys. */
const frontCount = 200
const unlimited: QueueLimits = { concurrency: null, rate: null, perKey: null }

interface ControlRow {
  readonly limits: string
  readonly key_position: string | null
}

export async function claimWithin(
  store: Store,
  queue: string,
  request: ClaimRequest,
): Promise<readonly ClaimedRecord[]> {
  const { calls, memory } = store
  const claim = () => calls.run('claim jobs', (call) => claimLocked(store, call, queue, request))
  // A call that already has a connection must not wait for one that may need it.
  if (calls.isOne) return claim()
  return (await memory.limited.inTurn(queue, waitMs, claim)) ?? []
}

async function claimLocked(
  store: Store,
  call: Call,
  queue: string,
  { kinds, workerId, leaseMs, limit }: ClaimRequest,
): Promise<readonly ClaimedRecord[]> {
  const control = await lockQueue(store, call, queue)
  if (control === undefined) return []
  const limits = decodeLimits(control.limits) ?? unlimited
  const cancels = await sweep(store, call, queue)

  const rates = new LimitRates(store, call, queue)
  const look = new LimitLook(store, call, queue, kinds)
  const front = look.selectFront(
    limit + Math.min(cancels.size, 1_000) + (limits.perKey === null ? 0 : frontCount),
    limits.perKey !== null,
  )
  const [[clock], running, starts, inFront] = (await call.packet([
    [`SELECT ${nowMs} AS now`, []],
    countRunning(store, queue, limits),
    rates.selectQueue(),
    front,
  ])) as [{ now: number }[], { limit_key: string | null; count: number }[], RateRow[], Waiting[]]
  rates.note(starts)
  const sight: LimitSight = {
    now: Number(clock!.now),
    limits,
    running: new Map(running.map(({ limit_key, count }) => [limit_key ?? wholeQueue, Number(count)])),
    starts: rates.starts,
  }
  const { room } = new LimitPlan(sight)
  const want = Math.min(limit, room)
  if (want < 1) {
    await call.packet([commit])
    return []
  }

  const seen: Seen = { look, sight, cancels, limit }
  const learn = async (keys: readonly (string | null)[]) => {
    if (limits.perKey?.rate) await rates.learn(keys)
  }
  await learn(inFront.map(({ limit_key }) => limit_key))
  let candidates = inFront
  let nextKey = control.key_position
  const isAll = inFront.length < Number(front[1].at(-1))
  if (limits.perKey !== null && !isAll && choose(seen, inFront).length < want) {
    ;({ candidates, nextKey } = await lookByKey(seen, control.key_position ?? '', learn))
  }
  const remember: Statement[] =
    nextKey === control.key_position
      ? []
      : [
          [
            `UPDATE ${store.tables.control} SET key_position = ? WHERE namespace = ? AND queue = ?`,
            [nextKey, store.namespace, queue],
          ],
        ]

  const stray = candidates.filter(({ id }) => cancels.has(id)).map(({ id }) => id)
  const ids = [...choose(seen, candidates).map(({ id }) => id), ...stray].sort()
  const { locked, now } = await lockReady(store, call, ids)
  // Other transactions had locked some of the chosen jobs, so plan again without those. `now` is later than the count
  // of running jobs; a job that ended in between is counted too much, never too little.
  const plan = new LimitPlan({ ...sight, now })
  const chosen = plan.take(
    locked.filter(({ id }) => !cancels.has(id)).map((row) => ({ row, limitKey: row.limit_key })),
    limit,
  )
  const strays = locked.filter(({ id }) => cancels.has(id)).map(({ id }) => id)
  if (chosen.length === 0) {
    await call.packet([...toCancelled(store, strays), ...remember, commit])
    return []
  }
  const jobs = await handOut(
    store,
    call,
    chosen.map(({ row }) => row),
    {
      ...{ workerId, leaseMs, now, stray: strays },
      beside: [...rates.keep(plan, now), ...remember],
    },
  )
  return jobs.map((job) => ({ ...job, limited: true }))
}

/** Undefined: it is not to be claimed from within limits, now or at all; then the transaction is over. */
async function lockQueue(store: Store, call: Call, queue: string): Promise<ControlRow | undefined> {
  const { tables, namespace, calls, memory } = store
  const select = `SELECT limits, key_position FROM ${tables.control}
      WHERE namespace = ? AND queue = ? AND limits IS NOT NULL AND paused_at IS NULL`
  try {
    for (let looks = 1; ; looks++) {
      const [, [locked], [seen]] = (await call.packet([
        begin,
        [`${select} FOR UPDATE${calls.isOne ? ' SKIP LOCKED' : ''}`, [namespace, queue]],
        [select, [namespace, queue]],
      ])) as [unknown, ControlRow[], ControlRow[]]
      memory.limited.note(queue, seen !== undefined)
      if (locked !== undefined) return locked
      if (seen === undefined || looks === maxLooks) break
      await sleep(5 + 15 * Math.random())
    }
    await call.packet([commit])
  } catch (error) {
    if (errnoOf(error) !== 1205 || calls.isOne) throw error
    await call.packet([['ROLLBACK', []]])
  }
  return undefined
}

/** Takes back expired jobs and promotes due ones; answers the jobs with a cancellation request. */
async function sweep(store: Store, call: Call, queue: string): Promise<ReadonlySet<string>> {
  const states = ['scheduled', 'running'] as const
  const select = selectOverdue(store, [queue], states, sweepLimit)
  let [overdue, wanted] = (await call.packet([select, selectCancels(store)])) as [
    { id: string }[],
    { id: string }[],
  ]
  const cancels = new Set(wanted.map(({ id }) => id))
  for (let sweeps = 0; overdue.length > 0 && sweeps < maxSweeps; sweeps++) {
    const locked = await lockOverdue(store, call, overdue, [queue], states, sweepLimit)
    if (locked.length === 0) break
    ;[overdue] = (await call.packet([...takeBack(store, locked, cancels).statements, select])).slice(-1) as [
      { id: string }[],
    ]
    store.calls.onCommit(() => store.memory.positions.forget())
  }
  return cancels
}

function countRunning(
  { tables, namespace }: Store,
  queue: string,
  { concurrency, perKey }: QueueLimits,
): Statement {
  const running = `FROM ${tables.queue} FORCE INDEX (job_queue_order) WHERE namespace = ? AND queue = ? AND state = 'running'`
  if (perKey !== null && perKey.concurrency !== null) {
    return [`SELECT limit_key, COUNT(*) AS count ${running} GROUP BY limit_key`, [namespace, queue]]
  }
  if (concurrency !== null)
    return [`SELECT NULL AS limit_key, COUNT(*) AS count ${running}`, [namespace, queue]]
  return ['SELECT NULL AS limit_key, 0 AS count', []]
}

interface Seen {
  readonly look: LimitLook
  readonly sight: LimitSight
  readonly cancels: ReadonlySet<string>
  readonly limit: number
}

/** What could be handed out, of what was seen. */
function choose({ sight, cancels, limit }: Seen, waiting: readonly Waiting[]): readonly Waiting[] {
  const candidates = waiting.filter(({ id }) => !cancels.has(id))
  return new LimitPlan(sight)
    .take(
      candidates.map((row) => ({ row, limitKey: row.limit_key })),
      limit,
    )
    .map(({ row }) => row)
}

/** Key by key, from a place on; where there were more keys than are looked at, the place to go on from. */
async function lookByKey(
  seen: Seen,
  after: string,
  learn: (keys: readonly string[]) => Promise<void>,
): Promise<{ candidates: Waiting[]; nextKey: string | null }> {
  const { look, sight, limit } = seen
  const before = new LimitPlan(sight)
  const full = [...new Set([...sight.running.keys(), ...sight.starts.keys()])].filter(
    (key) => key !== wholeQueue && before.roomOf(key) < 1,
  )
  const { keys, hasMore } = await look.keys(maxKeys, full, after)
  await learn(keys)
  // A new one: a plan keeps to what it first said of a key, and more is known of their rates now.
  const plan = new LimitPlan(sight)
  const heads = await look.heads(
    keys.filter((key) => plan.roomOf(key) >= 1),
    limit,
  )
  const more = heads
    .map(({ limit_key }) => [limit_key!, Math.min(limit, plan.roomOf(limit_key))] as const)
    .filter(([, count]) => count > 1)
  const all = [...heads, ...(limit > 1 ? await look.firsts(more) : []), ...(await look.keyless(limit))]
  const candidates = [...new Map(all.map((waiting) => [waiting.id, waiting])).values()].sort(byOrder)
  return { candidates, nextKey: hasMore ? keys.at(-1)! : null }
}

type LimitedRow = ReadyRow & { readonly limit_key: string | null }

/** In the order of claims; and the time. */
async function lockReady(
  { tables, namespace }: Store,
  call: Call,
  ids: readonly string[],
): Promise<{ readonly locked: readonly LimitedRow[]; readonly now: number }> {
  if (ids.length === 0) return { locked: [], now: 0 }
  const [rows, [clock]] = (await call.packet([
    [
      `SELECT ${readyColumns}, limit_key FROM ${tables.queue} FORCE INDEX (PRIMARY)
        WHERE namespace = ? AND id IN (?) AND state = 'ready' FOR UPDATE SKIP LOCKED`,
      [namespace, ids],
    ],
    [`SELECT ${nowMs} AS now`, []],
  ])) as [LimitedRow[], { now: number }[]]
  return { locked: rows.sort(byOrder), now: Number(clock!.now) }
}
