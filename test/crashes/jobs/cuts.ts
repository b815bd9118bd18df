import { setTimeout as sleep } from 'node:timers/promises'
import type { Ground } from '../ground.ts'
import { type Cut, createProxy } from '../proxy.ts'
import { createRandom } from '../random.ts'
import { type Counts, createStage, someJobs } from '../stage.ts'

export interface CutsOptions {
  readonly seed: number
  readonly jobs: number
  /** How many connections are cut at their COMMIT, and how many at any other packet. */
  readonly commitCuts: number
  readonly otherCuts: number
}

const ways: readonly Cut[] = ['before', 'after', 'between']

/**
 * The connection between workers and database is cut, mostly at COMMIT: the COMMIT never arrives, or its answer is lost,
 * or either. The worker finds out the outcome before it does anything else.
 */
export async function cutConnections(ground: Ground, options: CutsOptions): Promise<Counts> {
  const { seed, jobs, commitCuts, otherCuts } = options
  const chance = createRandom(seed + 1)
  let commitsLeft = commitCuts
  let othersLeft = otherCuts
  await using proxy = await createProxy(ground.url, ({ isCommit }) => {
    if (isCommit && commitsLeft > 0 && chance() < 0.3) {
      commitsLeft--
      return chance.pick(ways)
    }
    if (!isCommit && othersLeft > 0 && chance() < 0.01) {
      othersLeft--
      return chance.pick(ways)
    }
    return undefined
  })
  await using stage = await createStage(ground, { seed, url: proxy.url })
  await stage.startWorkers(2)

  // While there are cuts to make there must be jobs to make them on.
  for (let added = 0; added < jobs || commitsLeft > 0; added += 20) {
    if (added > jobs * 10) throw new Error(`no COMMIT passed by that could be cut: ${commitsLeft} cuts left`)
    await stage.add(someJobs(stage.random, 20))
    do await sleep(stage.random.whole(20, 100))
    while ((await stage.backlog()) > 40)
  }
  await stage.look()
  othersLeft = 0
  await stage.drain(30_000)
  const { before, after, between } = proxy.cuts
  return { 'cuts before': before, 'cuts after': after, 'cuts between': between, ...(await stage.finish()) }
}

export interface FreezeOptions {
  readonly seed: number
  readonly jobs: number
  readonly freezes: number
}

/** Nothing passes between workers and database for three leases, without any error. It recovers unaided. */
export async function freezeConnections(ground: Ground, options: FreezeOptions): Promise<Counts> {
  const { seed, jobs, freezes } = options
  const leaseMs = 1_000
  await using proxy = await createProxy(ground.url, () => undefined)
  await using stage = await createStage(ground, { seed, leaseMs, url: proxy.url })
  await stage.startWorkers(1)
  await stage.startWorkers(1, { url: ground.url })
  for (let freeze = 0; freeze < freezes; freeze++) {
    await stage.add(someJobs(stage.random, Math.ceil(jobs / freezes)))
    await sleep(stage.random.whole(100, 500))
    proxy.freeze()
    await sleep(3 * leaseMs)
    proxy.thaw()
    await stage.look()
  }
  await stage.drain(30_000)
  return { freezes, ...(await stage.finish()) }
}
