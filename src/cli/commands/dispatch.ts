import { Command, Option } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import { whole } from '../../core/options.ts'
import type { Explanation, FoundTask, Task, TaskStatus } from '../../dispatch/index.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { numberOr, spanOf } from '../config/value-kinds.ts'
import { type Cell, type Printer, printTable, showSpan } from '../print.ts'
import type { Stage } from '../verbs.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

/** `signalbox tasks ls|show|cancel|explain`: the tasks that nodes do. */
export function tasksCommand({ printer }: Stage): Command {
  return new Command('tasks')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox tasks ls --status waiting\n  signalbox tasks explain 01k9z3v8qe0m4t9wq3rb5c7xkd\n  signalbox tasks cancel 01k9z3v8qe0m4t9wq3rb5c7xkd --reason "wrong file"',
    )
    .addCommand(listTasksCommand(printer))
    .addCommand(showTaskCommand(printer))
    .addCommand(cancelTaskCommand(printer))
    .addCommand(explainTaskCommand(printer))
}

/** Repeated here, so that the help does not load the module of dispatch. */
const statuses: readonly TaskStatus[] = ['waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled']

interface ListFlags extends PlaceFlags {
  readonly status?: TaskStatus
  readonly limit: string
  readonly cursor?: string
}

function listTasksCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list tasks, newest first')
    .addOption(new Option('--status <status>', 'only this status').choices(statuses))
    .option('--limit <count>', 'the most tasks, up to 500', '50')
    .option('--cursor <id>', 'the cursor of the previous page')
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
      if (page.items.length === 0) return printer.line('No tasks found.')
      const now = Date.now()
      printTable(
        printer,
        ['=ID', 'STATUS', 'SERVICE', 'NODE', 'ATTEMPT', 'AGE', 'ERROR'],
        page.items.map((task) => rowOf(task, now)),
      )
      if (page.cursor !== null) printer.hint(`there may be more; continue with --cursor ${page.cursor}`)
    })
  return addBoxFlags(command)
}

function rowOf(task: Task, now: number): readonly Cell[] {
  const { taskId, status, service, nodeId, attempt, submittedAt, error } = task
  return [taskId, status, service, nodeId, attempt, showSpan(now - submittedAt), error?.message ?? '']
}

function showTaskCommand(printer: Printer): Command {
  const command = new Command('show')
    .description('show one task: status, node, requirements, payload')
    .argument('<id>', 'the task')
    .addHelpText('after', '\nExamples:\n  signalbox tasks show 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      const task = await box.dispatch.task(id)
      if (task === undefined)
        throw new SignalboxError(
          'not_found',
          `There is no task "${id}". It was never submitted, or it was deleted.`,
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

function cancelTaskCommand(printer: Printer): Command {
  const command = new Command('cancel')
    .description('cancel tasks; nodes that run them are asked to stop')
    .argument('<id...>', 'the tasks')
    .option('--reason <text>', 'the reason, shown to the node and to watchers of the task')
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

function explainTaskCommand(printer: Printer): Command {
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

/** `signalbox nodes ls|drain|cordon|uncordon`: the nodes that do tasks. */
export function nodesCommand({ printer }: Stage): Command {
  return new Command('nodes')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox nodes ls --url http://127.0.0.1:7420\n  signalbox nodes drain gpu-1 --deadline 10m\n  signalbox nodes cordon gpu-1 --service asr',
    )
    .addCommand(listNodesCommand(printer))
    .addCommand(drainCommand(printer))
    .addCommand(
      cordonCommand(printer, 'cordon', 'give a node, or one of its services, no new work until uncordon'),
    )
    .addCommand(cordonCommand(printer, 'uncordon', 'end a cordon, also of a node that is gone'))
}

function listNodesCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list nodes with their services and used slots')
    .addHelpText('after', '\nExamples:\n  signalbox nodes ls\n  signalbox nodes ls --json')
    .action(async ({ json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      if ('look' in box.dispatch) await box.dispatch.look()
      const items = await box.dispatch.nodes()
      if (json) return printer.json({ items })
      if (items.length === 0) return printer.line('No node is connected.')
      const now = Date.now()
      printTable(
        printer,
        ['NODE', 'STATUS', 'SERVICES', 'TASKS', 'SEEN', 'NOTES'],
        items.map((node) => [
          node.nodeId,
          node.status,
          node.services.map(({ name, used, slots }) => `${name} ${used}/${slots}`).join(', '),
          node.taskIds.length,
          `${showSpan(now - node.seenAt)} ago`,
          [
            ...(node.draining ? ['draining'] : []),
            ...(node.cordoned ? ['cordoned'] : []),
            ...node.services.flatMap(({ name, cordoned }) => (cordoned ? [`${name} cordoned`] : [])),
          ].join(', '),
        ]),
      )
    })
  return addBoxFlags(command)
}

interface DrainFlags extends PlaceFlags {
  readonly deadline?: string
  readonly off?: boolean
}

function drainCommand(printer: Printer): Command {
  const command = new Command('drain')
    .description('give a node no new work; running tasks may end')
    .argument('<node>', 'the node')
    .option('--deadline <span>', 'then running tasks go to other nodes')
    .option('--off', 'give it work again')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox nodes drain gpu-1 --deadline 10m\n  signalbox nodes drain gpu-1 --off',
    )
    .action(async (node: string, { json, deadline, off = false, ...place }: DrainFlags) => {
      await using box = await openPlace(command, place)
      await box.dispatch.drain(node, {
        on: !off,
        ...(deadline === undefined ? {} : { deadlineMs: spanOf('--deadline', deadline) }),
      })
      if (json) printer.json({ nodeId: node, draining: !off })
      else printer.line(off ? `${node} gets work again` : `${node} gets no new work`)
    })
  return addBoxFlags(command)
}

interface CordonFlags extends PlaceFlags {
  readonly service?: string
}

/** A service may be cordoned before its node offers it. If the node offers others, the name may be misspelt: list them. */
async function showOthers(box: Box | RemoteBox, nodeId: string, service: string): Promise<string> {
  if ('look' in box.dispatch) await box.dispatch.look()
  const names = (await box.dispatch.node(nodeId))?.services.map(({ name }) => name) ?? []
  return names.length === 0 || names.includes(service)
    ? ''
    : ` (it does not offer it; it has ${names.join(', ')})`
}

/** Unlike a drain, a cordon survives a reconnect of the node, and may apply to one service. */
function cordonCommand(printer: Printer, name: 'cordon' | 'uncordon', about: string): Command {
  const command = new Command(name)
    .description(about)
    .argument('<node>', 'the node')
    .option('--service <name>', 'only this service (default: the whole node)')
    .addHelpText(
      'after',
      `\nExamples:\n  signalbox nodes ${name} gpu-1\n  signalbox nodes ${name} gpu-1 --service asr --json`,
    )
    .action(async (node: string, { json, service, ...place }: CordonFlags) => {
      await using box = await openPlace(command, place)
      await box.dispatch[name](node, { service })
      const cordoned = name === 'cordon'
      if (json) return printer.json({ nodeId: node, service: service ?? null, cordoned })
      const what = service === undefined ? node : `${service} of ${node}`
      const done = cordoned ? `${what} is cordoned: it gets no new work` : `${what} is no longer cordoned`
      printer.line(done + (service === undefined ? '' : await showOthers(box, node, service)))
    })
  return addBoxFlags(command)
}
