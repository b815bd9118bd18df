import { flowThroughKills } from '../../crashes/blocked-jobs/flowing.ts'
import { limitThroughKills } from '../../crashes/blocked-jobs/limiting.ts'
import type { SqlEngine } from '../../crashes/ground.ts'
import { ackFirst } from '../../crashes/jobs/ack-first.ts'
import { shareFile } from '../../crashes/jobs/busy.ts'
import { cutConnections, freezeConnections } from '../../crashes/jobs/cuts.ts'
import { killWorkers } from '../../crashes/jobs/kills.ts'
import { pauseWorkers } from '../../crashes/jobs/pauses.ts'
import { poisonWorkers } from '../../crashes/jobs/poison.ts'
import { tangleRows } from '../../crashes/locks/deadlocks.ts'
import { crashMigrations } from '../../crashes/migrations.ts'
import { killServer } from '../../crashes/servers.ts'
import type { Campaign, Counts } from '../campaign.ts'
import { allEngines, type Engine, onEngines, serverEngines } from './jobs-grounds.ts'

/**
 * The crash tests of test/crashes at full size: real processes and real servers, a hundred kills an engine in four
 * pieces. A seed gives the plan (who is hit, when, how); what the operating system makes of it differs from run to
 * run, so that a failure may need its seed several times.
 */
export const jobsCrashes: readonly Campaign[] = [
  campaign('jobs-kills', 'kills workers with -9 at random moments', allEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await killWorkers(ground, { seed, kills: 25, jobs: 1_000, workers: 3, sameName: seed % 4 === 3 })
  }),

  campaign('jobs-servers', 'kills the database server with -9', serverEngines, async (engine, seed) => {
    const revivable = engine.server?.revivable
    if (revivable === undefined)
      throw new Error(`this ${engine.name} was there before us and is not ours to kill`)
    await using ground = await engine.createGround()
    return await killServer(ground, revivable, { seed, kills: 25, jobs: 1_500 })
  }),

  campaign('jobs-cuts', 'cuts connections at COMMIT and elsewhere', serverEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await cutConnections(ground, { seed, jobs: 1_000, commitCuts: 150, otherCuts: 30 })
  }),

  campaign('jobs-freezes', 'silences the wire for three leases', serverEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await freezeConnections(ground, { seed, jobs: 200, freezes: 5 })
  }),

  campaign('jobs-pauses', 'stops workers past their leases', allEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await pauseWorkers(ground, { seed, pauses: 15, jobs: 300 })
  }),

  campaign('jobs-ackfirst', 'commits three leases after the ack', allEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await ackFirst(ground, { seed, jobs: engine.name === 'sqlite' ? 3 : 20 })
  }),

  campaign('jobs-tangles', 'provokes deadlocks and lock waits', serverEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await tangleRows(ground, { seed, jobs: 300 })
  }),

  campaign('jobs-busy', 'holds the file that workers share', ['sqlite'], async (engine, seed) => {
    await using ground = await engine.createGround()
    return await shareFile(ground, { seed, jobs: 600, rounds: 40 })
  }),

  campaign('jobs-poison', 'runs jobs that kill their workers', allEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    return await poisonWorkers(ground, { seed, poisons: 10, jobs: 100 })
  }),

  campaign('jobs-limits', 'kills workers of a queue with limits', allEngines, async (engine, seed) => {
    await using ground = await engine.createGround()
    const isRated = seed % 2 === 1
    const jobs = isRated ? 1_000 : 2_500
    return await limitThroughKills(ground, { seed, members: 4, kills: 25, jobs, isRated })
  }),

  campaign(
    'jobs-flows',
    'kills workers of jobs that wait for each other',
    allEngines,
    async (engine, seed) => {
      await using ground = await engine.createGround()
      return await flowThroughKills(ground, { seed, members: 4, kills: 25, flows: 30, locked: 60 })
    },
  ),

  campaign('jobs-migrations', 'kills openers while they migrate', allEngines, (engine, seed) =>
    crashMigrations(engine.name, engine.server?.url, { seed, openers: 6, kills: 25 }),
  ),
]

function campaign(
  name: string,
  description: string,
  engines: readonly SqlEngine[],
  piece: (engine: Engine, seed: number) => Promise<Counts>,
): Campaign {
  return { name, module: 'jobs', description, run: (request) => onEngines(request, engines, piece) }
}
