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
  const one = await measure(bench, 'add', 'jobs added, one after the other', { most: 5_000 }, add)
  const fifty = await measure(bench, 'add, 50 at once', 'jobs added', { width: 50, most: 10_000 }, add)
  const many = await measure(bench, `addMany of ${batch}`, 'jobs added', { most: 40 }, () => addBatch(batch))
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
  // A turn of these cases is many jobs, so it has no time of one job.
  const noTimes = { p50Ms: null, p99Ms: null, rawPerSecond: null }
  const { count, perSecond } = many.line
  return [
    { ...one.line, rawPerSecond: raw?.commitsPerSecond ?? null },
    fifty.line,
    { ...many.line, ...noTimes, count: count * batch, perSecond: perSecond * batch },
    {
      name: 'drain',
      what: 'jobs done by a worker, 100 at once',
      count: total,
      perSecond: drained,
      ...noTimes,
    },
    {
      name: 'transaction',
      what: 'jobs done in job.transaction, 10 at once',
      count: more,
      perSecond: transacted,
      ...noTimes,
    },
    picked,
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
async function pickUp(bench: Bench, box: Box): Promise<BenchLine> {
  let entered = Promise.withResolvers<number>()
  await using worker = box.jobs.worker({
    handlers: { [kind]: async () => entered.resolve(performance.now()) },
  })
  await worker.start()
  const what = 'from add to its handler, with an idle worker'
  const { line } = await measure(bench, 'pick-up', what, { pauseMs: 20 }, async () => {
    entered = Promise.withResolvers<number>()
    await box.jobs.add(kind, payload)
    await entered.promise
  })
  return line
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
  const alone = 'turns of a lock without other waiters'
  const one = await measure(bench, 'acquire and release', alone, {}, () => turn('one', 'a'))
  const free = Array.from({ length: 50 }, (_, at) => `of-${at}`)
  const others = 'turns, each of another lock'
  const fifty = await measure(bench, 'acquire and release, 50 at once', others, { width: 50 }, async () => {
    const resource = free.pop()!
    await turn(resource, 'a')
    free.push(resource)
  })
  const shared = 'turns of one lock that ten wait for'
  const contended = await measure(bench, 'hand-over', shared, { width: 10 }, async () => {
    await using held = await box.locks.hold(operation, 'line', { node: 'a', signal: bench.signal })
    void held
  })
  // Two commits a turn.
  const rawPerSecond = raw === undefined ? null : raw.commitsPerSecond / 2
  return [{ ...one.line, rawPerSecond }, fifty.line, contended.line]
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
    const news = 'new keys, one after the other'
    const one = await measure(bench, 'claim and done', news, { most: 20_000 }, (turn) => claim(`one-${turn}`))
    const many = { width: 50, most: 50_000 }
    const fifty = await measure(bench, 'claim and done, 50 at once', 'new keys', many, (turn) =>
      claim(`fifty-${turn}`),
    )
    const again = await measure(bench, 'claim again', 'keys that were done before', {}, async () => {
      const { status } = await box.once.claim('one-0')
      if (status !== 'done') throw new Error(`The key was ${status}.`)
    })
    // Two commits a key.
    const rawPerSecond = raw === undefined ? null : raw.commitsPerSecond / 2
    return [{ ...one.line, rawPerSecond }, fifty.line, again.line]
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

/** The line of a case, and the number of all its turns, with those that were not counted. */
export interface Measured {
  readonly line: BenchLine
  readonly turns: number
}

interface MeasureOptions {
  /** The number of turns at once. @default 1 */
  readonly width?: number
  /** The most turns. @default any number */
  readonly most?: number
  /** The longest random pause before each turn. @default none */
  readonly pauseMs?: number
}

/** Repeats `turn` for the time of a case. The first tenth of the time warms up and is not counted. */
async function measure(
  { caseMs, signal, tick }: Bench,
  name: string,
  what: string,
  { width = 1, most = Number.POSITIVE_INFINITY, pauseMs = 0 }: MeasureOptions,
  turn: (number: number) => Promise<unknown>,
): Promise<Measured> {
  const took: number[] = []
  let begun = 0
  const startedAt = performance.now()
  const countFrom = startedAt + caseMs / 10
  const endsAt = startedAt + caseMs
  let firstAt = 0
  let lastAt = 0
  const repeat = async (): Promise<void> => {
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
  await Promise.all(Array.from({ length: width }, repeat))
  const line = {
    name,
    what,
    count: took.length,
    perSecond: took.length === 0 ? 0 : (took.length / Math.max(0.001, lastAt - firstAt)) * 1_000,
    p50Ms: percentile(took, 0.5),
    p99Ms: percentile(took, 0.99),
    rawPerSecond: null,
  }
  return { line, turns: begun }
}

/** The value that this share of the numbers does not exceed. */
function percentile(values: readonly number[], part: number): number {
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
    const { line } = await measure(bench, 'raw commits', 'rows', {}, (number) =>
      connection.query(insert, [number, payload]),
    )
    return { commitsPerSecond: line.perSecond }
  } finally {
    await connection.query(`DROP TABLE ${table}`)
  }
}
