import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectStore } from '../store-connection.ts'

/** What came of one case. */
export interface BenchLine {
  readonly name: string
  /** What is counted, for people. */
  readonly what: string
  readonly count: number
  readonly perSecond: number
  /** How long one took, of the middle one and of the slowest hundredth; null where many are done together. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** How many this database could do at the most, if nothing but its commits took time; null where that says nothing. */
  readonly rawPerSecond: number | null
}

/** What a case is measured with. */
export interface Bench {
  /** How long a case takes. */
  readonly caseMs: number
  readonly signal: AbortSignal
  /** Called now and then, with what is being done. */
  readonly tick: (what: string) => void
}

export interface Measured {
  /** How many were counted, after the warming up. */
  readonly count: number
  /** How many there were in all. */
  readonly turns: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface RepeatOptions {
  readonly name: string
  /** How many run at once. @default 1 */
  readonly width?: number
  /** The most turns. @default any number */
  readonly most?: number
  /** The longest random pause before each. @default none */
  readonly pauseMs?: number
}

/** Repeats `turn` for the time of a case. The first tenth of the time warms up and is not counted. */
export async function repeat(
  { caseMs, signal, tick }: Bench,
  { name, width = 1, most = Number.POSITIVE_INFINITY, pauseMs = 0 }: RepeatOptions,
  turn: (number: number) => Promise<unknown>,
): Promise<Measured> {
  const took: number[] = []
  let begun = 0
  const startedAt = performance.now()
  const countFrom = startedAt + caseMs / 10
  const endsAt = startedAt + caseMs
  let firstAt = 0
  let lastAt = 0
  const lane = async (): Promise<void> => {
    // However slow it is, one is counted.
    while (begun < most && (performance.now() < endsAt || took.length === 0)) {
      signal.throwIfAborted()
      const number = begun++
      if (pauseMs > 0) await sleep(Math.random() * pauseMs)
      const from = performance.now()
      await turn(number)
      const at = performance.now()
      tick(name)
      if (from < countFrom && begun < most) continue
      firstAt ||= from
      lastAt = at
      took.push(at - from)
    }
  }
  await Promise.all(Array.from({ length: width }, lane))
  return {
    count: took.length,
    turns: begun,
    perSecond: took.length === 0 ? 0 : (took.length / Math.max(0.001, lastAt - firstAt)) * 1_000,
    p50Ms: percentile(took, 0.5),
    p99Ms: percentile(took, 0.99),
  }
}

/** The part of a measurement that is shown. */
export function lineOf(
  name: string,
  what: string,
  { count, perSecond, p50Ms, p99Ms }: Omit<Measured, 'turns'>,
  rawPerSecond: number | null = null,
): BenchLine {
  return { name, what, count, perSecond, p50Ms, p99Ms, rawPerSecond }
}

/** The value that this part of them does not exceed. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0
}

/**
 * The raw rate of a database: it writes and commits one row after the other. The table for it is created and dropped here, so
 * it needs the right to create tables.
 */
export interface Raw {
  readonly commitsPerSecond: number
}

export async function measureRaw(bench: Bench, database: string): Promise<Raw> {
  await using connection = await connectStore(database)
  const table = `signalbox_bench_${randomBytes(6).toString('hex')}`
  await connection.query(`CREATE TABLE ${table} (id BIGINT PRIMARY KEY, payload VARCHAR(200) NOT NULL)`)
  try {
    const insert = `INSERT INTO ${table} VALUES ${connection.twoValues}`
    const payload = JSON.stringify({ to: 'ada@example.org', subject: 'one row' })
    const { perSecond } = await repeat(bench, { name: 'raw commits' }, (number) =>
      connection.query(insert, [number, payload]),
    )
    return { commitsPerSecond: perSecond }
  } finally {
    await connection.query(`DROP TABLE ${table}`)
  }
}
