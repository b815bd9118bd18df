/**
 * Processes run jobs that depend on each other and on a lock, and are killed with -9 at random. Each job must run once,
 * after its dependencies, and jobs of one lock one after the other with fences that never fall.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from '../../../src/index.ts'
import type { JobToAdd } from '../../../src/jobs/index.ts'
import type { Program } from '../../support/services/program.ts'
import { createCrew } from '../crew.ts'
import type { Ground } from '../ground.ts'
import { createRandom, type Random } from '../random.ts'
import type { Counts } from '../stage.ts'
import { type Attempt, type BlockedProcessOptions, createAttemptTables, readAttempts } from './attempts.ts'
import { untilDone, whatIsNotDone } from './limiting.ts'

export interface FlowingOptions {
  readonly seed: number
  readonly members: number
  readonly kills: number
  /** The least number of graphs: a chain, a fan and the job that joins it. */
  readonly flows: number
  /** How many jobs want one lock. */
  readonly locked: number
}

const script = join(import.meta.dirname, 'worker-process.ts')
const namespace = 'flowing'
const leaseMs = 1_000
const chain = 4
const fan = 5

export async function flowThroughKills(
  { url }: Pick<Ground, 'url'>,
  { seed, members: count, kills, flows, locked }: FlowingOptions,
): Promise<Counts> {
  await using kept = new AsyncDisposableStack()
  const box = kept.use(await open(url as 'sqlite:', { namespace, migrate: true }))
  await createAttemptTables(url)
  const random = createRandom(seed)
  const crew = kept.use(createCrew())
  const options: BlockedProcessOptions = { url, namespace, queues: ['default'], leaseMs }
  const start = () => crew.start(script, options)
  const members: Promise<Program>[] = Array.from({ length: count }, start)

  await Promise.all(members)

  const ids: string[] = []
  const ofLock: string[] = []
  for (let kill = 0; kill < kills; kill++) {
    // Some before each kill, so that each finds something under way.
    for (let flow = 0; flow < Math.ceil(flows / kills); flow++)
      ids.push(...(await box.jobs.addMany(aFlow(random))).map(({ id }) => id))
    for (let number = 0; number < Math.ceil(locked / kills); number++) {
      const lock = { operation: 'write', resource: 'ledger' }
      ofLock.push((await box.jobs.add('run', work(random), { lock, maxAttempts: 100 })).id)
    }
    await sleep(random.whole(50, 400))
    await crew.kill(await members.shift()!)
    const next = start()
    // The caller awaits it later; until then a rejection must not be unhandled.
    next.catch(() => undefined)
    members.push(next)
  }
  await untilDone(box, crew.accidents)
  await Promise.all(members.map(async (member) => crew.stop(await member)))

  const attempts = await readAttempts(url)
  const complaints = [
    ...crew.accidents,
    ...(await whatIsNotDone(box, url, [...ids, ...ofLock])),
    ...(await whatCameTooEarly(box, ids, attempts)),
    ...whatOverlapped(attempts.filter(({ job }) => ofLock.includes(job))),
  ]
  if (complaints.length > 0)
    throw new Error(`${complaints.length} complaints, seed ${seed}:\n${complaints.slice(0, 20).join('\n')}`)
  return { jobs: ids.length + ofLock.length, kills, attempts: attempts.length }
}

/** One after the other, then some side by side, then one that waits for all of those. */
function aFlow(random: Random): readonly JobToAdd[] {
  const job = (ref: string, after: readonly string[]): JobToAdd => ({
    kind: 'run',
    payload: work(random),
    ref,
    after,
    maxAttempts: 100,
  })
  const line = Array.from({ length: chain }, (_, at) => job(`c${at}`, at === 0 ? [] : [`c${at - 1}`]))
  const parts = Array.from({ length: fan }, (_, at) => job(`f${at}`, [`c${chain - 1}`]))
  return [...line, ...parts, job('join', [...parts.map(({ ref }) => ref!), 'c0'])]
}

function work(random: Random) {
  return { ms: random.whole(20, 120) }
}

/** No attempt may have been claimed before every job it waits for had completed. */
async function whatCameTooEarly(
  { jobs }: Box,
  ids: readonly string[],
  attempts: readonly Attempt[],
): Promise<readonly string[]> {
  const completedAt = new Map(
    attempts.filter(({ completed }) => completed).map(({ job, endsAt }) => [job, endsAt]),
  )
  const complaints: string[] = []
  let seen = 0
  for (const id of ids) {
    const dependencies = (await jobs.find(id))?.dependencies ?? []
    seen += dependencies.length
    for (const { claimedAt } of attempts.filter(({ job }) => job === id))
      for (const dependency of dependencies)
        if (!(completedAt.get(dependency.id)! <= claimedAt))
          complaints.push(
            `${id} was claimed at ${claimedAt}, ${dependency.id} completed at ${completedAt.get(dependency.id)}`,
          )
  }
  const flows = ids.length / (chain + fan + 1)
  if (seen !== flows * (chain - 1 + fan + fan + 1)) complaints.push(`find showed ${seen} dependencies`)
  return complaints
}

/** Of one lock none may begin before the one before has ended, and none with a lower fence. */
function whatOverlapped(attempts: readonly Attempt[]): readonly string[] {
  const complaints: string[] = []
  for (const [at, next] of attempts.entries()) {
    if (next.fence === null) complaints.push(`${next.job} ran without a fence`)
    for (const before of attempts.slice(0, at)) {
      if (before.endsAt > next.claimedAt) complaints.push(`${next.job} began while ${before.job} ran`)
      if (before.fence! > next.fence!) complaints.push(`${next.job} had a lower fence than ${before.job}`)
    }
  }
  return complaints
}
