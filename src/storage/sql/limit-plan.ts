import type { Limit, QueueLimits, Rate } from '../../jobs/index.ts'

/**
 * The capacity that the limits of a queue leave: the arithmetic that the engines share. An engine reads what runs now and
 * what started lately, and claims, while no other claim can take jobs from that queue. This plan decides which jobs fit.
 *
 * Starts are counted in buckets of a sixtieth of the rate's span, each written down by its end. A start counts until its
 * bucket's end is a whole span ago, so no span of that length ever has more starts than allowed, wherever it begins; a
 * start may come a sixtieth late.
 */

/** The key of what is counted for the whole queue; no job's key is empty. */
export const wholeQueue = ''

/** The most keys that one claim looks at. */
export const maxKeys = 1_000

/** What an engine saw. */
export interface LimitSight {
  readonly now: number
  readonly limits: QueueLimits
  /** How many run, by key; those without one under `wholeQueue`. */
  readonly running: ReadonlyMap<string, number>
  /** The recorded starts, by key; those of the queue as a whole under `wholeQueue`. */
  readonly starts: ReadonlyMap<string, string>
}

export interface Candidate {
  /** Null: it has none. */
  readonly limitKey: string | null
}

export class LimitPlan {
  readonly #sight: LimitSight
  #room: number
  readonly #rooms = new Map<string, number>()
  readonly #taken = new Map<string, number>()

  constructor(sight: LimitSight) {
    this.#sight = sight
    const running = [...sight.running.values()].reduce((sum, count) => sum + count, 0)
    this.#room = roomLeft(sight.limits, running, sight.starts.get(wholeQueue), sight.now)
  }

  /** How many more of the whole queue may start. */
  get room(): number {
    return this.#room
  }

  /** How many more of one key may start, as far as the key is concerned. */
  roomOf(limitKey: string | null): number {
    const { limits, running, starts, now } = this.#sight
    if (limitKey === null || limits.perKey === null) return Number.POSITIVE_INFINITY
    let room = this.#rooms.get(limitKey)
    if (room === undefined) {
      room = roomLeft(limits.perKey, running.get(limitKey) ?? 0, starts.get(limitKey), now)
      this.#rooms.set(limitKey, room)
    }
    return room
  }

  /** Of candidates in the order of claims, the first that there is room for, up to `limit`. */
  take<One extends Candidate>(candidates: readonly One[], limit: number): readonly One[] {
    const taken: One[] = []
    for (const candidate of candidates) {
      if (taken.length >= limit || this.#room < 1) break
      const { limitKey } = candidate
      const room = this.roomOf(limitKey)
      if (room < 1) continue
      taken.push(candidate)
      this.#room -= 1
      this.#count(wholeQueue)
      if (limitKey === null || this.#sight.limits.perKey === null) continue
      this.#rooms.set(limitKey, room - 1)
      this.#count(limitKey)
    }
    return taken
  }

  /** What is to be kept of the starts, by key, now that these were taken; only what has changed. */
  kept(): ReadonlyMap<string, string> {
    const { limits, starts, now } = this.#sight
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

function roomLeft(
  { concurrency, rate }: Limit,
  running: number,
  starts: string | undefined,
  now: number,
): number {
  const slots = concurrency === null ? Number.POSITIVE_INFINITY : concurrency - running
  const tokens = rate === null ? Number.POSITIVE_INFINITY : rate.count - countStarts(starts, rate, now)
  return Math.max(0, Math.min(slots, tokens))
}

/** The end of a bucket, and how many started in it. */
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

/** What was written by hand, or damaged, counts for nothing. */
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
