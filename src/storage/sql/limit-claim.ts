import type { ClaimRequest, QueueLimits } from '../../jobs/index.ts'
import { decodeLimits, LimitPlan, type LimitSight, maxKeys, wholeQueue } from './limit-plan.ts'
import { many, type Procedure, run } from './procedure.ts'
import { type Bound, statement } from './statement.ts'

/**
 * Chooses jobs of a queue with limits, in the transaction of a claim. The claim that has the queue's row is alone in it:
 *
 *     lock the row, count what runs, read the front ──▶ enough that may start? ──no──▶ look key by key ──▶ plan
 *
 * The front has the first ready jobs. Only when it is full of jobs that must wait does the claim read the first job of each key, and
 * then more jobs of those keys that matter. What fits is decided by `LimitPlan`. The engine then marks the chosen jobs as running,
 * and runs `starting` in the same transaction.
 */
export function* chooseLimited(
  ask: LimitedAsk,
  readHeads: ReadHeads = readHeadsAtOnce,
): Procedure<LimitChoice> {
  const { limit, kinds, ...of } = ask
  // Some more than can be taken: jobs that must wait are among them.
  const frontCount = limit + spareCount
  const [ruled, counted, front] = yield* run(
    lockRule(of),
    selectCounts(of),
    selectFront({ ...of, kinds: kinds ?? undefined, limit: frontCount }),
  )
  const [rule] = ruled!.rows as RuleRow[]
  const { running, starts, now } = counted!.rows[0] as CountRow
  const sight: Sight = {
    now: Number(now),
    limits: decodeLimits(rule?.limits) ?? noLimits,
    running: new Map(Object.entries(typeof running === 'string' ? JSON.parse(running) : (running ?? {}))),
    starts: new Map(starts === null ? [] : [[wholeQueue, starts]]),
  }
  const choice = { of, sight, isLimited: rule !== undefined, position: rule?.key_position ?? null }
  const room = Math.min(new LimitPlan(sight).room, limit)
  if (rule === undefined || room < 1) return new LimitChoice({ ...choice, chosen: [] }, choice.position)

  const inFront = toCandidates(front!.rows as CandidateRow[])
  // The front may be two lists, of jobs with a key and without: only so many of both together are sure to come first.
  const first = inFront.slice(0, frontCount)
  yield* learnStarts(of, sight, first)
  const chosen = new LimitPlan(sight).take(first, room)
  const isEnough = chosen.length === room || inFront.length < frontCount
  if (sight.limits.perKey === null || isEnough) return new LimitChoice({ ...choice, chosen }, choice.position)

  const { heads, position } = yield* findHeads(of, choice.position, readHeads)
  yield* learnStarts(of, sight, heads)
  const plan = new LimitPlan(sight)
  const { rows, known } = chooseKeys(heads, plan, room, kinds)
  const [keyless, ...keyed] = yield* run(
    selectKeyless({ ...of, kinds: kinds ?? undefined, limit: room }),
    ...(rows.length === 0 ? [] : [selectFirsts({ ...of, kinds: kinds ?? undefined, rows })]),
  )
  const found = [
    ...known,
    ...toCandidates([keyless!, ...keyed].flatMap((result) => result.rows as CandidateRow[])),
  ]
  const distinct = [...new Map(found.map((candidate) => [candidate.id, candidate])).values()].sort(byOrder)
  return new LimitChoice({ ...choice, chosen: plan.take(distinct, room) }, position)
}

export interface LimitedAsk extends Pick<ClaimRequest, 'kinds' | 'limit'>, QueueName {}

export interface QueueName {
  readonly namespace: string
  readonly queue: string
}

/** How many more jobs than it may take a claim looks at before it goes from key to key. */
const spareCount = 50
/** Of a row that cannot be read. */
const noLimits: QueueLimits = { concurrency: null, rate: null, perKey: null }

/** What was seen. The starts of keys are added as they are read. */
interface Sight extends LimitSight {
  readonly starts: Map<string, string>
}

/** A job that could start. */
export interface Candidate {
  readonly id: string
  readonly limitKey: string | null
  readonly priority: number
  readonly runAt: number
}

/** The order of claims. */
export function byOrder(a: Omit<Candidate, 'limitKey'>, b: Omit<Candidate, 'limitKey'>): number {
  return b.priority - a.priority || a.runAt - b.runAt || (a.id < b.id ? -1 : 1)
}

/** The jobs that a claim may start, and what is to be written when it starts them. */
export class LimitChoice {
  /** In the order of claims. */
  readonly ids: readonly string[]
  /** By the clock of the database, when what runs was counted: the jobs begin then. */
  readonly now: number
  /** False: the queue has no limits now, or is paused. */
  readonly isLimited: boolean
  /** Whether the next look goes on at another key, so that it may find something. */
  readonly isMoved: boolean
  readonly #seen: Seen
  readonly #position: string | null

  constructor(seen: Seen, position: string | null) {
    this.#seen = seen
    this.#position = position
    this.ids = seen.chosen.map(({ id }) => id)
    this.now = seen.sight.now
    this.isLimited = seen.isLimited
    this.isMoved = position !== seen.position
  }

  /** What to write if the claim has started these jobs; by default all of them. */
  starting(ids: ReadonlySet<string> = new Set(this.ids)): readonly Bound[] {
    const { of, sight, chosen } = this.#seen
    const statements = this.isMoved ? [setPosition({ ...of, position: this.#position })] : []
    const plan = new LimitPlan(sight)
    plan.take(
      chosen.filter(({ id }) => ids.has(id)),
      chosen.length,
    )
    const rows = [...plan.kept()].map(([key, starts]) => ({
      ...{ limit_key: key, starts },
      expires_at: countsUntil(key === wholeQueue ? sight.limits : sight.limits.perKey, sight.now),
    }))
    return rows.length === 0 ? statements : [...statements, forgetStarts(of), keepStarts({ ...of, rows })]
  }
}

interface Seen {
  readonly of: QueueName
  readonly sight: LimitSight
  readonly isLimited: boolean
  /** Behind which key this look went on. */
  readonly position: string | null
  readonly chosen: readonly Candidate[]
}

/** After that, starts of now count no more: a bucket ends at most a sixtieth of the span later. */
export function countsUntil(limit: QueueLimits['perKey'], now: number): number {
  const perMs = limit?.rate?.perMs ?? 0
  return now + perMs + Math.ceil(perMs / 60) + 1
}

/** Reads the starts of the candidates' keys, where keys have a rate. */
function* learnStarts(
  of: QueueName,
  { limits, starts }: Sight,
  candidates: readonly Candidate[],
): Procedure<void> {
  if (!limits.perKey?.rate) return
  const unknown = new Set(candidates.map(({ limitKey }) => limitKey))
  const keys = [...unknown].filter((key) => key !== null && !starts.has(key)) as string[]
  if (keys.length === 0) return
  const rows = yield* many<{ limit_key: string; starts: string }>(selectStarts({ ...of, keys }))
  for (const row of rows) starts.set(row.limit_key, row.starts)
}

/** The first job of a key. It may be of a kind that the claim does not ask for; the rest of its key comes later. */
interface Head extends Candidate {
  readonly limitKey: string
  readonly kind: string
}

interface Heads {
  /** By key. */
  readonly heads: readonly Head[]
  /** Behind which key the next look goes on; null: at the first. */
  readonly position: string | null
}

/** How an engine reads the first job of each key in a range of keys, in the order of keys. */
export type ReadHeads = (range: KeyRange) => Procedure<readonly HeadRow[]>

export interface KeyRange extends QueueName {
  readonly after: string
  readonly upTo?: string
  readonly limit: number
}

/** Reads them by one statement. */
export const readHeadsAtOnce: ReadHeads = (range) => many<HeadRow>(selectHeads(range))

/** The first jobs of up to `maxKeys` keys: behind a key, and round. */
function* findHeads(of: QueueName, position: string | null, read: ReadHeads): Procedure<Heads> {
  const limit = maxKeys + 1
  const heads = new Map<string, Head>()
  const add = (rows: readonly HeadRow[]) => {
    for (const row of rows) {
      const head = { ...toCandidate(row), limitKey: row.limit_key, kind: row.kind }
      const known = heads.get(head.limitKey)
      if (known === undefined || byOrder(head, known) < 0) heads.set(head.limitKey, head)
    }
  }
  add(yield* read({ ...of, after: position ?? '', limit }))
  if (position !== null && heads.size < limit)
    add(yield* read({ ...of, after: '', upTo: position, limit: limit - heads.size }))
  const first = [...heads.values()].slice(0, maxKeys)
  return { heads: first, position: heads.size > maxKeys ? first.at(-1)!.limitKey : null }
}

/**
 * The keys with free slots, and how many jobs of each may be among the best `room`. Only the `room` keys whose first jobs come first
 * can have such jobs. `known` are those of their jobs that need not be read again.
 */
function chooseKeys(heads: readonly Head[], plan: LimitPlan, room: number, kinds: readonly string[] | null) {
  const rows: { readonly limit_key: string; readonly wanted: number }[] = []
  const known: Candidate[] = []
  for (const head of heads.filter(({ limitKey }) => plan.roomOf(limitKey) > 0).sort(byOrder)) {
    if (known.length === room) break
    const wanted = Math.min(plan.roomOf(head.limitKey), room - known.length)
    const isWanted = kinds === null || kinds.includes(head.kind)
    if (isWanted) known.push(head)
    if (wanted > 1 || !isWanted) rows.push({ limit_key: head.limitKey, wanted })
  }
  return { rows, known }
}

const ofQueue = { namespace: 'text', queue: 'text' } as const
const isQueue = 'namespace = :namespace AND queue = :queue'

const lockRule = statement(
  'limit_rule',
  ofQueue,
  (d) => `
SELECT limits, key_position FROM @queue_control
WHERE ${isQueue} AND limits IS NOT NULL AND paused_at IS NULL ${d.forUpdate}`,
)

interface RuleRow {
  readonly limits: string
  readonly key_position: string | null
}

/**
 * A lease that ran out was taken back before this, unless its row is locked: then it counts. The time is read when what is counted
 * can be seen: jobs that are taken begin then, after those that count no more had ended.
 */
const selectCounts = statement(
  'limit_counts',
  ofQueue,
  (d) => `
SELECT (SELECT ${d.jsonObject('r.limit_key', 'r.running')} FROM (
    SELECT coalesce(q.limit_key, '') AS limit_key, count(*) AS running FROM ${d.jobs.limits.running}
    WHERE q.namespace = :namespace AND q.queue = :queue AND q.state = 'running' GROUP BY 1) r) AS running,
  (SELECT starts FROM @job_rate WHERE ${isQueue} AND limit_key = '') AS starts, ${d.now} AS now`,
)

interface CountRow {
  /** How many run, by key. In JSON, as rows by the thousand would cost this process more than the rest of a claim. */
  readonly running: string | Readonly<Record<string, number>> | null
  readonly starts: string | null
  readonly now: number | string
}

const page = { ...ofQueue, 'kinds?': 'text[]', limit: 'integer' } as const
const selectFront = statement('limit_front', page, (d) => d.jobs.limits.front)
const selectKeyless = statement('limit_keyless', page, (d) => d.jobs.limits.keyless)

const selectFirsts = statement(
  'limit_firsts',
  { ...ofQueue, 'kinds?': 'text[]', rows: { limit_key: 'text', wanted: 'integer' } },
  (d) => d.jobs.limits.firsts,
)

const selectHeads = statement(
  'limit_heads',
  { ...ofQueue, after: 'text', 'upTo?': 'text', limit: 'integer' },
  (d) => d.jobs.limits.heads,
)

interface CandidateRow {
  readonly id: string
  readonly limit_key: string | null
  readonly priority: number | string
  readonly run_at: number | string
}

function toCandidates(rows: readonly CandidateRow[]): Candidate[] {
  return rows.map(toCandidate).sort(byOrder)
}

function toCandidate({ id, limit_key: limitKey, priority, run_at: runAt }: CandidateRow): Candidate {
  return { id, limitKey, priority: Number(priority), runAt: Number(runAt) }
}

export interface HeadRow extends CandidateRow {
  readonly limit_key: string
  readonly kind: string
}

const selectStarts = statement(
  'limit_starts',
  { ...ofQueue, keys: 'text[]' },
  (d) => `
SELECT r.limit_key, r.starts ${d.byKeys({
    ...{ from: '@job_rate', alias: 'r', where: 'r.namespace = :namespace AND r.queue = :queue' },
    ...{ key: 'r.limit_key', keys: ':keys' },
  })}`,
)

const setPosition = statement(
  'limit_position',
  { ...ofQueue, position: 'text | null' },
  () => `UPDATE @queue_control SET key_position = :position WHERE ${isQueue}`,
)

/** Removes starts that count no more. */
const forgetStarts = statement('limit_forget_starts', ofQueue, (d) => d.jobs.limits.forgetStarts)

const keepStarts = statement(
  'limit_keep_starts',
  { ...ofQueue, rows: { limit_key: 'text', starts: 'text', expires_at: 'integer' } },
  (d) => {
    const { column, earlierMs } = d.jobs.limits.expiry
    return d.upsert({
      into: '@job_rate',
      columns: `namespace, queue, limit_key, starts, ${column}`,
      source: `SELECT :namespace, :queue, v.limit_key, v.starts, v.expires_at - ${earlierMs} FROM :rows WHERE 1 = 1`,
      key: 'namespace, queue, limit_key',
      set: { starts: 'new.starts', [column]: `new.${column}` },
    })
  },
)
