/**
 * Processes run jobs of a queue with limits, and are killed with -9 at random. By the database's clock, running jobs of
 * a key and of the queue, and starts within the period of its rate, must never exceed the limits, and every job must
 * complete.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from '../../../src/index.ts'
import type { Program } from '../../support/services/program.ts'
import { createCrew } from '../crew.ts'
import { connect, type Ground } from '../ground.ts'
import { createRandom, type Random } from '../random.ts'
import type { Counts } from '../stage.ts'
import {
  type BlockedPayload,
  type BlockedProcessOptions,
  createAttemptTables,
  nowSql,
  readAttempts,
  readCompleted,
} from './attempts.ts'
import { checkLimits, type Sample } from './limit-checker.ts'

export interface LimitingOptions {
  readonly seed: number
  readonly members: number
  readonly kills: number
  readonly jobs: number
  /** Whether starts are counted too: claims that need not go another way. */
  readonly isRated: boolean
}

const script = join(import.meta.dirname, 'worker-process.ts')
const namespace = 'limiting'
const queue = 'limited'
const unrated = { concurrency: 6, rate: null, perKey: { concurrency: 2, rate: null } }
const rated = { ...unrated, rate: { count: 15, perMs: 500 } }
const keys = ['a', 'b', 'c', 'd', 'e', null]
const leaseMs = 1_000
const deadlineMs = 90_000

export async function limitThroughKills(
  { url }: Pick<Ground, 'url'>,
  { seed, members: count, kills, jobs, isRated }: LimitingOptions,
): Promise<Counts> {
  const limits = isRated ? rated : unrated
  await using kept = new AsyncDisposableStack()
  const box = kept.use(await open(url as 'sqlite:', { namespace, migrate: true }))
  await createAttemptTables(url)
  await box.jobs.setLimits(queue, limits)
  const random = createRandom(seed)
  const ids = (await box.jobs.addMany(Array.from({ length: jobs }, () => aJob(random)))).map(({ id }) => id)

  const crew = kept.use(createCrew())
  const options: BlockedProcessOptions = { url, namespace, queues: [queue], leaseMs }
  const start = () => crew.start(script, options)
  const watch = kept.use(watchRunning(url))
  const members: Promise<Program>[] = Array.from({ length: count }, start)
  await Promise.all(members)
  for (let kill = 0; kill < kills; kill++) {
    await sleep(random.whole(50, 400))
    await crew.kill(await members.shift()!)
    const next = start()
    // The caller awaits it later; until then a rejection must not be unhandled.
    next.catch(() => undefined)
    members.push(next)
  }
  await untilDone(box, crew.accidents)
  await Promise.all(members.map(async (member) => crew.stop(await member)))
  const samples = await watch.stop()

  const { complaints, most, claims } = checkLimits(await readAttempts(url), samples, limits)
  const all = [...complaints, ...crew.accidents, ...(await whatIsNotDone(box, url, ids))]
  // Limits that were never reached were not tried; how near it came to the rate is up to the machine.
  if (most.ofKey < 2 || most.ofQueue < limits.concurrency)
    all.push(`the limits were not reached: ${JSON.stringify(most)}`)
  if (all.length > 0)
    throw new Error(`${all.length} complaints, seed ${seed}:\n${all.slice(0, 20).join('\n')}`)
  return {
    jobs,
    kills,
    claims,
    looks: samples.length,
    'at once of a key': most.ofKey,
    'at once': most.ofQueue,
    ...(isRated ? { 'starts in a span': most.inSpan } : {}),
  }
}

function aJob(random: Random) {
  const payload: BlockedPayload = { ms: random.whole(5, 60) }
  return { kind: 'run', queue, payload, limitKey: random.pick(keys), maxAttempts: 100 }
}

/** Reads the running jobs until it is stopped; each read is one statement. */
function watchRunning(url: string): AsyncDisposable & { stop(): Promise<readonly Sample[]> } {
  const samples: Sample[] = []
  let isOver = false
  const watching = (async () => {
    await using caller = await connect(url)
    for (; !isOver; await sleep(15)) {
      const rows = await caller.exec(
        `SELECT id, meta, started_at, lease_ends_at, ${nowSql(url)} AS at
         FROM job_queue WHERE namespace = '${namespace}' AND queue = '${queue}' AND state = 'running'`,
      )
      const live = rows.filter(({ lease_ends_at, at }) => Number(lease_ends_at) > Number(at))
      if (live.length === 0) continue
      samples.push({
        at: Number(live[0]!.at),
        running: live.map(({ id, meta, started_at }) => ({
          job: String(id),
          limitKey: (JSON.parse(String(meta ?? '{}')) as { limitKey?: string } | null)?.limitKey ?? null,
          claimedAt: Number(started_at),
        })),
      })
    }
  })()
  const stop = async () => {
    isOver = true
    await watching
    return samples
  }
  return { stop, [Symbol.asyncDispose]: async () => void (await stop()) }
}

/** Waits until no job is left that could run. */
export async function untilDone({ jobs }: Box, accidents: readonly string[]): Promise<void> {
  for (const deadline = Date.now() + deadlineMs; ; await sleep(50)) {
    const lines = await jobs.stats()
    if (lines.every(({ scheduled, ready, waiting, running }) => scheduled + ready + waiting + running === 0))
      return
    if (accidents.length > 0) throw new Error(accidents.join('\n'))
    if (Date.now() > deadline) throw new Error(`not all jobs ended: ${JSON.stringify(lines)}`)
  }
}

/** Every job must have completed, and had its effect once. */
export async function whatIsNotDone(
  { jobs }: Box,
  url: string,
  ids: readonly string[],
): Promise<readonly string[]> {
  const effects = Map.groupBy(await readCompleted(url), (id) => id)
  const complaints: string[] = []
  for (const id of ids) {
    const job = await jobs.find(id)
    const times = effects.get(id)?.length ?? 0
    if (job?.state !== 'completed' || times !== 1)
      complaints.push(`${id} is ${job?.state} with ${times} effects: ${job?.error?.message}`)
  }
  return complaints
}
