import type { Command } from 'commander'
import { oneOf } from '../../../core/options.ts'
import type { FleetWorker, FleetWorkerState } from '../../../jobs/index.ts'
import { spanOf } from '../../config/value-kinds.ts'
import { type Printer, printList, showSpan } from '../../print.ts'
import type { Stage } from '../../verbs.ts'
import { type Flags, openPlace, type PlacedJobs, type PlaceFlags, Verb } from '../place.ts'

/** `signalbox workers ls|quiet|resume|stop`: shows the workers of all processes, and operates them. */
export function workersCommand({ printer }: Stage): Command {
  return new Verb('workers').group(
    listCommand(printer),
    switchCommand(printer, 'quiet', 'let a worker finish what it runs and claim nothing more'),
    switchCommand(printer, 'resume', 'let a quiet worker claim again'),
    stopCommand(printer),
  )
}

/** Repeated here, so that the help does not load the module. */
const states: readonly FleetWorkerState[] = ['running', 'quiet', 'stopping', 'gone']

type ListFlags = Flags<'queue' | 'kind' | 'state' | 'host' | 'release'>

function listCommand(printer: Printer): Verb {
  const command = new Verb('ls', 'list the workers of all processes, and what each runs')
    .option('--queue <name>', 'those that take jobs of this queue')
    .option('--kind <name>', 'those that know this kind')
    .option('--state <state>', `one of ${states.join(', ')}`)
    .option('--host <name>', 'those on this host')
    .option('--release <version>', 'those of this release')
    .examples('workers ls', 'workers ls --queue mail', 'workers ls --state gone --json')
    .action(async ({ json, queue, kind, state, host, release, ...place }: ListFlags) => {
      const filter = {
        ...{ queue, kind, host, release },
        state: state === undefined ? undefined : oneOf('--state', state, states),
      }
      await using box = await openPlace(command, place)
      const jobs: PlacedJobs = box.jobs
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
    })
  return command.jobsFlags()
}

const heads = [
  ...['=WORKER', 'STATE', 'HOST', 'QUEUES', 'RUNNING', 'SLOTS', 'RELEASE', 'UP', 'SEEN', 'LONGEST'],
]

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

/** Whether an operator asked for something that the worker does not do yet. */
function isBehind({ state, wanted }: FleetWorker): boolean {
  const follows = { run: 'running', quiet: 'quiet', stop: 'stopping' } as const
  return state !== 'gone' && state !== 'stopping' && follows[wanted] !== state
}

const done: Readonly<Record<'quiet' | 'resume', string>> = {
  quiet: 'finishes what it runs and claims nothing more',
  resume: 'claims again',
}

function switchCommand(printer: Printer, name: 'quiet' | 'resume', about: string): Verb {
  return new Verb(name, about)
    .argument('<worker>', 'its id, from `signalbox workers ls`')
    .examples(`workers ${name} mail-1`, `workers ${name} mail-1 --json`)
    .onJobs(async (jobs, id: string, { json }: PlaceFlags) => {
      const worker = name === 'quiet' ? await jobs.quietWorker(id) : await jobs.resumeWorker(id)
      if (json) return printer.json(worker)
      printer.line(`${id} ${done[name]}`)
    })
}

function stopCommand(printer: Printer): Verb {
  const command = new Verb('stop', 'stop a worker in good order; its process goes on')
    .argument('<worker>', 'its id, from `signalbox workers ls`')
    .option('--grace <span>', 'how long what it runs may take to end (default: 10s)')
    .note('What has not ended then is handed back and runs elsewhere; that uses up no attempt.')
    .examples('workers stop mail-1', 'workers stop mail-1 --grace 5m')
    .action(async (id: string, { json, grace, ...place }: Flags<'grace'>) => {
      const options = grace === undefined ? {} : { graceMs: spanOf('--grace', grace) }
      await using box = await openPlace(command, place)
      const jobs: PlacedJobs = box.jobs
      const worker = await jobs.stopWorker(id, options)
      if (json) return printer.json(worker)
      printer.line(`${id} claims nothing more and stops when what it runs has ended`)
    })
  return command.jobsFlags()
}
