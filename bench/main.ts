/**
 * npm run bench -- ROOM [TRIAL…] [--json] [--quick | --full]
 *
 * Measures a room, or some of its trials, against its peers and its limit and prints how it stands to its goals. It is a
 * report: an unmet goal is no failure of the run, so the exit code is 0 whenever the report could be made.
 */
import { parseArgs } from 'node:util'
import { measureInChild, measureTrial } from './measure.ts'
import { findRoom, roomNames } from './modules.ts'
import { createProgress } from './progress.ts'
import { type CaseReport, type RoomReport, reportTrial } from './report.ts'
import { renderTable } from './table.ts'

const rounds = { full: 7, quick: 5 } as const

process.exitCode = await main(process.argv.slice(2))

async function main(argv: string[]): Promise<number> {
  const usage = `Usage: npm run bench -- ROOM [TRIAL…] [--json] [--quick | --full]\nRooms: ${roomNames.join(', ')}`
  let request: { json: boolean; quick: boolean; full: boolean; room: string | undefined; trials: string[] }
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
    const [room, ...trials] = positionals
    request = { ...values, room, trials }
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`)
    return 2
  }

  const room = request.room === undefined ? undefined : await findRoom(request.room)
  if (!room) {
    console.error(request.room === undefined ? usage : `There is no room "${request.room}".\n${usage}`)
    return 2
  }

  const named = room.trials.map(({ name }) => name)
  const unknown = request.trials.filter((name) => !named.includes(name))
  if (unknown.length > 0) {
    console.error(
      `${room.name} has no trial "${unknown.join('", "')}".\nIts trials: ${named.join(', ')}\n${usage}`,
    )
    return 2
  }
  const trials = room.trials.filter(
    ({ name }) => request.trials.length === 0 || request.trials.includes(name),
  )
  await room.prepare?.(console.error)

  const cases: CaseReport[] = []
  const count = request.quick ? rounds.quick : rounds.full
  {
    using progress = createProgress()
    for (const [at, trial] of trials.entries()) {
      const outcomes = await measureTrial(room.name, trial, {
        rounds: count,
        quick: request.quick,
        full: request.full,
        measure: measureInChild,
        progress: (round, contestant) =>
          progress.show(
            `${room.name}: ${trial.name} (${at + 1} of ${trials.length}), round ${round} of ${trial.rounds ?? count}`,
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
