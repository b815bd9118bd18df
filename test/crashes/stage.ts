/**
 * A campaign's set: a migrated database, a producer in this process, worker processes, and the history of them all.
 * A campaign adds jobs, does its harm, calls `finish`, and gets the counts of what was seen, or an error that lists
 * every broken promise.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createJobs, type JobRecord, type Jobs, type JobToAdd } from '../../src/jobs/index.ts'
import type { Backend } from '../../src/storage/backend.ts'
import { openBackend } from '../../src/storage/open.ts'
import { createFleet, type Fleet, type FleetOptions } from './fleet.ts'
import { connect, type Ground, readEffects } from './ground.ts'
import { createRecorder, createSilence, type HistoryEvent, readHistory } from './history.ts'
import { check, type Evidence } from './jobs/checker.ts'
import { createRandom, type Random } from './random.ts'
import { recordStore } from './recording-store.ts'

export type Counts = Readonly<Record<string, number>>

export interface Stage extends AsyncDisposable {
  readonly ground: Ground
  readonly random: Random
  readonly jobs: Jobs
  readonly store: Backend['jobs']
  readonly fleet: Fleet
  /** Starts this many workers and waits until they work. */
  startWorkers(count: number, options?: Parameters<Fleet['start']>[0]): Promise<void>
  /** Adds jobs; a failed add is in the history and is ignored here. */
  add(jobs: readonly JobToAdd[]): Promise<void>
  /** Adds a job in a transaction of our own and rolls that back. */
  addAndRollBack(): Promise<void>
  /** Records the jobs that have ended by now, so that the end can check whether they stayed so. */
  look(): Promise<void>
  /** How many jobs have not ended. */
  backlog(): Promise<number>
  /** Waits until every job has ended; complains when that takes longer than `withinMs`. */
  drain(withinMs: number): Promise<void>
  /** Ends the workers and judges. Throws when a promise was broken. */
  finish(options?: Pick<Evidence, 'everyGrantSeen'>): Promise<Counts>
}

export interface StageOptions extends Partial<FleetOptions> {
  readonly seed: number
  /** Where the workers connect to, when that is not where the producer does. */
  readonly url?: string
}

export async function createStage(ground: Ground, { seed, ...fleetOptions }: StageOptions): Promise<Stage> {
  const backend = await openBackend(ground.url, { namespace: 'crashes', migrate: true })
  const { isSilent = false } = fleetOptions
  const recorder = isSilent ? createSilence('producer') : createRecorder(ground.folder, 'producer')
  const jobs = createJobs({ store: recordStore(backend.jobs, recorder), notifier: backend.notifier })
  const fleet = createFleet({
    url: ground.url,
    folder: ground.folder,
    concurrency: 4,
    prefetch: 4,
    leaseMs: 1_000,
    pollMs: 100,
    isSilent,
    ...fleetOptions,
  })
  const endedEarlier = new Map<string, JobRecord>()
  const neverAdded: string[] = []

  async function startWorkers(count: number, options?: Parameters<Fleet['start']>[0]): Promise<void> {
    const isStarted = ({ detail }: HistoryEvent) => detail === 'started'
    const before = readHistory(ground.folder).filter(isStarted).length
    for (let i = 0; i < count; i++) await fleet.start(options)
    const deadline = Date.now() + 30_000
    while (readHistory(ground.folder).filter(isStarted).length < before + count) {
      if (fleet.accidents.length > 0 || Date.now() > deadline)
        throw new Error(`workers did not start: ${fleet.accidents.join('\n')}`)
      await sleep(50)
    }
  }

  async function backlog(): Promise<number> {
    const lines = await backend.jobs.stats()
    return lines.reduce((sum, line) => sum + line.scheduled + line.ready + line.running, 0)
  }

  async function drain(withinMs: number): Promise<void> {
    const deadline = Date.now() + withinMs
    // A frozen engine may end a commit late although its connection was cut: nothing is left when that is so for a
    // while.
    let emptyLooks = 0
    for (let left = 'no answer'; ; await sleep(50)) {
      if (fleet.accidents.length > 0) throw new Error(fleet.accidents.join('\n'))
      try {
        const count = await backlog()
        emptyLooks = count === 0 ? emptyLooks + 1 : 0
        if (emptyLooks === 4) return
        if (count === 0) continue
        left = `${count} jobs left: ${JSON.stringify(await backend.jobs.stats())}`
      } catch (error) {
        left = String(error)
      }
      if (Date.now() > deadline)
        throw new Error(
          `QL3: not all jobs had ended ${withinMs} ms after the faults: ${left}\n${troubles(readHistory(ground.folder))}`,
        )
    }
  }

  return {
    ground,
    random: createRandom(seed),
    jobs,
    store: backend.jobs,
    fleet,
    startWorkers,
    backlog,
    drain,

    add: (batch) =>
      jobs.addMany(batch).then(
        () => undefined,
        () => undefined,
      ),

    async addAndRollBack() {
      await using caller = await connect(ground.url)
      await caller.begin()
      const { id } = await jobs.add('transaction', {}, { tx: caller.tx })
      await caller.rollback()
      neverAdded.push(id)
    },

    async look() {
      for (const record of await listAll(backend.jobs)) {
        if (record.finishedAt !== null && !endedEarlier.has(record.id)) endedEarlier.set(record.id, record)
      }
    },

    async finish(options) {
      await fleet[Symbol.asyncDispose]()
      // A job whose last lease expired is shown as dead before it is reclaimed.
      await backend.jobs.reclaim(1_000)
      const records = await listAll(backend.jobs)
      const attempts = await checkAttempts(backend, records)
      const { complaints, counts } = check({
        events: readHistory(ground.folder),
        records,
        effects: await readEffects(ground.url),
        endedEarlier,
        neverAdded,
        ...options,
      })
      const all = [...complaints, ...attempts.complaints, ...fleet.accidents]
      if (all.length > 0) {
        throw new Error(
          `${all.length} complaints on ${ground.engine}, seed ${seed}:\n${all.slice(0, 20).join('\n')}`,
        )
      }
      return { ...counts, 'attempts that failed': attempts.count }
    },

    async [Symbol.asyncDispose]() {
      await fleet[Symbol.asyncDispose]()
      await backend.close()
      recorder[Symbol.dispose]()
    },
  }
}

/** From here on a hand-back counts as an attempt, and leaves no row. */
const freeHandBacks = 10
const keptAttempts = 50

/**
 * Each attempt that was counted and did not complete its job left one row, however its process ended: the row and the
 * verdict are one transaction.
 */
async function checkAttempts(
  { attempts }: Backend,
  records: readonly JobRecord[],
): Promise<{ readonly complaints: readonly string[]; readonly count: number }> {
  const complaints: string[] = []
  let count = 0
  for (const { id, state, attempt, handBackCount, error } of records) {
    if (handBackCount >= freeHandBacks || (state !== 'completed' && state !== 'dead')) continue
    const rows = await attempts.list(id)
    const expected = Math.min(state === 'completed' ? attempt - 1 : attempt, keptAttempts)
    count += rows.length
    if (rows.length !== expected)
      complaints.push(`job ${id} is ${state} in attempt ${attempt}, and ${rows.length} attempts failed`)
    const last = rows.at(-1)
    if (state === 'dead' && last?.outcome === 'dead' && last.error !== error)
      complaints.push(`job ${id} died of ${error}, and its last attempt failed with ${last.error}`)
  }
  return { complaints, count }
}

/** The most frequent errors, for the person who looks for the cause. */
function troubles(events: readonly HistoryEvent[]): string {
  const said = Map.groupBy(
    events.filter(({ type }) => type === 'info' || type === 'fail'),
    ({ op, detail }) => `${op}: ${detail}`,
  )
  return [...said]
    .sort(([, a], [, b]) => b.length - a.length)
    .slice(0, 8)
    .map(([what, times]) => `${times.length} × ${what}`)
    .join('\n')
}

async function listAll(store: Backend['jobs']): Promise<readonly JobRecord[]> {
  const records: JobRecord[] = []
  for (;;) {
    const before = records.at(-1)?.id
    const page = await store.list({ limit: 500, ...(before === undefined ? {} : { before }) })
    records.push(...page)
    if (page.length < 500) return records
  }
}

/** Jobs of all kinds that can end well, in the proportions of the plan's random numbers. */
export function someJobs(random: Random, count: number): readonly JobToAdd[] {
  const often = { maxAttempts: 1_000, backoff: { baseMs: 30, maxMs: 300 } }
  return Array.from({ length: count }, () => ({
    kind: random.pick(['transaction', 'transaction', 'transaction', 'grouped', 'own', 'plain']),
    payload: {
      beforeMs: random.whole(0, 30),
      insideMs: random() < 0.5 ? random.whole(0, 10) : 0,
      failUntil: random() < 0.1 ? 1 : 0,
    },
    priority: random.whole(0, 2),
    ...often,
  }))
}
