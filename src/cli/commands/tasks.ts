import { Command, Option } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import { whole } from '../../core/options.ts'
import type { Explanation, FoundTask, Task, TaskStatus } from '../../dispatch/index.ts'
import { numberOr } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { type Cell, printTable, showSpan } from '../table.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

/** `signalbox tasks ls|show|cancel|explain`: the tasks that nodes do. */
export function tasksCommand(printer: Printer): Command {
  return new Command('tasks')
    .description('show tasks, cancel them, and explain why one waits')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox tasks ls --status waiting\n  signalbox tasks explain 01k9z3v8qe0m4t9wq3rb5c7xkd\n  signalbox tasks cancel 01k9z3v8qe0m4t9wq3rb5c7xkd --reason "wrong file"',
    )
    .addCommand(listCommand(printer))
    .addCommand(showCommand(printer))
    .addCommand(cancelCommand(printer))
    .addCommand(explainCommand(printer))
}

/** Written again here, so that the help does not load the module of dispatch. */
const statuses: readonly TaskStatus[] = ['waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled']

interface ListFlags extends PlaceFlags {
  readonly status?: TaskStatus
  readonly limit: string
  readonly cursor?: string
}

function listCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list tasks, newest first')
    .addOption(new Option('--status <status>', 'of this status alone').choices(statuses))
    .option('--limit <count>', 'how many at most, up to 500', '50')
    .option('--cursor <id>', 'where the page before ended')
    .addHelpText('after', '\nExamples:\n  signalbox tasks ls\n  signalbox tasks ls --status waiting --json')
    .action(async ({ json, status, limit, cursor, ...place }: ListFlags) => {
      const options = {
        limit: whole('--limit', numberOr(limit), { min: 1, max: 500 }),
        ...(status === undefined ? {} : { status }),
        ...(cursor === undefined ? {} : { cursor }),
      }
      await using box = await openPlace(command, place)
      const page = await box.dispatch.tasks(options)
      if (json) return printer.json(page)
      if (page.items.length === 0) return printer.line('There are no such tasks.')
      const now = Date.now()
      printTable(
        printer,
        ['=ID', 'STATUS', 'SERVICE', 'NODE', 'ATTEMPT', 'AGE', 'ERROR'],
        page.items.map((task) => rowOf(task, now)),
      )
      if (page.cursor !== null) printer.hint(`there may be more; go on with --cursor ${page.cursor}`)
    })
  return addBoxFlags(command)
}

function rowOf(task: Task, now: number): readonly Cell[] {
  const { taskId, status, service, nodeId, attempt, submittedAt, error } = task
  return [taskId, status, service, nodeId, attempt, showSpan(now - submittedAt), error?.message ?? '']
}

function showCommand(printer: Printer): Command {
  const command = new Command('show')
    .description('show one task: its status, its node, what it asks for, what it carries')
    .argument('<id>', 'the task')
    .addHelpText('after', '\nExamples:\n  signalbox tasks show 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      const task = await box.dispatch.task(id)
      if (task === undefined)
        throw new SignalboxError(
          'not_found',
          `There is no task "${id}": it was never submitted, or it was pruned.`,
        )
      if (json) return printer.json(task)
      for (const [name, value] of fieldsOf(task)) printer.line(`${name.padEnd(12)}${value}`)
    })
  return addBoxFlags(command)
}

function fieldsOf(task: FoundTask): readonly (readonly [string, string])[] {
  const instant = (at: number | null) => (at === null ? null : new Date(at).toISOString())
  const json = (value: unknown) => (value === null ? null : JSON.stringify(value))
  const terms = (value: readonly unknown[]) => (value.length === 0 ? null : JSON.stringify(value))
  const { progress, error } = task
  const percent = progress?.percent ?? null
  const fields: Record<string, string | null> = {
    id: task.taskId,
    status: task.status,
    service: task.service,
    node: task.nodeId,
    attempt: String(task.attempt),
    uses: json(task.uses),
    requires: terms(task.requires),
    prefers: terms(task.prefers),
    priority: String(task.priority),
    tenant: task.tenant,
    session: task.session,
    submitted: instant(task.submittedAt),
    deadline: task.deadlineMs === null ? null : instant(task.submittedAt + task.deadlineMs),
    ended: instant(task.finishedAt),
    progress: progress && [percent === null ? '' : `${percent} %`, progress.note].filter(Boolean).join(' '),
    payload: json(task.payload),
    output: json(task.output),
    error: error && `${error.code}: ${error.message}`,
  }
  return Object.entries(fields).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]))
}

interface CancelFlags extends PlaceFlags {
  readonly reason?: string
}

function cancelCommand(printer: Printer): Command {
  const command = new Command('cancel')
    .description('end tasks that wait, and ask the nodes of those that run to stop')
    .argument('<id...>', 'the tasks')
    .option('--reason <text>', 'why; the node and those who watch the task see it')
    .addHelpText(
      'after',
      '\nA task that has ended stays as it is.\n\nExamples:\n  signalbox tasks cancel 01k9z3v8qe0m4t9wq3rb5c7xkd --reason "wrong file"',
    )
    .action(async (ids: readonly string[], { json, reason, ...place }: CancelFlags) => {
      await using box = await openPlace(command, place)
      for (const id of ids) {
        const task = await box.dispatch.cancel(id, reason === undefined ? {} : { reason })
        if (json) printer.json(task)
        else printer.line(`${id}  ${task.finishedAt === null ? 'asked to stop' : task.status}`)
      }
    })
  return addBoxFlags(command)
}

function explainCommand(printer: Printer): Command {
  const command = new Command('explain')
    .description('explain why a task waits: which requirements nodes fail, and what would let it run')
    .argument('<id>', 'the task')
    .addHelpText('after', '\nExamples:\n  signalbox tasks explain 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      const explanation = await box.dispatch.explain(id)
      if (json) printer.json(explanation)
      else printExplanation(printer, explanation)
    })
  return addBoxFlags(command)
}

function printExplanation(printer: Printer, explanation: Explanation): void {
  const { nodeCount, suitableCount, readyCount, requirements, nearest, wakes } = explanation
  printer.line(
    `${nodeCount} nodes: ${readyCount} could take it now, ${suitableCount} fit and are busy or closed, ${nodeCount - readyCount - suitableCount} do not fit`,
  )
  if (nodeCount > 0)
    printTable(
      printer,
      ['REQUIREMENT', 'NODES THAT FAIL IT'],
      requirements.map(({ requirement, failingCount }) => [requirement, failingCount]),
    )
  for (const { nodeId, missing } of nearest) printer.line(`nearest: ${nodeId} lacks ${missing.join(', ')}`)
  for (const wake of wakes) printer.line(`it runs when: ${wake}`)
}
