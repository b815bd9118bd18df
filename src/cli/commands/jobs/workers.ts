import type { Command } from 'commander'
import { oneOf } from '../../../core/options.ts'
import type { FleetWorker, FleetWorkerState } from '../../../jobs/index.ts'
import { spanOf } from '../../config/value-kinds.ts'
import { type Printer, printList, showSpan } from '../../print.ts'
import type { CommandContext } from '../../verbs.ts'
import { type BoxFlags, CliCommand, type Flags } from '../cli-command.ts'

/** `signalbox workers ls|quiet|resume|stop`: shows, quiets, resumes and stops the workers of all processes. */
export function workersCommand({ printer }: CommandContext): Command {
  return new CliCommand('workers').group(
    listCommand(printer),
    switchCommand(printer, 'quiet', 'let a worker finish what it runs and claim nothing more'),
    switchCommand(printer, 'resume', 'let a quiet worker claim again'),
    stopCommand(printer),
  )
}

/** Repeated here, so that the help does not load the module of jobs. */
const states: readonly FleetWorkerState[] = ['running', 'quiet', 'stopping', 'gone']

type ListFlags = Flags<'queue' | 'kind' | 'state' | 'host' | 'release'>

function listCommand(printer: Printer): CliCommand {
  return new CliCommand('ls', 'list the workers of all processes, and what each runs')
    .option('--queue <name>', 'those that take jobs of this queue')
    .option('--kind <name>', 'those that know this kind')
    .option('--state <state>', `one of ${states.join(', ')}`)
    .option('--host <name>', 'those on this host')
    .option('--release <version>', 'those of this release')
    .examples('workers ls', 'workers ls --queue mail', 'workers ls --state gone --json')
    .onJobs(({ json, queue, kind, state, host, release }: ListFlags) => {
      const filter = {
        queue,
        kind,
        host,
        release,
        state: state === undefined ? undefined : oneOf('--state', state, states),
      }
      return async (jobs) => {
        const items: FleetWorker[] = []
        let at = 0
        let cursor: string | null = null
        do {
          const page = await jobs.workers({ ...filter, cursor, limit: 500 })
          items.push(...page.items)
          ;({ cursor, at } = page)
        } while (cursor !== null)
        if (json) return printer.json({ items, at })
        printList(printer, { items }, noneOf(filter), heads, (worker) => rowOf(worker, at))
      }
    })
}

const heads = '=WORKER STATE HOST QUEUES RUNNING SLOTS RELEASE UP SEEN LONGEST'.split(' ')

function noneOf(filter: Readonly<Record<string, string | undefined>>): string {
  return Object.values(filter).some((value) => value !== undefined)
    ? 'No worker matches.'
    : 'There are no workers. One is listed when it starts: box.jobs.worker(…), or claims over HTTP.'
}

function rowOf(worker: FleetWorker, at: number): readonly (string | number | null)[] {
  const { id, state, wanted, host, queues, running, runningCount, concurrency, release } = worker
  const isGone = state === 'gone'
  const [longest] = running
  return [
    id,
    isBehind(worker) ? `${state}, asked to ${wanted}` : state,
    host,
    queues.join(', '),
    isGone ? null : runningCount,
    concurrency,
    release,
    isGone ? null : showSpan(at - worker.startedAt),
    `${showSpan(at - worker.seenAt)} ago`,
    longest === undefined || isGone ? null : `${longest.kind} ${showSpan(at - longest.since)}`,
  ]
}

/** Whether the worker does not yet follow the request of an operator. */
function isBehind({ state, wanted }: FleetWorker): boolean {
  const follows = { run: 'running', quiet: 'quiet', stop: 'stopping' } as const
  return state !== 'gone' && state !== 'stopping' && follows[wanted] !== state
}

const done: Readonly<Record<'quiet' | 'resume', string>> = {
  quiet: 'finishes what it runs and claims nothing more',
  resume: 'claims again',
}

function switchCommand(printer: Printer, name: 'quiet' | 'resume', about: string): CliCommand {
  return new CliCommand(name, about)
    .argument('<worker>', 'its id, from `signalbox workers ls`')
    .examples(`workers ${name} mail-1`, `workers ${name} mail-1 --json`)
    .onJobs((id: string, { json }: BoxFlags) => async (jobs) => {
      const worker = name === 'quiet' ? await jobs.quietWorker(id) : await jobs.resumeWorker(id)
      printer.answer(json, worker, `${id} ${done[name]}`)
    })
}

function stopCommand(printer: Printer): CliCommand {
  return new CliCommand('stop', 'stop a worker in good order; its process goes on')
    .argument('<worker>', 'its id, from `signalbox workers ls`')
    .option('--grace <span>', 'how long what it runs may take to end (default: 10s)')
    .note('What has not ended then is handed back and runs elsewhere; that uses up no attempt.')
    .examples('workers stop mail-1', 'workers stop mail-1 --grace 5m')
    .onJobs((id: string, { json, grace }: Flags<'grace'>) => {
      const graceMs = spanOf('--grace', grace)
      return async (jobs) => {
        const worker = await jobs.stopWorker(id, { graceMs })
        printer.answer(json, worker, `${id} claims nothing more and stops when what it runs has ended`)
      }
    })
}
