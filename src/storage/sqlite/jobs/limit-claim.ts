import type { ClaimRequest } from '../../../jobs/index.ts'
import { LimitPlan, limitKeyOf, maxKeys, wholeQueue } from '../../sql/limit-plan.ts'
import type { Connection } from '../connection/connection.ts'
import type { LimitedQueue } from './queue-control.ts'
import { byPriorityThenAge, chooseReady, type ReadyRow, readyColumns } from './ready-order.ts'

/**
 * Chooses from a queue with limits. Leases count the running jobs; the recorded starts count the rate. SQLite has one
 * writer, so no other claim comes between the check and the mark.
 */
export interface LimitedChoice {
  readonly rows: readonly ReadyRow[]
  /** What is to be kept of the starts, by key. */
  readonly starts: ReadonlyMap<string, string>
  /** Behind which key the next look goes on; null: it begins at the first. */
  readonly keyPlace: string | null
}

export function chooseLimited(
  connection: Connection,
  namespace: string,
  control: LimitedQueue,
  { kinds, limit }: Pick<ClaimRequest, 'kinds' | 'limit'>,
  now: number,
): LimitedChoice {
  const { queue, limits } = control
  const starts = new Map<string, string>()
  const readStarts = (keys: readonly string[]) => {
    for (const row of findStarts(connection, namespace, queue, keys)) starts.set(row.limit_key, row.starts)
  }
  if (limits.rate !== null) readStarts([wholeQueue])
  const sight = { now, limits, running: countRunning(connection, namespace, queue, now), starts }
  const room = Math.min(limit, new LimitPlan(sight).room)
  if (room < 1) return { rows: [], starts: new Map(), keyPlace: control.keyPlace }
  const choose = (keyed: readonly boolean[], count: number) =>
    chooseReady(connection, namespace, { queues: [queue], kinds, keyed, limit: count }).map((row) => ({
      row,
      limitKey: limits.perKey === null ? null : limitKeyOf(row[metaAt]),
    }))
  const readRates = (keys: readonly (string | null)[]) => {
    if (limits.perKey?.rate) readStarts([...new Set(keys.filter((key) => key !== null))])
  }
  const take = (candidates: readonly Candidate[], keyPlace: string | null): LimitedChoice => {
    const plan = new LimitPlan(sight)
    const rows = plan.take(candidates, room).map(({ row }) => row)
    return { rows, starts: plan.kept(), keyPlace }
  }

  // The front of the queue usually suffices: every job in it comes before all later ones.
  const count = limits.perKey === null ? room : room + spareCount
  const front = choose([false, true], count)
  readRates(front.map(({ limitKey }) => limitKey))
  const choice = take(front, control.keyPlace)
  if (choice.rows.length === room || front.length < count) return choice

  const { heads, keyPlace } = findHeads(connection, namespace, control)
  readRates(heads.map(({ limitKey }) => limitKey))
  const wanted = kinds === null ? heads : heads.filter(({ kind }) => kinds.includes(kind))
  const plan = new LimitPlan(sight)
  const keyed = linesThatMatter(wanted, plan, room).flatMap(({ limitKey, kind }) =>
    findFirst(connection, namespace, { queue, limitKey, kind, limit: Math.min(plan.roomOf(limitKey), room) }),
  )
  const candidates = [...keyed, ...choose([false], room)]
  return take(
    candidates.sort((a, b) => byPriorityThenAge(a.row, b.row)),
    keyPlace,
  )
}

interface Candidate {
  readonly row: ReadyRow
  readonly limitKey: string | null
}

/** How many more jobs than it may take a claim looks at, before it goes from key to key. */
const spareCount = 50
/** Where the words about a job stand in a row. */
const metaAt = 16

/** Writes down what was started, over what was kept; and forgets what counts for nothing any more. */
export function keepStarts(
  connection: Connection,
  namespace: string,
  { queue, limits }: LimitedQueue,
  starts: ReadonlyMap<string, string>,
  now: number,
): void {
  if (starts.size === 0) return
  for (const [key, kept] of starts) {
    const { perMs } = (key === wholeQueue ? limits.rate : limits.perKey!.rate)!
    connection.run(
      `INSERT OR REPLACE INTO job_rate (namespace, queue, limit_key, expires_at, starts)
       VALUES (?1, ?2, ?3, ?4, ?5)`,
      namespace,
      queue,
      key,
      // The bucket's end is less than a span away, and counts for one more.
      now + 2 * perMs,
      kept,
    )
  }
  const sql = 'DELETE FROM job_rate WHERE namespace = ?1 AND queue = ?2 AND expires_at <= ?3'
  connection.run(sql, namespace, queue, now)
}

function countRunning(
  connection: Connection,
  namespace: string,
  queue: string,
  now: number,
): ReadonlyMap<string, number> {
  const rows = connection.all<{ limit_key: string | null; count: number }>(
    `SELECT limit_key, count(*) AS count FROM job_queue INDEXED BY job_queue_running
     WHERE namespace = ?1 AND state = 'running' AND lease_ends_at > ?3 AND queue = ?2 GROUP BY limit_key`,
    namespace,
    queue,
    now,
  )
  return new Map(rows.map(({ limit_key: key, count }) => [key ?? wholeQueue, count]))
}

function findStarts(connection: Connection, namespace: string, queue: string, keys: readonly string[]) {
  return connection.all<{ limit_key: string; starts: string }>(
    `SELECT limit_key, starts FROM job_rate
     WHERE namespace = ?1 AND queue = ?2 AND limit_key IN (SELECT value FROM json_each(?3))`,
    namespace,
    queue,
    JSON.stringify(keys),
  )
}

/** The first job of a key and kind. */
interface Head {
  readonly limitKey: string
  readonly kind: string
  readonly place: readonly [priority: number, runAt: number, id: string]
}

/** The first jobs of up to `maxKeys` keys, by leaping along the index: behind the remembered key, and round. */
function findHeads(
  connection: Connection,
  namespace: string,
  { queue, keyPlace }: LimitedQueue,
): { readonly heads: readonly Head[]; readonly keyPlace: string | null } {
  const heads: Head[] = []
  const keys = new Set<string>()
  const ranges =
    keyPlace === null
      ? [['', null] as const]
      : ([
          [keyPlace, null],
          ['', keyPlace],
        ] as const)
  const last = connection.get<{ kind: string | null }>(lastKind, namespace, queue)?.kind
  for (const [from, upTo] of ranges) {
    let next = findHead(connection, namespace, queue, from)
    while (next !== undefined && (upTo === null || !isBehind(next.limitKey, upTo))) {
      if (!keys.has(next.limitKey) && keys.size === maxKeys)
        return { heads, keyPlace: heads.at(-1)!.limitKey }
      keys.add(next.limitKey)
      heads.push(next)
      // Mostly there is one kind, and no other to look for.
      const kind = next.kind === last ? undefined : next.kind
      next = findHead(connection, namespace, queue, next.limitKey, kind)
    }
  }
  return { heads, keyPlace: null }
}

const lastKind = `SELECT max(kind) AS kind FROM job_queue INDEXED BY job_queue_keyed
   WHERE namespace = ?1 AND queue = ?2 AND state = 'ready' AND limit_key IS NOT NULL`

/** As SQLite orders text. */
function isBehind(key: string, other: string): boolean {
  return Buffer.compare(Buffer.from(key), Buffer.from(other)) > 0
}

/** The first job of the first key behind this one; with a kind, of the next kind of this key, if there is one. */
function findHead(
  connection: Connection,
  namespace: string,
  queue: string,
  afterKey: string,
  afterKind?: string,
): Head | undefined {
  // Two looks: asked for the next pair of key and kind, SQLite would walk through all jobs of this pair.
  const ofKind =
    afterKind === undefined
      ? []
      : connection.rows<HeadRow>(headOfNextKind, namespace, queue, afterKey, afterKind)
  const [row] =
    ofKind.length > 0 ? ofKind : connection.rows<HeadRow>(headOfNextKey, namespace, queue, afterKey)
  if (!row) return undefined
  const [limitKey, kind, ...place] = row
  return { limitKey, kind, place }
}

type HeadRow = readonly [limitKey: string, kind: string, priority: number, runAt: number, id: string]

const headBehind = (place: string) =>
  `SELECT limit_key, kind, priority, run_at, id FROM job_queue INDEXED BY job_queue_limited
   WHERE namespace = ?1 AND queue = ?2 AND ${place} AND state = 'ready' AND limit_key IS NOT NULL
   ORDER BY limit_key, kind, priority DESC, run_at, id LIMIT 1`
const headOfNextKey = headBehind('limit_key > ?3')
const headOfNextKind = headBehind('limit_key = ?3 AND kind > ?4')

/**
 * The lines in which the best `room` jobs stand. In order of their first jobs, each line whose key has room for one more
 * line gives at least one; once there are enough of those, whatever stands in later lines comes after all of them.
 */
function linesThatMatter(heads: readonly Head[], plan: LimitPlan, room: number): readonly Head[] {
  const lines: Head[] = []
  const lineCounts = new Map<string, number>()
  let certain = 0
  for (const head of heads.toSorted((a, b) => byPriorityThenAge(a.place, b.place))) {
    if (certain >= room) break
    const count = lineCounts.get(head.limitKey) ?? 0
    const keyRoom = plan.roomOf(head.limitKey)
    if (keyRoom < 1) continue
    lines.push(head)
    lineCounts.set(head.limitKey, count + 1)
    if (count < keyRoom) certain++
  }
  return lines
}

/** The first jobs of one key and kind, in order. */
function findFirst(
  connection: Connection,
  namespace: string,
  { queue, limitKey, kind, limit }: Omit<Head, 'place'> & { readonly queue: string; readonly limit: number },
): readonly Candidate[] {
  const rows = connection.rows<ReadyRow>(
    `SELECT ${readyColumns} FROM job_queue INDEXED BY job_queue_limited
     WHERE namespace = ?1 AND queue = ?2 AND limit_key = ?3 AND kind = ?4 AND state = 'ready'
       AND limit_key IS NOT NULL
     ORDER BY priority DESC, run_at, id LIMIT ?5 + 0`,
    namespace,
    queue,
    limitKey,
    kind,
    limit,
  )
  return rows.map((row) => ({ row, limitKey }))
}
