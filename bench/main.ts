/**
 * npm run bench -- MODULE [TRIAL…] [--json] [--quick | --full]
 *
 * Measures a module, or some of its trials, against its peers and its limit and prints how it stands to its goals. It is a
 * report: an unmet goal is no failure of the run, so the exit code is 0 whenever the report could be made.
 */
import { parseArgs } from 'node:util'
import { measureInChild, measureTrial } from './measure.ts'
import { findModule, moduleNames } from './modules.ts'
import { createProgress } from './progress.ts'
import { type CaseReport, type ModuleReport, reportTrial } from './report.ts'
import { renderTable } from './table.ts'

const rounds = { full: 7, quick: 5 } as const

process.exitCode = await main(process.argv.slice(2))

async function main(argv: string[]): Promise<number> {
  const usage = `Usage: npm run bench -- MODULE [TRIAL…] [--json] [--quick | --full]\nModules: ${moduleNames.join(', ')}`
  let request: { json: boolean; quick: boolean; full: boolean; module: string | undefined; trials: string[] }
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
    const [module, ...trials] = positionals
    request = { ...values, module, trials }
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`)
    return 2
  }

  const module = request.module === undefined ? undefined : await findModule(request.module)
  if (!module) {
    console.error(request.module === undefined ? usage : `There is no module "${request.module}".\n${usage}`)
    return 2
  }

  const named = module.trials.map(({ name }) => name)
  const unknown = request.trials.filter((name) => !named.includes(name))
  if (unknown.length > 0) {
    console.error(
      `${module.name} has no trial "${unknown.join('", "')}".\nIts trials: ${named.join(', ')}\n${usage}`,
    )
    return 2
  }
  const trials = module.trials.filter(
    ({ name }) => request.trials.length === 0 || request.trials.includes(name),
  )
  await module.prepare?.(console.error)

  const cases: CaseReport[] = []
  const count = request.quick ? rounds.quick : rounds.full
  {
    using progress = createProgress()
    for (const [at, trial] of trials.entries()) {
      const outcomes = await measureTrial(module.name, trial, {
        rounds: count,
        quick: request.quick,
        full: request.full,
        measure: measureInChild,
        progress: (round, contestant) =>
          progress.show(
            `${module.name}: ${trial.name} (${at + 1} of ${trials.length}), round ${round} of ${trial.rounds ?? count}`,
            contestant,
          ),
      })
      cases.push(...reportTrial(trial, outcomes))
    }
  }

  const report: ModuleReport = { module: module.name, cases }
  const heading = `${module.name}: median of ${count} rounds [smallest-largest], Node ${process.versions.node}`
  // With --json stdout is for the machine: the table still helps the person who watches.
  const print = request.json ? console.error : console.log
  print(`${heading}\n${renderTable(cases)}`)
  if (request.json) console.log(JSON.stringify(report))
  return 0
}
