import { setTimeout as sleep } from 'node:timers/promises'
import type { Revivable } from '../support/services/revivable.ts'
import type { Ground } from './ground.ts'
import { type Counts, createStage, someJobs } from './stage.ts'

export interface ServerKillsOptions {
  readonly seed: number
  readonly kills: number
  readonly jobs: number
}

/**
 * The database server is killed with -9 and returns after its recovery, while workers run and jobs keep coming.
 * Confirmed writes must exist, calls in between fail, and workers continue. The server must be durable: one that
 * answers before it has written may forget its promises.
 */
export async function killServer(
  ground: Ground,
  server: Pick<Revivable, 'crash' | 'restart'>,
  options: ServerKillsOptions,
): Promise<Counts> {
  const { seed, kills, jobs } = options
  await using stage = await createStage(ground, { seed })
  const { random } = stage
  await stage.startWorkers(2)

  const perKill = Math.ceil(jobs / kills / 3)
  for (let kill = 0; kill < kills; kill++) {
    await stage.add(someJobs(random, perKill))
    await sleep(random.whole(100, 800))
    // Some adds are under way when the blow falls.
    const adding = [stage.add(someJobs(random, perKill)), stage.add(someJobs(random, perKill))]
    await sleep(random.whole(0, 15))
    await server.crash()
    if (random() < 0.3) await sleep(random.whole(200, 1_500))
    await server.restart()
    await Promise.all(adding)
    await stage.look()
  }
  await stage.drain(40_000)
  return { 'server kills': kills, ...(await stage.finish()) }
}
