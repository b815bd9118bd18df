import { Argument, type Command, Option } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import { jobStates } from '../../../core/job-words.ts'
import { whole } from '../../../core/options.ts'
import type {
  AddOptions,
  BulkAction,
  BulkCount,
  BulkOperation,
  BulkOptions,
  ErrorGroup,
  FoundJob,
  Job,
  JobDependency,
  JobError,
  JobState,
} from '../../../jobs/index.ts'
import { numberOr, parsePayload, spanOf } from '../../config/value-kinds.ts'
import {
  type Cell,
  createProgress,
  type Fields,
  instant,
  type Printer,
  printFields,
  printList,
  printTable,
  showSpan,
} from '../../print.ts'
import type { CommandContext } from '../../verbs.ts'
import { type BoxFlags, type BoxJobs, CliCommand, type Flags } from '../cli-command.ts'

/** `signalbox jobs ls|show|wait|retry|cancel|bulk|errors`: shows and searches jobs; changes one, or all that a search finds. */
export function jobsCommand({ printer, endWith }: CommandContext): Command {
  return new CliCommand('jobs').group(
    listCommand(printer),
    showCommand(printer),
    waitCommand(printer, endWith),
    actCommand(printer, 'retry'),
    actCommand(printer, 'cancel'),
    bulkCommand(printer, endWith),
    errorsCommand(printer),
  )
}

type ListFlags = Flags<'queue' | 'kind' | 'cursor'> & {
  readonly state?: JobState
  readonly search: string
  readonly limit: string
}

function listCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list jobs, newest first')
    .addOption(new Option('--state <state>', 'only this state').choices(jobStates))
    .option('--queue <name>', 'only this queue')
    .option('--kind <kind>', 'only this kind')
    .option('--search <terms>', 'words and fields that must all hold', '')
    .option('--limit <count>', 'the most jobs, up to 500', '50')
    .option('--cursor <id>', 'the cursor of the previous page')
    .examples(
      'jobs ls --state dead --queue mail',
      'jobs ls --search "state:dead created>-1d"',
      'jobs ls --search \'payload.customer.name:"Ann Lee"\' --json',
    )
    .onJobs(({ search, limit, cursor, state, queue, kind, json }: ListFlags) => async (jobs) => {
      const page = await jobs.list({ search, state, queue, kind, limit: count('--limit', limit), cursor })
      if (json) return printer.json(page)
      if (page.items.length === 0 && page.cursor === null) return printer.line('No jobs found.')
      const now = Date.now()
      const heads = ['=ID', 'STATE', 'QUEUE', 'KIND', 'ATTEMPT', 'AGE', 'ERROR']
      const rows = page.items.map((job) => rowOf(job, now))
      printTable(printer, heads, rows)
      if (page.stopped !== null)
        printer.hint(`stopped after ${page.scanned} jobs; continue with --cursor ${page.cursor}`)
      else if (page.cursor !== null) printer.hint(`there may be more; continue with --cursor ${page.cursor}`)
    })
}

type ErrorsFlags = Flags<'kind' | 'cursor'> & { readonly limit: string }

function errorsCommand(printer: Printer): CliCommand {
  return new CliCommand('errors', 'list groups of errors by their last error, or show one group')
    .argument('[fingerprint]', 'only this group')
    .option('--kind <kind>', 'only errors of this kind of job')
    .option('--limit <count>', 'the most groups, up to 500', '50')
    .option('--cursor <cursor>', 'the cursor of the previous page')
    .examples(
      'jobs errors --kind mail',
      'jobs bulk retry --search "state:dead error.group:0f3a9c5d7e21b846" --limit 5',
    )
    .onJobs((fingerprint: string | undefined, { kind, limit, cursor, json }: ErrorsFlags) => async (jobs) => {
      if (fingerprint !== undefined) {
        const group = await jobs.errorGroup(fingerprint)
        if (group === undefined)
          throw new SignalboxError('not_found', `There is no group of errors "${fingerprint}".`)
        if (json) return printer.json(group)
        return printFields(printer, fieldsOfGroup(group))
      }
      const page = await jobs.errorGroups({ kind, limit: count('--limit', limit), cursor })
      if (json) return printer.json(page)
      const now = Date.now()
      const heads = ['=GROUP', 'KIND', 'ATTEMPTS', 'LAST', 'ERROR']
      printList(printer, page, 'No errors found.', heads, (group) => [
        ...[group.fingerprint, group.kind, String(group.attemptCount), showSpan(now - group.lastSeenAt)],
        describeError(group.error),
      ])
      if (page.counting) printer.hint('The newest attempts are not counted yet.')
    })
}

function fieldsOfGroup(group: ErrorGroup): Fields {
  return {
    group: group.fingerprint,
    kind: group.kind,
    attempts: String(group.attemptCount),
    first: new Date(group.firstSeenAt),
    last: new Date(group.lastSeenAt),
    releases: group.releases.join(', ') || null,
    jobs: group.sampleJobs.join(', '),
    error: group.error.stack ?? describeError(group.error),
  }
}

function describeError({ name, code, message }: JobError): string {
  return [code ?? name, message].filter(Boolean).join(': ')
}

/** Repeated here, so that the help does not load the module of jobs. */
const bulkActions: readonly BulkAction[] = ['retry', 'cancel', 'delete']

type BulkFlags = Flags<'limit', 'dryRun'> & { readonly search: string }

function bulkCommand(printer: Printer, endWith: (exitCode: number) => void): CliCommand {
  return new CliCommand('bulk')
    .description('retry, cancel or delete every job that a search matches, and wait for the end')
    .addArgument(new Argument('<action>', 'what to do').choices(bulkActions))
    .requiredOption('--search <terms>', 'words and fields that must all hold')
    .option('--limit <count>', 'stop after this number of jobs')
    .option('--dry-run', 'only count the matching jobs')
    .note(
      'The operation continues without this command: servers and workers of the same database work on it.',
    )
    .examples(
      'jobs bulk retry --search "state:dead kind:mail*" --dry-run',
      'jobs bulk delete --search "state:completed finished<-30d"',
    )
    .onJobs((action: BulkAction, { search, limit, dryRun, json }: BulkFlags) => {
      const options = { action, search, ...(limit === undefined ? {} : { limit: count('--limit', limit) }) }
      return async (jobs) => {
        if (dryRun) {
          const answer = await jobs.bulk({ ...options, dryRun: true })
          return printer.answer(json, answer, showMatches(action, answer))
        }
        const total = await countFirst(jobs, options)
        const { id } = await jobs.bulk(options)
        const operation = await watch(jobs, id, total)
        const { state, matched, done, skipped } = operation
        const line = `${state}: ${matched} matched, ${done} done, ${skipped} skipped (operation ${id})`
        printer.answer(json, operation, line)
        if (state !== 'completed') endWith(1)
      }
    })
}

/** Such as `3 jobs match: 1 completed, 2 dead`, with a warning about further effects of a retry. */
function showMatches(action: BulkAction, { matched, states, stopped, scanned }: BulkCount): string {
  const byState = Object.entries(states).filter(([, count]) => count > 0)
  const shown = byState.map(([state, count]) => `${count} ${state}`).join(', ')
  const atLeast = stopped === null ? '' : `; at least, among the newest ${scanned}`
  const found = `${matched} ${matched === 1 ? 'job matches' : 'jobs match'}${shown && `: ${shown}`}${atLeast}`
  if (action !== 'retry') return found
  const skipped = states.ready + states.waiting + states.running > 0
  return [
    found,
    ...(states.completed > 0 ? ['The completed ones would run again; state:dead leaves them out'] : []),
    ...(skipped ? ['Those that are ready, waiting or running would be skipped'] : []),
  ].join('. ')
}

/** The pause between two reads of a bulk operation. */
const pollMs = 200

/** The number of matching jobs for the progress bar; undefined: one search cannot count all of them. */
async function countFirst(jobs: BoxJobs, options: BulkOptions): Promise<number | undefined> {
  if (!process.stderr.isTTY) return undefined
  const { matched, stopped } = await jobs.bulk({ ...options, dryRun: true })
  return stopped === null ? Math.min(matched, options.limit ?? matched) : undefined
}

async function watch(jobs: BoxJobs, id: string, total: number | undefined): Promise<BulkOperation> {
  using progress = createProgress()
  for (;;) {
    const operation = await jobs.bulkOperation(id)
    if (operation === undefined)
      throw new SignalboxError('not_found', `The operation ${id} was deleted before it ended.`)
    if (operation.state !== 'running') return operation
    progress.show(operation.action, operation.done + operation.skipped, total)
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
}

function rowOf(job: Job, now: number): readonly Cell[] {
  const { id, state, queue, kind, attempt, maxAttempts, createdAt, error } = job
  return [
    ...[id, state, queue, kind, `${attempt}/${maxAttempts}`, showSpan(now - createdAt)],
    error === null ? '' : error.message,
  ]
}

function count(flag: string, value: string): number {
  return whole(flag, numberOr(value), { min: 1 })
}

type AddFlags = Flags<'payload' | 'queue' | 'priority' | 'delay' | 'uniqueKey' | 'limitKey'> & {
  readonly tag?: readonly string[]
  readonly after?: readonly string[]
}

/** `signalbox add KIND`: adds one job. */
export function addCommand({ printer }: CommandContext): Command {
  return new CliCommand('add')
    .argument('<kind>', 'the kind of the job')
    .option('--payload <json>', 'its payload')
    .option('--queue <name>', 'its queue (default: default)')
    .option('--priority <number>', 'higher goes first')
    .option('--delay <span>', 'how long to wait before it runs, such as 10m')
    .option('--unique-key <key>', 'at most one live job of the queue has it')
    .option('--limit-key <key>', 'the key for per-key limits of the queue')
    .option('--tag <word...>', 'tags for searches')
    .option('--after <id...>', 'wait until these jobs have completed')
    .examples(
      'add mail.welcome --payload \'{"to":"ada@example.org"}\'',
      'add report --queue slow --delay 10m --tag nightly',
    )
    .onBox((kind: string, flags: AddFlags) => {
      const options = optionsOf(flags)
      const payload = parsePayload(flags.payload)
      return async (box) => {
        const added = await box.jobs.add(kind, payload, options)
        const line = added.duplicate ? `job ${added.id} exists already` : `added job ${added.id}`
        printer.answer(flags.json, added, line)
      }
    }, 'make')
}

function optionsOf({ queue, priority, delay, uniqueKey, limitKey, tag, after }: AddFlags): AddOptions {
  return {
    queue,
    priority: priority === undefined ? undefined : priorityOf(priority),
    delayMs: spanOf('--delay', delay),
    uniqueKey,
    limitKey,
    tags: tag,
    after,
  }
}

function priorityOf(given: string): number {
  const value = /^-?\d{1,10}$/.test(given) ? Number(given) : given
  return whole('--priority', value, { min: -2_147_483_648, max: 2_147_483_647 })
}

/** `signalbox jobs show`: one job, with its dependencies and its log. */
function showCommand(printer: Printer): CliCommand {
  return new CliCommand('show', 'show one job: state, payload, dependencies, log')
    .argument('<id>', 'the job')
    .examples('jobs show 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .onBox((id: string, { json }: BoxFlags) => async (box) => {
      const job = await box.jobs.find(id)
      if (job === undefined)
        throw new SignalboxError(
          'not_found',
          `There is no job "${id}". It was never added, or it was deleted.`,
        )
      const { items: logs } = await box.jobs.logs(id, { limit: 100 })
      if (json) return printer.json({ ...job, logs })
      printFields(printer, fieldsOf(job))
      for (const { attempt, at, level, text } of logs)
        printer.line(`${new Date(at).toISOString()}  attempt ${attempt}  ${level}  ${text}`)
    })
}

type WaitFlags = BoxFlags & { readonly timeout: string }

/** The exit code of the shell's `timeout`. */
const timeoutExitCode = 124

function waitCommand(printer: Printer, endWith: (exitCode: number) => void): CliCommand {
  return new CliCommand('wait', 'wait until a job has ended, and print its result')
    .argument('<id>', 'the job')
    .option('--timeout <span>', 'how long to wait', '60s')
    .note(
      'The exit code is 0 if the job completed, 1 if it is dead or cancelled, 124 if it has not ended in time.',
    )
    .examples('jobs wait 01k9z3v8qe0m4t9wq3rb5c7xkd --timeout 5m')
    .onJobs((id: string, { timeout, json }: WaitFlags) => async (jobs) => {
      const { status, job } = await jobs.wait(id, { timeoutMs: spanOf('--timeout', timeout) })
      if (status === 'timeout') endWith(timeoutExitCode)
      else if (job.state !== 'completed') endWith(1)
      if (json) return printer.json(job)
      if (status === 'timeout') return printer.line(`job ${id} has not ended: it is ${job.state}`)
      printer.line(`job ${id} is ${job.state}`)
      if (job.result !== null) printer.line(JSON.stringify(job.result))
      if (job.error !== null) printer.line(codeAndMessage(job.error))
    })
}

function fieldsOf(job: FoundJob): Fields {
  return {
    id: job.id,
    state: job.state + (job.cancelRequested ? ' (cancellation requested)' : ''),
    kind: job.kind,
    queue: job.queue,
    attempt: `${job.attempt} of ${job.maxAttempts}`,
    priority: job.priority === 0 ? null : String(job.priority),
    key: job.uniqueKey,
    limitKey: job.limitKey,
    lock: job.lock && `${job.lock.operation} ${job.lock.resource}`,
    tags: job.tags.join(', ') || null,
    added: new Date(job.createdAt),
    due: new Date(job.runAt),
    started: instant(job.startedAt),
    ended: instant(job.finishedAt),
    worker: job.workerId,
    progress: job.progress && [percentOf(job), job.progress.note].filter(Boolean).join(' '),
    dependencies: describeJobs(job.dependencies),
    dependents: describeJobs(job.dependents),
    payload: JSON.stringify(job.payload),
    attempts: describeAttempts(job),
    result: job.result === null ? null : JSON.stringify(job.result),
    error: job.error && codeAndMessage(job.error),
  }
}

function codeAndMessage({ code, message }: JobError): string {
  return [code, message].filter(Boolean).join(': ')
}

function describeAttempts({ attempts }: FoundJob): string | null {
  const each = attempts.map(({ attempt, outcome, endedAt, error }) => {
    const ended = new Date(endedAt).toISOString()
    return `${attempt} ${outcome} ${ended} ${describeError(error)}`
  })
  return each.join('\n') || null
}

function percentOf({ progress }: FoundJob): string {
  return progress?.percent === null || progress === null ? '' : `${progress.percent} %`
}

function describeJobs(dependencies: readonly JobDependency[]): string | null {
  return dependencies.map(({ id, state }) => `${id} (${state ?? 'gone'})`).join(', ') || null
}

/** `signalbox jobs retry|cancel ID…`. */
function actCommand(printer: Printer, act: 'retry' | 'cancel'): CliCommand {
  const about =
    act === 'retry'
      ? 'make ended jobs ready again, with attempt 0'
      : 'cancel jobs; running jobs get a cancellation request'
  return new CliCommand(act, about)
    .argument('<id...>', 'the jobs')
    .note(`For all jobs of a search: signalbox jobs bulk ${act} --search …`)
    .examples(`jobs ${act} 01k9z3v8qe0m4t9wq3rb5c7xkd`)
    .onBox((ids: readonly string[], { json }: BoxFlags) => async (box) => {
      for (const id of ids) {
        const answer = { id, ...(await box.jobs[act](id)) }
        const isRequested = 'cancelRequested' in answer && answer.cancelRequested
        printer.answer(json, answer, `${id}  ${isRequested ? 'cancellation requested' : answer.state}`)
      }
    })
}
