import { workOffBacklog } from '../../crashes/jobs/backlog.ts'
import type { Campaign } from '../campaign.ts'
import { allEngines, onEngines } from './jobs-grounds.ts'

const rows = 1_000_000

/** A million jobs ready behind a million in history; minutes an engine, so that a piece alone is a soak. */
export const jobsBacklog: Campaign = {
  name: 'jobs-backlog',
  module: 'jobs',
  description: 'runs a million jobs behind a million in the history, under an old snapshot, with kills',
  async run(request) {
    const reported: string[] = []
    const { counts, notes = [] } = await onEngines(request, allEngines, async (engine, seed) => {
      await using ground = await engine.createGround()
      return await workOffBacklog(ground, {
        seed,
        rows,
        kills: 5,
        report: (what) => {
          reported.push(`- ${engine.name}, seed ${seed}: ${what}`)
          request.progress(`${engine.name}: ${what}`)
        },
      })
    })
    return { counts, notes: [...notes, ...reported] }
  },
}
