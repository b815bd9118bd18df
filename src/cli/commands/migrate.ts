import { Argument, Command } from 'commander'
import type { AppliedMigration, MigrationStatus, Migrator } from '../../storage/index.ts'
import { addDatabaseFlags, resolveDatabase } from '../config/flags.ts'
import { nameOfDatabase } from '../config/value-kinds.ts'
import { createProgress, type Printer } from '../print.ts'
import type { Stage } from '../verbs.ts'
import { requireDatabase } from './place.ts'

const actions = ['up', 'status', 'sql'] as const
type Action = (typeof actions)[number]

/** `signalbox migrate up|status|sql`: brings a database's schema up to date, says where it stands, prints the steps. */
export function migrateCommand({ printer, endWith }: Stage): Command {
  const command = new Command('migrate')
    .addArgument(new Argument('<action>', 'what to do').choices(actions))
    .option('--json', 'print one line of JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox migrate up\n  signalbox migrate status || signalbox migrate up\n  SIGNALBOX_DATABASE=postgres://app@db/shop signalbox migrate up --json\n  signalbox migrate sql --database mysql://db/shop > schema.sql',
    )
    .action(async (action: Action, { json = false }: { readonly json?: boolean }) => {
      requireDatabase(command, 'migrate', 'A server brings its own schema up to date when it starts.')
      // Exit code 1 says "not up to date" to the shell; that is an answer, so nothing is written to standard error.
      if (!(await migrate(action, resolveDatabase(command), json, printer))) endWith(1)
    })
  return addDatabaseFlags(command)
}

/** Whether this version of Signalbox may work on the database. */
async function migrate(action: Action, database: string, json: boolean, printer: Printer): Promise<boolean> {
  // Imported here, so that other commands and the help do not load an engine first.
  const { beforeBaseline, copyMark, openMigrator } = await import('../../storage/index.ts')
  await using migrator = await openMigrator(database)
  const name = nameOfDatabase(database)
  switch (action) {
    case 'sql': {
      const sql = await migrator.sql()
      if (json) printer.json({ database: name, sql })
      else printer.page(sql)
      return true
    }
    case 'status': {
      const status = await migrator.status()
      if (json) printer.json({ database: name, upToDate: status.current === status.latest, ...status })
      else if (status.isBeforeBaseline) printer.line(`${name} ${beforeBaseline}`)
      else for (const line of describe(name, status, status.current === copyMark)) printer.line(line)
      return status.isRunnable
    }
    case 'up': {
      const applied = await upWithProgress(migrator)
      const status = await migrator.status()
      const { current, latest } = status
      if (json) printer.json({ database: name, applied, current, latest })
      else {
        for (const step of applied) printer.line(`applied ${step.number} ${step.name}`)
        for (const line of describe(name, status, false)) printer.line(line)
      }
      return true
    }
  }
}

/** Steps that touch every row of a large table take their time. */
async function upWithProgress(migrator: Migrator): Promise<readonly AppliedMigration[]> {
  using progress = createProgress()
  return await migrator.up(({ name, number }, at, count) =>
    progress.show(`step ${number} ${name}`, at, count),
  )
}

function describe(
  name: string,
  { current, latest, pending, isRunnable }: MigrationStatus,
  isBeingFilled: boolean,
): readonly string[] {
  if (current === latest) return [`${name} is up to date: schema ${current}`]
  if (isRunnable)
    return [
      `${name} has schema ${current}, newer than this Signalbox (${latest}), which may still work on it`,
    ]
  if (isBeingFilled)
    return [`${name} is being filled by \`signalbox copy\`, which has not ended: run the same copy again`]
  if (current > latest)
    return [
      `${name} has schema ${current}, newer than this Signalbox knows (${latest}): upgrade Signalbox here`,
    ]
  return [
    current === 0 ? `${name} has no schema yet` : `${name} has schema ${current} of ${latest}`,
    ...pending.map((step) => `pending ${step.number} ${step.name}`),
  ]
}
