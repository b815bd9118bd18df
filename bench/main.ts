/**
 * npm run bench -- ROOM [--json] [--quick | --full]
 *
 * Measures a room against its peers and its limit and prints how it stands to its goals. It is a
 * report: an unmet goal is no failure of the run, so the exit code is 0 whenever the report could be made.
 */
import { parseArgs } from 'node:util'
import { measureInChild, measureTrial } from './measure.ts'
import { createProgress } from './progress.ts'
import { type CaseReport, type RoomReport, reportTrial } from './report.ts'
import { findRoom, roomNames } from './rooms.ts'
import { renderTable } from './table.ts'

const rounds = { full: 7, quick: 5 } as const

process.exitCode = await main(process.argv.slice(2))

async function main(argv: string[]): Promise<number> {
  const usage = `Usage: npm run bench -- ROOM [--json] [--quick | --full]\nRooms: ${roomNames.join(', ')}`
  let request: { json: boolean; quick: boolean; full: boolean; room: string | undefined }
  try {
    const { values, positionals } = parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        full: { type: 'boolean', default: false },
      },
    })
    if (positionals.length > 1) throw new Error(`One room at a time, not ${positionals.join(' and ')}.`)
    request = { ...values, room: positionals[0] }
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`)
    return 2
  }

  const room = request.room === undefined ? undefined : await findRoom(request.room)
  if (!room) {
    console.error(request.room === undefined ? usage : `There is no room "${request.room}".\n${usage}`)
    return 2
  }

  const cases: CaseReport[] = []
  const count = request.quick ? rounds.quick : rounds.full
  {
    using progress = createProgress()
    for (const [at, trial] of room.trials.entries()) {
      const outcomes = await measureTrial(room.name, trial, {
        rounds: count,
        quick: request.quick,
        full: request.full,
        measure: measureInChild,
        progress: (round, contestant) =>
          progress.show(
            `${room.name}: ${trial.name} (${at + 1} of ${room.trials.length}), round ${round} of ${trial.rounds ?? count}`,
            contestant,
          ),
      })
      cases.push(...reportTrial(trial, outcomes))
    }
  }

  const report: RoomReport = { room: room.name, cases }
  const heading = `${room.name}: median of ${count} rounds [smallest-largest], Node ${process.versions.node}`
  // With --json stdout is for the machine: the table still helps whoever watches.
  const print = request.json ? console.error : console.log
  print(`${heading}\n${renderTable(cases)}`)
  if (request.json) console.log(JSON.stringify(report))
  return 0
}
