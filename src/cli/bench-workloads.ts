import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Box } from '../index.ts'
import type { HandlerJob } from '../jobs/index.ts'
import { type LocksOptions, resolveLocksOptions } from '../locks/index.ts'
import { connectStore } from './store-connection.ts'

const kind = 'bench'
const batch = 500
const payload = { to: 'ada@example.org', subject: 'one job' }

/**
 * Jobs: added one by one, many at once and in batches; run; in transactions; and the delay before a worker starts one.
 */
async function benchJobs(bench: Bench, box: Box, raw: Raw | undefined): Promise<readonly BenchLine[]> {
  const add = () => box.jobs.add(kind, payload)
  const addBatch = (count: number) =>
    box.jobs.addMany(Array.from({ length: count }, () => ({ kind, payload })))
  // Limited, because a worker must run all of them afterwards.
  const one = await repeat(bench, { name: 'add', most: 5_000 }, add)
  const fifty = await repeat(bench, { name: 'add, 50 at once', width: 50, most: 10_000 }, add)
  const many = await repeat(bench, { name: `addMany of ${batch}`, most: 40 }, () => addBatch(batch))
  const total = one.turns + fifty.turns + many.turns * batch
  const drained = await drain(bench, box, 'drain', total, 100, async () => undefined)
  const more = Math.min(2_000, Math.max(50, Math.round((drained * bench.caseMs) / 4_000)))
  await addBatch(more)
  const transacted = await drain(bench, box, 'transaction', more, 10, (job) =>
    job.transaction(async (tx) => {
      await tx.query('SELECT 1')
    }),
  )
  const picked = await pickUp(bench, box)
  const together = { p50Ms: null, p99Ms: null, rawPerSecond: null }
  return [
    lineOf('add', 'jobs added, one after the other', one, raw?.commitsPerSecond),
    lineOf('add, 50 at once', 'jobs added', fifty),
    {
      ...{ name: `addMany of ${batch}`, what: 'jobs added', ...together },
      ...{ count: many.count * batch, perSecond: many.perSecond * batch },
    },
    {
      ...{ name: 'drain', what: 'jobs done by a worker, 100 at once', ...together },
      ...{ count: total, perSecond: drained },
    },
    {
      ...{ name: 'transaction', what: 'jobs done in job.transaction, 10 at once', ...together },
      ...{ count: more, perSecond: transacted },
    },
    lineOf('pick-up', 'from add to its handler, with an idle worker', picked),
  ]
}

type Handler = (job: HandlerJob) => Promise<unknown>

/** Runs all `total` jobs. Returns the number per second. */
async function drain(
  { signal, tick }: Bench,
  box: Box,
  name: string,
  total: number,
  concurrency: number,
  handler: Handler,
): Promise<number> {
  const all = Promise.withResolvers<void>()
  let count = 0
  const worker = box.jobs.worker({ concurrency, handlers: { [kind]: handler } })
  worker.on('completed', () => {
    tick(name)
    if (++count >= total) all.resolve()
  })
  worker.on('failed', ({ error }) => all.reject(error))
  const stop = () => all.reject(signal.reason)
  signal.addEventListener('abort', stop)
  const startedAt = performance.now()
  try {
    await worker.start()
    await all.promise
    return (count / (performance.now() - startedAt)) * 1_000
  } finally {
    signal.removeEventListener('abort', stop)
    await worker.stop()
  }
}

/** An idle worker in the same process, like that of a web server that runs its own jobs. */
async function pickUp(bench: Bench, box: Box): Promise<Measured> {
  let entered = Promise.withResolvers<number>()
  await using worker = box.jobs.worker({
    handlers: { [kind]: async () => entered.resolve(performance.now()) },
  })
  await worker.start()
  return await repeat(bench, { name: 'pick-up', pauseMs: 20 }, async () => {
    entered = Promise.withResolvers<number>()
    await box.jobs.add(kind, payload)
    await entered.promise
  })
}

/** Deletes every job of the namespace. */
async function forgetJobs(box: Box): Promise<void> {
  for (;;) {
    const { items } = await box.jobs.list({ state: 'ready', limit: 500 })
    if (items.length === 0) break
    await Promise.all(items.map(({ id }) => box.jobs.cancel(id)))
  }
  await box.jobs.prune({ olderThanMs: 0 })
}

const operation = 'bench'

/** The bench never reads the outcomes of locks, so they are kept only shortly. */
export const benchLocksOptions: LocksOptions = { keepMs: 100 }

/** Locks: one without other waiters, many resources at once, and one that ten wait for. */
async function benchLocks(bench: Bench, box: Box, raw: Raw | undefined): Promise<readonly BenchLine[]> {
  const turn = async (resource: string, node: string) => {
    const asked = { operation, resource, node }
    const answer = await box.locks.acquire({ ...asked, want: 'turn' })
    if (answer.status !== 'granted') throw new Error(`The lock was ${answer.status}.`)
    await box.locks.release({ ...asked, token: answer.token, outcome: 'success' })
  }
  const one = await repeat(bench, { name: 'acquire and release' }, () => turn('one', 'a'))
  const free = Array.from({ length: 50 }, (_, at) => `of-${at}`)
  const fifty = await repeat(bench, { name: 'acquire and release, 50 at once', width: 50 }, async () => {
    const resource = free.pop()!
    await turn(resource, 'a')
    free.push(resource)
  })
  const contended = await repeat(bench, { name: 'hand-over', width: 10 }, async () => {
    await using held = await box.locks.hold(operation, 'line', { node: 'a', signal: bench.signal })
    void held
  })
  // Two commits a turn.
  const commits = raw && raw.commitsPerSecond / 2
  return [
    lineOf('acquire and release', 'turns of a lock without other waiters', one, commits),
    lineOf('acquire and release, 50 at once', 'turns, each of another lock', fifty),
    lineOf('hand-over', 'turns of one lock that ten wait for', contended),
  ]
}

/** Removes the empty wait queues. */
async function forgetLocks(box: Box): Promise<void> {
  await sleep(150)
  const times = resolveLocksOptions(benchLocksOptions)
  while ((await box.backend.locks.sweep(500, times)).length > 0);
}

/** Guards: new keys one by one, many at once, and a key that is done already. */
async function benchOnce(bench: Bench, box: Box, raw: Raw | undefined): Promise<readonly BenchLine[]> {
  const keys: string[] = []
  const claim = async (key: string) => {
    keys.push(key)
    const answer = await box.once.claim(key)
    if (answer.status !== 'run') throw new Error(`The key was ${answer.status}.`)
    await box.once.done(key, answer.token, null)
  }
  try {
    const one = await repeat(bench, { name: 'claim and done', most: 20_000 }, (number) =>
      claim(`one-${number}`),
    )
    const fifty = await repeat(
      bench,
      { name: 'claim and done, 50 at once', width: 50, most: 50_000 },
      (number) => claim(`fifty-${number}`),
    )
    const again = await repeat(bench, { name: 'claim again' }, async () => {
      const { status } = await box.once.claim('one-0')
      if (status !== 'done') throw new Error(`The key was ${status}.`)
    })
    // Two commits a key.
    const commits = raw && raw.commitsPerSecond / 2
    return [
      lineOf('claim and done', 'new keys, one after the other', one, commits),
      lineOf('claim and done, 50 at once', 'new keys', fifty),
      lineOf('claim again', 'keys that were done before', again),
    ]
  } finally {
    bench.tick('forgetting the keys')
    for (let at = 0; at < keys.length; at += 100)
      await Promise.all(keys.slice(at, at + 100).map((key) => box.once.forget(key)))
  }
}

interface Workload {
  run(bench: Bench, box: Box, raw: Raw | undefined): Promise<readonly BenchLine[]>
  /** Removes the data of the workload. */
  forget(box: Box): Promise<void>
}

export const workloads: Readonly<Record<'jobs' | 'locks' | 'once', Workload>> = {
  jobs: { run: benchJobs, forget: forgetJobs },
  locks: { run: benchLocks, forget: forgetLocks },
  // This workload removes its keys itself.
  once: { run: benchOnce, forget: async () => undefined },
}

/** The result of one case. */
export interface BenchLine {
  readonly name: string
  /** The counted unit, for users. */
  readonly what: string
  readonly count: number
  readonly perSecond: number
  /** The median and the 99th percentile of one turn; null if a turn does many at once. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** The most that this database could do if only its commits took time; null if that has no meaning. */
  readonly rawPerSecond: number | null
}

/** The parts of a measurement. */
export interface Bench {
  /** How long a case takes. */
  readonly caseMs: number
  readonly signal: AbortSignal
  /** Called now and then with the name of the present case. */
  readonly tick: (what: string) => void
}

export interface Measured {
  /** The number of counted turns, after the warm-up. */
  readonly count: number
  /** The number of all turns. */
  readonly turns: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface RepeatOptions {
  readonly name: string
  /** The number of turns at once. @default 1 */
  readonly width?: number
  /** The most turns. @default any number */
  readonly most?: number
  /** The longest random pause before each turn. @default none */
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
    // At least one turn is counted, even if it is slow.
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

/** The shown part of a measurement. */
export function lineOf(
  name: string,
  what: string,
  { count, perSecond, p50Ms, p99Ms }: Omit<Measured, 'turns'>,
  rawPerSecond: number | null = null,
): BenchLine {
  return { name, what, count, perSecond, p50Ms, p99Ms, rawPerSecond }
}

/** The value that this share of the numbers does not exceed. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0
}

/**
 * Measures the raw rate of a database: one committed row after the other. This creates and drops a table, so it needs
 * the right to create tables.
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
