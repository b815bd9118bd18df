import { Argument, Command, Option } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import { jobStates } from '../../../core/job-states.ts'
import type { BulkAction, BulkCount, BulkOperation, BulkOptions, Job, JobState } from '../../../jobs/index.ts'
import type { Printer } from '../../print.ts'
import { createProgress } from '../../progress.ts'
import { type Cell, printTable, showSpan } from '../../table.ts'
import { actCommand, showCommand } from './job-acts.ts'
import { addPlaceFlags, openJobs, type PlacedJobs, type PlaceFlags } from './jobs-place.ts'

/** `signalbox jobs ls|show|retry|cancel|bulk`: look at jobs, and do something to one or to all that are found. */
export function jobsCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  return new Command('jobs')
    .description('show and search jobs; retry or cancel one; retry, cancel or delete all that are found')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox jobs list --search "state:dead kind:mail*"\n  signalbox jobs bulk retry --search "state:dead error:relay" --dry-run',
    )
    .addCommand(listCommand(printer))
    .addCommand(showCommand(printer))
    .addCommand(actCommand(printer, 'retry'))
    .addCommand(actCommand(printer, 'cancel'))
    .addCommand(bulkCommand(printer, endWith))
}

interface ListFlags extends PlaceFlags {
  readonly state?: JobState
  readonly queue?: string
  readonly kind?: string
  readonly search: string
  readonly limit: string
  readonly cursor?: string
}

function listCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list jobs, newest first')
    .addOption(new Option('--state <state>', 'of this state alone').choices(jobStates))
    .option('--queue <name>', 'of this queue alone')
    .option('--kind <kind>', 'of this kind alone')
    .option('--search <terms>', 'words and fields that must all hold', '')
    .option('--limit <count>', 'how many at most, up to 500', '50')
    .option('--cursor <id>', 'where the page before ended')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox jobs ls --state dead --queue mail\n  signalbox jobs ls --search "state:dead created>-1d"\n  signalbox jobs ls --search \'payload.customer.name:"Ann Lee"\' --json',
    )
    .action(async ({ search, limit, cursor, state, queue, kind, json, ...place }: ListFlags) => {
      await using jobs = await openJobs(command, place)
      const page = await jobs.list({ search, state, queue, kind, limit: count('--limit', limit), cursor })
      if (json) return printer.json(page)
      if (page.items.length === 0 && page.cursor === null) return printer.line('There are no such jobs.')
      const now = Date.now()
      printTable(
        printer,
        ['=ID', 'STATE', 'QUEUE', 'KIND', 'ATTEMPT', 'AGE', 'ERROR'],
        page.items.map((job) => rowOf(job, now)),
      )
      if (page.stopped !== null)
        printer.hint(`stopped after ${page.scanned} jobs; go on with --cursor ${page.cursor}`)
      else if (page.cursor !== null) printer.hint(`there may be more; go on with --cursor ${page.cursor}`)
    })
  return addPlaceFlags(command)
}

/** Written again here, so that the help does not load the module of jobs. */
const bulkActions: readonly BulkAction[] = ['retry', 'cancel', 'delete']

interface BulkFlags extends PlaceFlags {
  readonly search: string
  readonly limit?: string
  readonly dryRun?: boolean
}

function bulkCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  const command = new Command('bulk')
    .description('do something to every job that a search means, and wait until it is done')
    .addArgument(new Argument('<action>', 'what to do').choices(bulkActions))
    .requiredOption('--search <terms>', 'words and fields that must all hold')
    .option('--limit <count>', 'end after so many jobs')
    .option('--dry-run', 'only say how many are meant')
    .addHelpText(
      'after',
      '\nThe operation goes on without this command: servers and workers of the same database work on it.\n' +
        '\nExamples:\n  signalbox jobs bulk retry --search "state:dead kind:mail*" --dry-run\n  signalbox jobs bulk delete --search "state:completed finished<-30d"',
    )
    .action(async (action: BulkAction, { search, limit, dryRun, json, ...place }: BulkFlags) => {
      const options = { action, search, ...(limit === undefined ? {} : { limit: count('--limit', limit) }) }
      await using jobs = await openJobs(command, place)
      if (dryRun) {
        const answer = await jobs.bulk({ ...options, dryRun: true })
        if (json) return printer.json(answer)
        return printer.line(showMatches(action, answer))
      }
      const total = await countFirst(jobs, options)
      const { id } = await jobs.bulk(options)
      const operation = await watch(jobs, id, total)
      if (json) printer.json(operation)
      else printer.line(`${operation.state}: ${countsOf(operation)} (operation ${id})`)
      if (operation.state !== 'completed') endWith(1)
    })
  return addPlaceFlags(command)
}

/** As `3 jobs match: 1 completed, 2 dead`, and what a retry would do that the word does not say. */
function showMatches(action: BulkAction, { matched, states, stopped, scanned }: BulkCount): string {
  const byState = Object.entries(states).filter(([, count]) => count > 0)
  const shown = byState.map(([state, count]) => `${count} ${state}`).join(', ')
  const atLeast = stopped === null ? '' : `; at least, among the newest ${scanned}`
  const again =
    action === 'retry' && states.completed > 0
      ? `. The completed ones would run again; state:dead leaves them out`
      : ''
  return `${matched} ${matched === 1 ? 'job matches' : 'jobs match'}${shown && `: ${shown}`}${atLeast}${again}`
}

const lookMs = 200

/** How many are meant, for a progress bar; undefined where one search does not see all of them. */
async function countFirst(jobs: PlacedJobs, options: BulkOptions): Promise<number | undefined> {
  if (!process.stderr.isTTY) return undefined
  const { matched, stopped } = await jobs.bulk({ ...options, dryRun: true })
  return stopped === null ? Math.min(matched, options.limit ?? matched) : undefined
}

/** Waits for its end, and shows progress on a terminal. */
async function watch(jobs: PlacedJobs, id: string, total: number | undefined): Promise<BulkOperation> {
  using progress = createProgress()
  for (;;) {
    const operation = await jobs.bulkOperation(id)
    if (operation === undefined)
      throw new SignalboxError('not_found', `The operation ${id} was forgotten before it ended.`)
    if (operation.state !== 'running') return operation
    progress.show(operation.action, operation.done + operation.skipped, total)
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  }
}

function countsOf({ matched, done, skipped }: BulkOperation): string {
  return `${matched} matched, ${done} done, ${skipped} skipped`
}

function rowOf(job: Job, now: number): readonly Cell[] {
  const { id, state, queue, kind, attempt, maxAttempts, createdAt, error } = job
  return [
    ...[id, state, queue, kind, `${attempt}/${maxAttempts}`, showSpan(now - createdAt)],
    error === null ? '' : error.message,
  ]
}

function count(flag: string, value: string): number {
  if (/^[1-9]\d{0,8}$/.test(value)) return Number(value)
  throw new SignalboxError('invalid_argument', `${flag} must be a whole number of 1 or more.`)
}
