import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Faults } from './faults.ts'
import { ask, type Ground } from './ground.ts'
import { readHistory } from './history.ts'
import { type Counts, createStage, someJobs } from './stage.ts'

export interface SlowDiskOptions {
  readonly seed: number
  readonly jobs: number
  /** How long each sync takes. */
  readonly syncMs: number
}

/**
 * Every sync takes half a second. Everything is slower, but no lease is lost: renewals do not queue behind verdicts. Some
 * jobs take longer than their lease, so they depend on renewals.
 */
export async function slowDisk(
  ground: Ground,
  faults: Faults,
  { seed, jobs, syncMs }: SlowDiskOptions,
): Promise<Counts> {
  // A renewal may take a third of it, and may wait for the sync of an earlier write.
  const leaseMs = syncMs * 14
  const env = ground.engine === 'sqlite' ? faults.env : {}
  await using stage = await createStage(ground, { seed, leaseMs, concurrency: 2, prefetch: 0, env })
  await stage.startWorkers(2)
  faults.set({ syncMs })
  const long = { beforeMs: leaseMs * 1.1 }
  await stage.add(
    Array.from({ length: jobs }, (_, at) => ({
      kind: at % 3 === 0 ? 'plain' : 'transaction',
      payload: at % 2 === 0 ? long : {},
    })),
  )
  await stage.drain(120_000)
  faults.set({})
  const counts = await stage.finish({ everyGrantSeen: true })
  assert.equal(counts.grants, jobs, 'a lease was lost to a slow disk')
  const renewals = readHistory(ground.folder).filter(({ op, type }) => op === 'renew' && type === 'ok').length
  assert.ok(renewals > 0, 'no lease was renewed meanwhile')
  return { 'ms a sync': syncMs, renewals, ...counts }
}

export interface ClockStepsOptions {
  readonly seed: number
  readonly jobs: number
}

/**
 * The clock of the database's host is set forward by an hour while jobs run, and later back. New leases expire by that, so
 * the jobs are claimed again, and the earlier holders are refused: every effect happens once.
 */
export async function clockSteps(
  ground: Ground,
  faults: Faults,
  { seed, jobs }: ClockStepsOptions,
): Promise<Counts> {
  const hour = 3_600_000
  await using stage = await createStage(ground, { seed })
  const { random } = stage
  await stage.startWorkers(2)
  const before = await hourOf(ground)
  const slow = { kind: 'transaction', payload: { beforeMs: 400 }, maxAttempts: 1_000 }
  await stage.add([...someJobs(random, jobs), slow, slow, slow, slow])
  await sleep(300)
  faults.set({ clockMs: hour })
  assert.equal((await hourOf(ground)) - before, 1, 'the clock of the store was not set')
  await stage.add(someJobs(random, jobs))
  await stage.drain(40_000)
  await stage.look()

  faults.set({})
  await stage.add([...someJobs(random, jobs), slow])
  await stage.drain(40_000)
  return { 'clock steps': 2, ...(await stage.finish()) }
}

/** In whole hours, so that the test's own time does not count. */
async function hourOf({ engine, url }: Ground): Promise<number> {
  const now = engine === 'postgres' ? 'extract(epoch FROM clock_timestamp())' : 'unix_timestamp()'
  const [row] = await ask(url, `SELECT round((${now}) / 3600 - ${Date.now() / 3_600_000}) AS hours`)
  return Number(row!.hours)
}
