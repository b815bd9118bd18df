import type { ClaimRequest, QueueLimits } from '../../jobs/index.ts'
import { decodeLimits, LimitPlan, type LimitUsage, maxKeys, wholeQueue } from './limit-plan.ts'
import { many, type Procedure, run } from './procedure.ts'
import { type Bound, statement } from './statement.ts'

/**
 * Chooses jobs of a queue with limits, in the transaction of a claim. The claim locks the queue's row, so no other
 * claim chooses from this queue meanwhile:
 *
 *     lock the row, count what runs, read the front ──▶ enough that may start? ──no──▶ look key by key ──▶ plan
 *
 * The front holds the first ready jobs. If the front is full of jobs that must wait, the claim reads the first job of
 * each key, and then more jobs of those keys that matter. `LimitPlan` decides which jobs fit. The engine then marks the
 * chosen jobs as running and runs `starting` in the same transaction.
 */
export function* chooseLimited(
  ask: LimitedRequest,
  readHeads: ReadHeads = readHeadsAtOnce,
): Procedure<LimitChoice> {
  const { limit, kinds, ...of } = ask
  // Reads more jobs than the claim can take, because some of them must wait.
  const frontCount = limit + spareCount
  const [ruled, counted, front] = yield* run(
    lockRule(of),
    selectCounts(of),
    selectFront({ ...of, kinds: kinds ?? undefined, limit: frontCount }),
  )
  const [rule] = ruled!.rows as RuleRow[]
  const { running, starts, now } = counted!.rows[0] as CountRow
  const usage: ClaimUsage = {
    now: Number(now),
    limits: decodeLimits(rule?.limits) ?? noLimits,
    running: new Map(Object.entries(typeof running === 'string' ? JSON.parse(running) : (running ?? {}))),
    starts: new Map(starts === null ? [] : [[wholeQueue, starts]]),
  }
  const choice = { of, usage, isLimited: rule !== undefined, position: rule?.key_position ?? null }
  const capacity = Math.min(new LimitPlan(usage).capacity, limit)
  if (rule === undefined || capacity < 1) return new LimitChoice({ ...choice, chosen: [] }, choice.position)

  const inFront = toCandidates(front!.rows as CandidateRow[])
  // The front may be two lists: jobs with a key and jobs without. Only the first `frontCount` of both are sure to be
  // next.
  const first = inFront.slice(0, frontCount)
  yield* learnStarts(of, usage, first)
  const chosen = new LimitPlan(usage).take(first, capacity)
  const isEnough = chosen.length === capacity || inFront.length < frontCount
  if (usage.limits.perKey === null || isEnough) return new LimitChoice({ ...choice, chosen }, choice.position)

  const { heads, position } = yield* findHeads(of, choice.position, readHeads)
  yield* learnStarts(of, usage, heads)
  const plan = new LimitPlan(usage)
  const { rows, known } = chooseKeys(heads, plan, capacity, kinds)
  const [keyless, ...keyed] = yield* run(
    selectKeyless({ ...of, kinds: kinds ?? undefined, limit: capacity }),
    ...(rows.length === 0 ? [] : [selectFirsts({ ...of, kinds: kinds ?? undefined, rows })]),
  )
  const found = [
    ...known,
    ...toCandidates([keyless!, ...keyed].flatMap((result) => result.rows as CandidateRow[])),
  ]
  const distinct = [...new Map(found.map((candidate) => [candidate.id, candidate])).values()].sort(byOrder)
  return new LimitChoice({ ...choice, chosen: plan.take(distinct, capacity) }, position)
}

export interface LimitedRequest extends Pick<ClaimRequest, 'kinds' | 'limit'>, QueueName {}

export interface QueueName {
  readonly namespace: string
  readonly queue: string
}

/** The number of extra jobs that a claim reads before it looks key by key. */
const spareCount = 50
/** Used when the stored limits cannot be read. */
const noLimits: QueueLimits = { concurrency: null, rate: null, perKey: null }

/** What the claim read. It adds the starts of keys as it reads them. */
interface ClaimUsage extends LimitUsage {
  readonly starts: Map<string, string>
}

/** A ready job that the limits may allow to start. */
export interface Candidate {
  readonly id: string
  readonly limitKey: string | null
  readonly priority: number
  readonly runAt: number
}

/** Compares candidates in the order of claims. */
export function byOrder(a: Omit<Candidate, 'limitKey'>, b: Omit<Candidate, 'limitKey'>): number {
  return b.priority - a.priority || a.runAt - b.runAt || (a.id < b.id ? -1 : 1)
}

/** The jobs that a claim may start, and the statements to run when it starts them. */
export class LimitChoice {
  /** In the order of claims. */
  readonly ids: readonly string[]
  /** The database's clock when the claim counted the running jobs. The chosen jobs start at this time. */
  readonly now: number
  /** False: the queue has no limits now, or is paused. */
  readonly isLimited: boolean
  /** Whether the next claim continues at another key and may find more there. */
  readonly isMoved: boolean
  readonly #input: ClaimInput
  readonly #position: string | null

  constructor(input: ClaimInput, position: string | null) {
    this.#input = input
    this.#position = position
    this.ids = input.chosen.map(({ id }) => id)
    this.now = input.usage.now
    this.isLimited = input.isLimited
    this.isMoved = position !== input.position
  }

  /** The statements to run after the claim started these jobs; by default all of them. */
  starting(ids: ReadonlySet<string> = new Set(this.ids)): readonly Bound[] {
    const { of, usage, chosen } = this.#input
    const statements = this.isMoved ? [setPosition({ ...of, position: this.#position })] : []
    const plan = new LimitPlan(usage)
    plan.take(
      chosen.filter(({ id }) => ids.has(id)),
      chosen.length,
    )
    const rows = [...plan.kept()].map(([key, starts]) => ({
      ...{ limit_key: key, starts },
      expires_at: countsUntil(key === wholeQueue ? usage.limits : usage.limits.perKey, usage.now),
    }))
    return rows.length === 0 ? statements : [...statements, forgetStarts(of), keepStarts({ ...of, rows })]
  }
}

interface ClaimInput {
  readonly of: QueueName
  readonly usage: LimitUsage
  readonly isLimited: boolean
  /** The key after which this claim continued. */
  readonly position: string | null
  readonly chosen: readonly Candidate[]
}

/** Starts that happen now stop counting at this time: a bucket ends at most a sixtieth of the span later. */
export function countsUntil(limit: QueueLimits['perKey'], now: number): number {
  const perMs = limit?.rate?.perMs ?? 0
  return now + perMs + Math.ceil(perMs / 60) + 1
}

/** Reads the starts of the candidates' keys, if keys have a rate. */
function* learnStarts(
  of: QueueName,
  { limits, starts }: ClaimUsage,
  candidates: readonly Candidate[],
): Procedure<void> {
  if (!limits.perKey?.rate) return
  const unknown = new Set(candidates.map(({ limitKey }) => limitKey))
  const keys = [...unknown].filter((key) => key !== null && !starts.has(key)) as string[]
  if (keys.length === 0) return
  const rows = yield* many<{ limit_key: string; starts: string }>(selectStarts({ ...of, keys }))
  for (const row of rows) starts.set(row.limit_key, row.starts)
}

/**
 * The first job of a key. It may be of a kind that the claim does not take; the claim reads the rest of its key later.
 */
interface Head extends Candidate {
  readonly limitKey: string
  readonly kind: string
}

interface Heads {
  /** In the order of keys. */
  readonly heads: readonly Head[]
  /** The key after which the next claim continues. Null: it begins with the first key. */
  readonly position: string | null
}

/** Reads the first job of each key in a range, in the order of keys. Engines differ in how they do it. */
export type ReadHeads = (range: KeyRange) => Procedure<readonly HeadRow[]>

export interface KeyRange extends QueueName {
  readonly after: string
  readonly upTo?: string
  readonly limit: number
}

/** Reads the first jobs with one statement. */
export const readHeadsAtOnce: ReadHeads = (range) => many<HeadRow>(selectHeads(range))

/** The first jobs of up to `maxKeys` keys: those after `position`, then from the first key again. */
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
 * Chooses the keys with free slots, and how many jobs of each key may be among the best `capacity` jobs. Only the
 * `capacity` keys whose first jobs come first can have such jobs. `known` are their jobs that need not be read again.
 */
function chooseKeys(
  heads: readonly Head[],
  plan: LimitPlan,
  capacity: number,
  kinds: readonly string[] | null,
) {
  const rows: { readonly limit_key: string; readonly wanted: number }[] = []
  const known: Candidate[] = []
  for (const head of heads.filter(({ limitKey }) => plan.capacityOf(limitKey) > 0).sort(byOrder)) {
    if (known.length === capacity) break
    const wanted = Math.min(plan.capacityOf(head.limitKey), capacity - known.length)
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
 * The claim has already taken back expired jobs, except those whose row is locked: these still count. The statement
 * reads the clock with the rows: chosen jobs start at that time, after all jobs and starts that it no longer counts
 * have ended.
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
  /**
   * The number of running jobs by key, as JSON: thousands of rows would cost this process more than the rest of a
   * claim.
   */
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

/** Deletes starts that no longer count. */
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
