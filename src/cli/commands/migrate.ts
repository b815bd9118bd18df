import { Argument, Command, Option } from 'commander'
import type { MigrationStatus } from '../../backends/index.ts'
import { SignalboxError } from '../../core/errors.ts'
import type { Printer } from '../print.ts'

interface MigrateFlags {
  readonly database: string
  readonly json?: boolean
}

const actions = ['up', 'status', 'sql'] as const
type Action = (typeof actions)[number]

/**
 * `signalbox migrate up|status|sql`: brings a database's schema up to date, says where it stands, prints the steps.
 *
 * The address may hold a password, so it is never printed, not even when it is wrong: it is checked here and not by
 * commander, whose messages quote what they refuse.
 */
export function migrateCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  return new Command('migrate')
    .description('bring the schema of a database up to date, say where it stands, or print its steps')
    .addArgument(new Argument('<action>', 'what to do').choices(actions))
    .addOption(
      new Option('--database <url>', 'sqlite:FILE, postgres://… or mysql://… (MariaDB)')
        .env('SIGNALBOX_DATABASE')
        .default('sqlite:signalbox.db'),
    )
    .option('--json', 'answer with one line of JSON')
    .helpOption('-h, --help', 'print this help')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox migrate up\n  signalbox migrate status || signalbox migrate up\n  SIGNALBOX_DATABASE=postgres://app@db/shop signalbox migrate up --json\n  signalbox migrate sql --database mysql://db/shop > schema.sql',
    )
    .action(async (action: Action, flags: MigrateFlags) => {
      // Exit code 1 says "not up to date" to the shell; that is an answer, so nothing is written to standard error.
      if (!(await migrate(action, flags, printer))) endWith(1)
    })
}

/** Whether the database is as this version of Signalbox needs it. */
async function migrate(action: Action, { database, json }: MigrateFlags, printer: Printer): Promise<boolean> {
  if (database === '') {
    throw new SignalboxError(
      'invalid_argument',
      'The database address is empty. Give --database or SIGNALBOX_DATABASE, such as sqlite:signalbox.db.',
    )
  }
  // Imported here, so that other commands and the help do not load an engine first.
  const { openMigrator } = await import('../../backends/index.ts')
  await using migrator = await openMigrator(database)
  const name = nameOf(database)
  switch (action) {
    case 'sql': {
      const sql = await migrator.sql()
      if (json) printer.json({ database: name, sql })
      else printer.page(sql)
      return true
    }
    case 'status': {
      const status = await migrator.status()
      const upToDate = status.current === status.latest
      if (json) printer.json({ database: name, upToDate, ...status })
      else for (const line of describe(name, status)) printer.line(line)
      return upToDate
    }
    case 'up': {
      const applied = await migrator.up()
      const { current, latest } = await migrator.status()
      if (json) printer.json({ database: name, applied, current, latest })
      else {
        for (const step of applied) printer.line(`applied ${step.number} ${step.name}`)
        printer.line(`${name} is up to date: schema ${current}`)
      }
      return true
    }
  }
}

function describe(name: string, { current, latest, pending }: MigrationStatus): readonly string[] {
  if (current === latest) return [`${name} is up to date: schema ${current}`]
  if (current > latest)
    return [`${name} has schema ${current}, newer than this Signalbox knows (${latest}): upgrade it`]
  return [
    current === 0 ? `${name} has no schema yet` : `${name} has schema ${current} of ${latest}`,
    ...pending.map((step) => `pending ${step.number} ${step.name}`),
  ]
}

/** The address for people to see, without what may be secret: user, password and parameters. */
function nameOf(database: string): string {
  if (/^(sqlite|memory):/.test(database)) return database.replace(/\?.*$/, '')
  const url = URL.parse(database)
  return url === null ? database.replace(/:.*$/s, ':') : `${url.protocol}//${url.host}${url.pathname}`
}
