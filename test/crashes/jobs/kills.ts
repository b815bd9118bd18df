import { setTimeout as sleep } from 'node:timers/promises'
import type { Ground } from '../ground.ts'
import { type Counts, createStage, someJobs } from '../stage.ts'

export interface KillsOptions {
  readonly seed: number
  readonly kills: number
  readonly jobs: number
  readonly workers?: number
  /** All workers have one name, old and new. */
  readonly sameName?: boolean
}

/**
 * Workers are killed with -9 at random moments and replaced at once, while jobs keep coming; now and then one is asked
 * to leave instead. Another worker runs the jobs of a dead one, and no effect happens twice.
 */
export async function killWorkers(ground: Ground, options: KillsOptions): Promise<Counts> {
  const { seed, kills, jobs, workers = 2, sameName = false } = options
  await using stage = await createStage(ground, { seed })
  const { random, fleet } = stage
  await stage.startWorkers(workers, sameName ? { workerId: 'twin' } : {})

  let retired = 0
  const perKill = Math.ceil(jobs / kills)
  for (let kill = 0; kill < kills; kill++) {
    await stage.add(someJobs(random, perKill))
    if (random() < 0.2) await stage.addAndRollBack()
    await sleep(random.whole(50, 700))
    await fleet.killAndReplace(random.pick(fleet.members))
    if (random() < 0.2) {
      await fleet.retireAndReplace(random.pick(fleet.members))
      retired++
    }
    if (kill % 5 === 4) await stage.look()
  }
  await stage.drain(30_000)
  return { kills, retired, ...(await stage.finish()) }
}
