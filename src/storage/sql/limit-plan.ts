import type { Limit, QueueLimits, Rate } from '../../jobs/index.ts'

/**
 * Computes how many jobs the limits of a queue still allow. The engines share this arithmetic. The engine reads which
 * jobs run now and which started lately, and claims, while no other claim can take jobs from that queue. The plan
 * decides which jobs fit.
 *
 * Starts are counted in buckets of a sixtieth of the rate's span, each stored with its end time. A start counts until
 * its bucket ended a whole span ago. So no period of that length ever has more starts than allowed, wherever it begins.
 * In return a start may be delayed by up to a sixtieth of the span.
 */

/** The key under which the whole queue is counted. No job's key is empty. */
export const wholeQueue = ''

/** The maximum number of keys that one claim reads. */
export const maxKeys = 1_000

/** What the engine read. */
export interface LimitUsage {
  readonly now: number
  readonly limits: QueueLimits
  /** The number of running jobs by key. Jobs without a key count under `wholeQueue`. */
  readonly running: ReadonlyMap<string, number>
  /** The recorded starts by key. Those of the whole queue are under `wholeQueue`. */
  readonly starts: ReadonlyMap<string, string>
}

export interface Candidate {
  /** Null: the job has no key. */
  readonly limitKey: string | null
}

export class LimitPlan {
  readonly #usage: LimitUsage
  #capacity: number
  readonly #capacities = new Map<string, number>()
  readonly #taken = new Map<string, number>()

  constructor(usage: LimitUsage) {
    this.#usage = usage
    const running = [...usage.running.values()].reduce((sum, count) => sum + count, 0)
    this.#capacity = capacityLeft(usage.limits, running, usage.starts.get(wholeQueue), usage.now)
  }

  /** The number of jobs that the limits of the whole queue still allow. */
  get capacity(): number {
    return this.#capacity
  }

  /** The number of jobs that the limits of one key still allow. */
  capacityOf(limitKey: string | null): number {
    const { limits, running, starts, now } = this.#usage
    if (limitKey === null || limits.perKey === null) return Number.POSITIVE_INFINITY
    let capacity = this.#capacities.get(limitKey)
    if (capacity === undefined) {
      capacity = capacityLeft(limits.perKey, running.get(limitKey) ?? 0, starts.get(limitKey), now)
      this.#capacities.set(limitKey, capacity)
    }
    return capacity
  }

  /** Takes the first candidates that fit, up to `limit`. The candidates are in the order of claims. */
  take<One extends Candidate>(candidates: readonly One[], limit: number): readonly One[] {
    const taken: One[] = []
    for (const candidate of candidates) {
      if (taken.length >= limit || this.#capacity < 1) break
      const { limitKey } = candidate
      const capacity = this.capacityOf(limitKey)
      if (capacity < 1) continue
      taken.push(candidate)
      this.#capacity -= 1
      this.#count(wholeQueue)
      if (limitKey === null || this.#usage.limits.perKey === null) continue
      this.#capacities.set(limitKey, capacity - 1)
      this.#count(limitKey)
    }
    return taken
  }

  /** The starts to store, by key, after the candidates were taken. Contains only what changed. */
  kept(): ReadonlyMap<string, string> {
    const { limits, starts, now } = this.#usage
    const kept = new Map<string, string>()
    for (const [key, count] of this.#taken) {
      const rate = key === wholeQueue ? limits.rate : limits.perKey!.rate
      if (rate !== null) kept.set(key, addStarts(starts.get(key), rate, count, now))
    }
    return kept
  }

  #count(key: string): void {
    this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1)
  }
}

function capacityLeft(
  { concurrency, rate }: Limit,
  running: number,
  starts: string | undefined,
  now: number,
): number {
  const slots = concurrency === null ? Number.POSITIVE_INFINITY : concurrency - running
  const tokens = rate === null ? Number.POSITIVE_INFINITY : rate.count - countStarts(starts, rate, now)
  return Math.max(0, Math.min(slots, tokens))
}

/** The end of a bucket, and the number of starts in it. */
type Bucket = readonly [endsAt: number, count: number]

function countStarts(kept: string | undefined, { perMs }: Rate, now: number): number {
  return decodeStarts(kept).reduce((sum, [endsAt, count]) => (endsAt + perMs > now ? sum + count : sum), 0)
}

function addStarts(kept: string | undefined, { perMs }: Rate, count: number, now: number): string {
  const width = Math.max(1, Math.floor(perMs / 60))
  const endsAt = Math.ceil((now + 1) / width) * width
  const live = decodeStarts(kept).filter(([end]) => end + perMs > now)
  const last = live.at(-1)
  const buckets: readonly Bucket[] =
    last !== undefined && last[0] >= endsAt
      ? [...live.slice(0, -1), [last[0], last[1] + count]]
      : [...live, [endsAt, count]]
  return JSON.stringify(buckets)
}

/** Ignores text that was damaged or written by hand. */
function decodeStarts(kept: string | undefined): readonly Bucket[] {
  if (kept === undefined) return []
  try {
    const buckets: unknown = JSON.parse(kept)
    return Array.isArray(buckets) ? buckets.filter(isBucket) : []
  } catch {
    return []
  }
}

function isBucket(value: unknown): value is Bucket {
  return Array.isArray(value) && Number.isFinite(value[0]) && Number.isFinite(value[1])
}

/** Decodes the stored limits of a queue; undefined if there are none or they cannot be decoded. */
export function decodeLimits(kept: string | null | undefined): QueueLimits | undefined {
  if (kept === null || kept === undefined) return undefined
  try {
    const { concurrency = null, rate = null, perKey = null } = JSON.parse(kept) as Partial<QueueLimits>
    return { concurrency, rate, perKey }
  } catch {
    return undefined
  }
}

/**
 * The key by which the queue's limits count a job: `limitKey` of the job's meta. If the meta cannot be decoded, or the key
 * is empty or not a text, the job has no key.
 */
export function limitKeyOf(meta: string | null): string | null {
  if (meta === null) return null
  try {
    const { limitKey } = JSON.parse(meta) as { readonly limitKey?: unknown }
    return typeof limitKey === 'string' && limitKey !== '' ? limitKey : null
  } catch {
    return null
  }
}
