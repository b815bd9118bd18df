import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import type { QueuePosition } from '../../sql/claim-positions.ts'
import { begin, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { byOrder, handOut, type ReadyRow, readyColumns } from './hand-out.ts'
import { toCancelled } from './history.ts'
import { claimWithin } from './limit-claim.ts'
import { lockOverdue, selectCancels, selectOverdue, takeBack } from './reclaim.ts'

/**
 * Claims from all queues without limits together, and from each queue with limits separately. If there are both, each
 * kind comes first every second time, so that neither starves the other. The store remembers which queues have limits;
 * a claim that did not know it finds out on its way.
 */
export function createClaim(store: Store): (request: ClaimRequest) => Promise<readonly ClaimedRecord[]> {
  const { idle, limited } = store.memory
  const free = createFreeClaim(store)

  async function claimLimited(
    queues: readonly string[],
    request: ClaimRequest,
  ): Promise<readonly ClaimedRecord[]> {
    let claimed: readonly ClaimedRecord[] = []
    for (const queue of limited.inRotation(queues)) {
      if (claimed.length >= request.limit) break
      const more = () => claimWithin(store, queue, { ...request, limit: request.limit - claimed.length })
      claimed = await andAlso(claimed, more)
    }
    return claimed
  }

  /** Claimed jobs must reach their claimer even if the rest fails, unless everything is one transaction. */
  async function andAlso(
    first: readonly ClaimedRecord[],
    more: () => Promise<readonly ClaimedRecord[]>,
  ): Promise<readonly ClaimedRecord[]> {
    try {
      return [...first, ...(await more())]
    } catch (error) {
      if (first.length === 0 || store.calls.isOne) throw error
      return first
    }
  }

  async function claimAny(
    distinct: readonly string[],
    request: ClaimRequest,
  ): Promise<readonly ClaimedRecord[]> {
    const known = distinct.filter((queue) => limited.has(queue))
    const isFirst = known.length > 0 && (known.length === distinct.length || limited.comeFirst())
    const first = isFirst ? await claimLimited(known, request) : []
    const isAll = isFirst && distinct.every((queue) => limited.has(queue))
    if (isAll || first.length >= request.limit) return first
    return andAlso(first, async () => {
      const left = request.limit - first.length
      const { jobs, limited: named } = await free.claim(distinct, { ...request, limit: left })
      for (const queue of distinct) limited.record(queue, named.includes(queue))
      const others = named.filter((queue) => !isFirst || !known.includes(queue))
      if (others.length === 0 || jobs.length >= left) return jobs
      return andAlso(jobs, () => claimLimited(others, { ...request, limit: left - jobs.length }))
    })
  }

  return async function claim(request) {
    store.schema.refuse()
    const { queues, kinds, limit } = request
    if (limit < 1 || queues.length === 0 || kinds?.length === 0) return []
    const distinct = [...new Set(queues)]
    const key = JSON.stringify([distinct, kinds])
    if (idle.has(key) && !(await free.anything(distinct, kinds))) return []
    const claimed = await claimAny(distinct, request)
    if (claimed.length > 0) idle.delete(key)
    else if (idle.size < 1_000) idle.add(key)
    return claimed
  }
}

/**
 * Claims from queues without limits. It finds the front of each queue, locks the first jobs from there (SKIP LOCKED),
 * keeps the first `limit` of all queues together, marks them by primary key, and commits. This takes two packets if
 * nothing was due or expired. Otherwise the claim makes those jobs ready first and searches again, so that priorities
 * include them.
 *
 * A statement that may pass dead index entries that are not purged yet is a plain read: it passes one in 0.1 µs. A
 * locking read locks each of them and needs 2 to 4 µs (measured).
 *
 * No claim waits for another: every row is locked with SKIP LOCKED, and written rows are locked already.
 */
const sweepLimit = 1_000
const maxSweeps = 20
const noRows: Statement = ['SELECT id FROM (SELECT 1 AS id) nothing WHERE FALSE', []]
/** By the server's clock, because the network and row locks do not make a search slow. */
const measured: Statement = [
  `SELECT TIMESTAMPDIFF(MICROSECOND, @signalbox_begun, SYSDATE(6)) / 1000 AS tookMs, ${nowMs} AS now`,
  [],
]

function selectLimited({ tables, namespace }: Store, queues: readonly string[]): Statement {
  return [
    `SELECT queue FROM ${tables.control}
      WHERE namespace = ? AND queue IN (?) AND limits IS NOT NULL AND paused_at IS NULL`,
    [namespace, queues],
  ]
}

/** The claimed jobs, and the queues that have limits. */
export interface Claimed {
  readonly jobs: readonly ClaimedRecord[]
  readonly limited: readonly string[]
}

/** The session variables that hold the front of a queue. */
type Front = readonly [rank: string, at: string, id: string]

function nameFront(_queue: string, index: number): Front {
  return [`@signalbox_rank${index}`, `@signalbox_at${index}`, `@signalbox_id${index}`]
}

/** Claims from queues without limits. */
export interface FreeClaim {
  /** Whether there is any work. One statement without a transaction: the only cost of an idle worker. */
  anything(queues: readonly string[], kinds: readonly string[] | null): Promise<boolean>
  /** Claims from those of the queues that have no limits. Also returns the queues that have limits. */
  claim(queues: readonly string[], request: ClaimRequest): Promise<Claimed>
}

export function createFreeClaim(store: Store): FreeClaim {
  const { tables, namespace } = store
  const { positions } = store.memory

  const ready = `FROM ${tables.queue} FORCE INDEX (job_queue_order)
      WHERE namespace = ? AND queue = ? AND state = 'ready'
        AND NOT EXISTS (SELECT 1 FROM ${tables.control} c WHERE c.namespace = ? AND c.queue = ?)`
  /** The same, including queues with limits. */
  const anyReady = ready.replace('c.queue = ?)', 'c.queue = ? AND c.paused_at IS NOT NULL)')
  const onward = (rank: string, at: string, id: string) =>
    ` AND (sort_rank > ${rank} OR (sort_rank = ${rank} AND (sort_at > ${at} OR (sort_at = ${at} AND id >= ${id}))))`

  /** The first ready job that other transactions have committed. Not locked. */
  function selectFront(
    select: string,
    queue: string,
    kinds: readonly string[] | null,
    from: QueuePosition | undefined,
    among: string = ready,
  ): Statement {
    const some = kinds === null ? '' : ' AND kind IN (?)'
    const after = from === undefined ? '' : onward('?', '?', '?')
    return [
      `SELECT ${select} ${among}${some}${after} ORDER BY sort_rank, sort_at, id LIMIT 1`,
      [
        ...[namespace, queue, namespace, queue],
        ...(kinds === null ? [] : [kinds]),
        ...(from === undefined ? [] : [from.rank, from.rank, from.at, from.at, from.id]),
      ],
    ]
  }

  /** The ready jobs from the front that was just found. If no job is ready, the front is NULL and finds no row. */
  function selectReady(
    front: Front,
    queue: string,
    kinds: readonly string[] | null,
    limit: number,
  ): Statement {
    const some = kinds === null ? '' : ' AND kind IN (?)'
    return [
      `SELECT ${readyColumns} ${ready}${some}${onward(...front)}
        ORDER BY sort_rank, sort_at, id LIMIT ? FOR UPDATE SKIP LOCKED`,
      [namespace, queue, namespace, queue, ...(kinds === null ? [] : [kinds]), limit],
    ]
  }

  async function anything(queues: readonly string[], kinds: readonly string[] | null): Promise<boolean> {
    const looks = [
      selectOverdue(store, queues, ['scheduled', 'running'], 1),
      ...queues.map((queue) => selectFront('id', queue, kinds, undefined, anyReady)),
    ]
    const rows = await store.calls.run('look for jobs', (call) =>
      call.rows(
        looks.map(([sql]) => `(${sql})`).join(' UNION ALL '),
        looks.flatMap(([, values]) => values),
      ),
    )
    return rows.length > 0
  }

  function claim(
    distinct: readonly string[],
    { kinds, workerId, limit, leaseMs }: ClaimRequest,
  ): Promise<Claimed> {
    const fronts = distinct.map(nameFront)
    const key = JSON.stringify([distinct, kinds])
    return store.calls.run('claim jobs', async (call) => {
      for (let sweep = 0; ; sweep++) {
        using search = positions.begin(key)
        const { from } = search
        const answers = await call.packet([
          begin,
          [
            `SET @signalbox_begun = SYSDATE(6)${fronts.map((front) => front.map((name) => `, ${name} = NULL`).join('')).join('')}`,
            [],
          ],
          // If the search starts at a remembered place (there are many dead entries), due and expired jobs wait up to a
          // second for the next search from the front. InnoDB reads past the end of a range as long as it finds dead
          // entries.
          from === undefined ? selectOverdue(store, distinct, ['scheduled', 'running'], sweepLimit) : noRows,
          ...distinct.map((queue, i) =>
            selectFront(`sort_rank, sort_at, id INTO ${fronts[i]!.join(', ')}`, queue, kinds, from),
          ),
          measured,
          selectCancels(store),
          selectLimited(store, distinct),
          ...distinct.map((queue, i) => selectReady(fronts[i]!, queue, kinds, limit)),
        ])
        const overdue = answers[2] as { id: string }[]
        const [[measure], cancelRows, limitedRows, ...found] = answers.slice(3 + distinct.length) as [
          [{ tookMs: number; now: number }],
          { id: string }[],
          { queue: string }[],
          ...ReadyRow[][],
        ]

        const named = limitedRows.map(({ queue }) => queue)
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
            // For the next search of this claim, and for other claims once they can see the jobs that became ready.
            positions.forget()
            store.calls.onCommit(() => positions.forget())
            continue
          }
        }
        const ordered = found.length === 1 ? found[0]! : found.flat().sort(byOrder)
        const stray = ordered.filter(({ id }) => cancels.has(id)).map(({ id }) => id)
        const chosen = ordered.filter(({ id }) => !cancels.has(id)).slice(0, limit)
        if (from !== undefined && (stray.length > 0 || chosen.length === 0)) {
          // Forget the remembered positions: there may be earlier jobs.
          positions.forget()
          await call.packet([commit])
          continue
        }
        const last = chosen.at(-1)
        const position = last && { rank: last.sort_rank, at: Number(last.run_at), id: last.id }
        if (from === undefined)
          search.record({ tookMs: Number(measure.tookMs), now: Number(measure.now), position })
        else if (position !== undefined) search.advance(position)

        if (chosen.length === 0) {
          await call.packet([...toCancelled(store, stray), commit])
          return { jobs: [], limited: named }
        }
        return { jobs: await handOut(store, call, chosen, { workerId, leaseMs, stray }), limited: named }
      }
    })
  }

  return { anything, claim }
}
