import { type Command, Option } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import { whole } from '../../core/options.ts'
import type { Explanation, FoundTask, Task, TaskStatus } from '../../dispatch/index.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { numberOr, spanOf } from '../config/value-kinds.ts'
import {
  type Cell,
  type Fields,
  instant,
  type Printer,
  printFields,
  printList,
  printTable,
  showSpan,
} from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import { type BoxFlags, CliCommand, type Flags } from './cli-command.ts'

/** `signalbox tasks ls|show|cancel|explain`: shows and cancels tasks of nodes. */
export function tasksCommand({ printer }: CommandContext): Command {
  return new CliCommand('tasks').group(
    listTasksCommand(printer),
    showTaskCommand(printer),
    cancelTaskCommand(printer),
    explainTaskCommand(printer),
  )
}

/** Repeated here, so that the help does not load the module of dispatch. */
const statuses: readonly TaskStatus[] = ['waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled']

type ListFlags = Flags<'cursor'> & { readonly status?: TaskStatus; readonly limit: string }

function listTasksCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list tasks, newest first')
    .addOption(new Option('--status <status>', 'only this status').choices(statuses))
    .option('--limit <count>', 'the most tasks, up to 500', '50')
    .option('--cursor <id>', 'the cursor of the previous page')
    .examples('tasks ls', 'tasks ls --status waiting --json')
    .onBox(({ json, status, limit, cursor }: ListFlags) => {
      const most = whole('--limit', numberOr(limit), { min: 1, max: 500 })
      return async (box) => {
        const page = await box.dispatch.tasks({ status, cursor, limit: most })
        if (json) return printer.json(page)
        const now = Date.now()
        const heads = ['=ID', 'STATUS', 'SERVICE', 'NODE', 'ATTEMPT', 'AGE', 'ERROR']
        printList(printer, page, 'No tasks found.', heads, (task) => rowOf(task, now))
      }
    })
}

function rowOf(task: Task, now: number): readonly Cell[] {
  const { taskId, status, service, nodeId, attempt, submittedAt, error } = task
  return [taskId, status, service, nodeId, attempt, showSpan(now - submittedAt), error?.message ?? '']
}

function showTaskCommand(printer: Printer): CliCommand {
  return new CliCommand('show', 'show one task: status, node, requirements, payload')
    .argument('<id>', 'the task')
    .examples('tasks show 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .onBox((id: string, { json }: BoxFlags) => async (box) => {
      const task = await box.dispatch.task(id)
      if (task === undefined)
        throw new SignalboxError(
          'not_found',
          `There is no task "${id}". It was never submitted, or it was deleted.`,
        )
      if (json) return printer.json(task)
      printFields(printer, fieldsOf(task))
    })
}

function fieldsOf(task: FoundTask): Fields {
  const json = (value: unknown) => (value === null ? null : JSON.stringify(value))
  const terms = (value: readonly unknown[]) => (value.length === 0 ? null : JSON.stringify(value))
  const { progress, error } = task
  const percent = progress?.percent ?? null
  return {
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
    submitted: new Date(task.submittedAt),
    deadline: task.deadlineMs === null ? null : new Date(task.submittedAt + task.deadlineMs),
    ended: instant(task.finishedAt),
    progress: progress && [percent === null ? '' : `${percent} %`, progress.note].filter(Boolean).join(' '),
    payload: json(task.payload),
    output: json(task.output),
    error: error && `${error.code}: ${error.message}`,
  }
}

function cancelTaskCommand(printer: Printer): CliCommand {
  return new CliCommand('cancel', 'cancel tasks; nodes that run them are asked to stop')
    .argument('<id...>', 'the tasks')
    .option('--reason <text>', 'the reason, shown to the node and to watchers of the task')
    .note('A task that has ended stays as it is.')
    .examples('tasks cancel 01k9z3v8qe0m4t9wq3rb5c7xkd --reason "wrong file"')
    .onBox((ids: readonly string[], { json, reason }: Flags<'reason'>) => async (box) => {
      for (const id of ids) {
        const task = await box.dispatch.cancel(id, { reason })
        printer.answer(json, task, `${id}  ${task.finishedAt === null ? 'asked to stop' : task.status}`)
      }
    })
}

function explainTaskCommand(printer: Printer): CliCommand {
  return new CliCommand('explain')
    .description('explain why a task waits: which requirements nodes fail, and what would let it run')
    .argument('<id>', 'the task')
    .examples('tasks explain 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .onBox((id: string, { json }: BoxFlags) => async (box) => {
      const explanation = await box.dispatch.explain(id)
      if (json) printer.json(explanation)
      else printExplanation(printer, explanation)
    })
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

/** `signalbox nodes ls|drain|cordon|uncordon`: shows nodes, and gives them no new work or work again. */
export function nodesCommand({ printer }: CommandContext): Command {
  return new CliCommand('nodes').group(
    listNodesCommand(printer),
    drainCommand(printer),
    cordonCommand(printer, 'cordon', 'give a node, or one of its services, no new work until uncordon'),
    cordonCommand(printer, 'uncordon', 'end a cordon, also of a node that is gone'),
  )
}

function listNodesCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list nodes with their services and used slots')
    .examples('nodes ls', 'nodes ls --json')
    .onBox(({ json }: BoxFlags) => async (box) => {
      if ('look' in box.dispatch) await box.dispatch.look()
      const items = await box.dispatch.nodes()
      if (json) return printer.json({ items })
      const now = Date.now()
      const heads = ['NODE', 'STATUS', 'SERVICES', 'TASKS', 'SEEN', 'NOTES']
      printList(printer, { items }, 'No node is connected.', heads, (node) => [
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
      ])
    })
}

function drainCommand(printer: Printer): CliCommand {
  return new CliCommand('drain', 'give a node no new work; running tasks may end')
    .argument('<node>', 'the node')
    .option('--deadline <span>', 'then running tasks go to other nodes')
    .option('--off', 'give it work again')
    .examples('nodes drain gpu-1 --deadline 10m', 'nodes drain gpu-1 --off')
    .onBox((node: string, { json, deadline, off = false }: Flags<'deadline', 'off'>) => async (box) => {
      await box.dispatch.drain(node, { on: !off, deadlineMs: spanOf('--deadline', deadline) })
      const line = off ? `${node} gets work again` : `${node} gets no new work`
      printer.answer(json, { nodeId: node, draining: !off }, line)
    })
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
function cordonCommand(printer: Printer, name: 'cordon' | 'uncordon', about: string): CliCommand {
  return new CliCommand(name, about)
    .argument('<node>', 'the node')
    .option('--service <name>', 'only this service (default: the whole node)')
    .examples(`nodes ${name} gpu-1`, `nodes ${name} gpu-1 --service asr --json`)
    .onBox((node: string, { json, service }: Flags<'service'>) => async (box) => {
      await box.dispatch[name](node, { service })
      const cordoned = name === 'cordon'
      if (json) return printer.json({ nodeId: node, service: service ?? null, cordoned })
      const what = service === undefined ? node : `${service} of ${node}`
      const done = cordoned ? `${what} is cordoned: it gets no new work` : `${what} is no longer cordoned`
      printer.line(done + (service === undefined ? '' : await showOthers(box, node, service)))
    })
}
