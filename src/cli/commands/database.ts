import { Argument, type Command } from 'commander'
import type { CopyNews, CopyPlan, CopyReport } from '../../copy/index.ts'
import { invalidArgument } from '../../core/errors.ts'
import { whole } from '../../core/options.ts'
import type { AppliedMigration, MigrationStatus, Migrator } from '../../storage/index.ts'
import { addDatabaseFlags, resolveDatabase } from '../config/flags.ts'
import { nameOfDatabase, numberOr, spanOf } from '../config/value-kinds.ts'
import { createProgress, type Printer, type Progress } from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import { CliCommand, requireDatabase } from './cli-command.ts'

const actions = ['up', 'status', 'sql'] as const
type Action = (typeof actions)[number]

/** `signalbox migrate up|status|sql`: migrates the schema of a database, shows its state, or prints the SQL. */
export function migrateCommand({ printer, endWith }: CommandContext): Command {
  const command = new CliCommand('migrate')
    .addArgument(new Argument('<action>', 'what to do').choices(actions))
    .option('--json', 'print one line of JSON')
    .exampleLines(
      'signalbox migrate up',
      'signalbox migrate status || signalbox migrate up',
      'SIGNALBOX_DATABASE=postgres://app@db/shop signalbox migrate up --json',
      'signalbox migrate sql --database mysql://db/shop > schema.sql',
    )
    .action(async (action: Action, { json = false }: { readonly json?: boolean }) => {
      requireDatabase(command, 'migrate', 'A server brings its own schema up to date when it starts.')
      // Exit code 1 means "not up to date". That is an answer, not an error, so standard error stays empty.
      if (!(await migrate(action, resolveDatabase(command), json, printer))) endWith(1)
    })
  return addDatabaseFlags(command)
}

/** Returns whether this version of Signalbox can use the database. */
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

/** Shows the progress, because a step that writes every row of a large table takes long. */
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

interface CopyFlags {
  readonly wait: string
  readonly pageRows: string
  readonly dryRun?: boolean
  readonly verifyOnly?: boolean
  readonly json?: boolean
}

/** `signalbox copy FROM TO`: copies everything to a database of another engine, and verifies the copy. */
export function copyCommand({ printer }: CommandContext): Command {
  return new CliCommand('copy')
    .argument('<from>', 'the database to read: sqlite:FILE, postgres://…, mysql://… or env:NAME')
    .argument('<to>', 'the database to fill')
    .option('--wait <span>', 'how long to wait for the leases of crashed workers', '60s')
    .option('--page-rows <count>', 'rows per transaction', '5000')
    .option('--dry-run', 'only print what would be copied')
    .option('--verify-only', 'only compare the two databases')
    .option('--json', 'print progress and the result as lines of JSON')
    .note(
      'Stop the servers and workers of FROM first. After an interruption, run the same command again: it continues.',
      'TO cannot be opened before the copy is complete.',
    )
    .examples(
      'copy sqlite:signalbox.db postgres://app@db/shop --dry-run',
      'copy sqlite:signalbox.db postgres://app@db/shop',
      'copy sqlite:signalbox.db postgres://app@db/shop --verify-only --json',
    )
    .action(
      async (
        source: string,
        target: string,
        { wait, pageRows, dryRun, verifyOnly, json = false }: CopyFlags,
      ) => {
        if (dryRun && verifyOnly) throw invalidArgument('Give --dry-run or --verify-only, not both.')
        const [from, to] = [addressOf('FROM', source), addressOf('TO', target)]
        const settings = {
          waitMs: spanOf('--wait', wait, { min: 0, max: 86_400_000 }),
          pageRows: whole('--page-rows', numberOr(pageRows), { min: 1, max: 100_000 }),
        }
        const { compare, copy, planCopy } = await import('../../copy/index.ts')
        if (dryRun) return printPlan(await planCopy(from, to), json, printer)
        const run = verifyOnly ? compare : copy
        let report: CopyReport
        {
          using progress = createNewsPrinter(json, printer)
          report = await run(from, to, { ...settings, onNews: progress.show })
        }
        printReport(report, verifyOnly === true, json, printer)
      },
    )
}

/** Replaces `env:NAME` by that variable, because an address with a password must not be on a command line. */
function addressOf(argument: string, address: string): string {
  const [, name] = /^env:(\w+)$/.exec(address) ?? []
  if (name === undefined) return address
  const value = process.env[name]
  if (value) return value
  throw invalidArgument(`${argument} is ${address}, but the variable ${name} is not set.`)
}

/** Shows the progress: a bar on a terminal, or with --json a line about once a second. */
function createNewsPrinter(json: boolean, printer: Printer): Disposable & { show(news: CopyNews): void } {
  let bar: Progress | undefined
  let phase = ''
  let printedAt = 0
  return {
    show(news) {
      if (news.phase !== phase) {
        bar?.[Symbol.dispose]()
        // One bar for each phase, because the bar estimates the rest from its own beginning.
        bar = createProgress()
      }
      const isDue = news.phase !== phase || performance.now() - printedAt > 1_000
      phase = news.phase
      if (!json) showNews(bar!, news)
      else if (isDue || (news.phase !== 'waiting' && news.rows === news.total)) {
        printedAt = performance.now()
        printer.json({ event: 'progress', ...news })
      }
    },
    [Symbol.dispose]: () => bar?.[Symbol.dispose](),
  }
}

function showNews(bar: Progress, news: CopyNews): void {
  if (news.phase === 'waiting')
    bar.show('waiting for leases to end, seconds left:', news.restMs / 1_000, undefined)
  else bar.show(`${news.phase} ${news.table}`, news.rows, news.total)
}

function printPlan(plan: CopyPlan, json: boolean, printer: Printer): void {
  if (json) {
    printer.json({ event: 'plan', ...plan })
    return
  }
  for (const { table, rows } of plan.tables)
    if (rows > 0) printer.line(`${String(rows).padStart(12)}  ${table}`)
  printer.line(
    `${plan.rows} rows would be copied, ${plan.jobs} of them jobs${plan.resumes ? '; a copy was begun and would go on' : ''}`,
  )
  for (const { of, holder, restMs } of plan.held)
    printer.line(`held: ${of} (${holder}), for another ${Math.ceil(restMs / 1_000)} s unless it is renewed`)
}

function printReport(report: CopyReport, isVerified: boolean, json: boolean, printer: Printer): void {
  if (json) {
    printer.json({ event: isVerified ? 'verified' : 'copied', ...report })
    return
  }
  const { rows, jobs, written, copyMs, verifyMs, sha256, resumed } = report
  if (isVerified) {
    printer.line(`equal: ${rows} rows on both sides, ${jobs} of them jobs`)
  } else {
    const how = resumed ? `went on with ${written} of ${rows} rows` : `copied ${rows} rows`
    printer.line(
      `${how}, ${jobs} of them jobs, in ${seconds(copyMs)}; compared both sides in ${seconds(verifyMs)}`,
    )
  }
  printer.line(`sha256 ${sha256}`)
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
