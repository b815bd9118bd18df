/**
 * A backlog worked off by several worker processes with a handler that takes a millisecond and payloads of 1 KB, as users
 * run them. Each process has worked off a first backlog before the clock starts. The clock stops when the store has settled
 * the last job. `cpu` is what the worker processes used for one job, user and system time together.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { within } from '../../../../test/support/deadline.ts'
import type { Case, Contestant, Trial } from '../../../case.ts'
import { atLeastTimes, atMostTimes, type Goal } from '../../../goal.ts'
import { childFlags } from '../../../measure.ts'
import { groundOf } from '../ground.ts'
import { fill, type Lane, untilEmpty } from '../lane.ts'
import { type LaneName, lanes } from '../lanes.ts'
import { createPlace } from '../place.ts'
import type { FleetOrder, FleetReport } from './worker.ts'

/** Payload that stands beside the job's number, so that a payload has about 1 KB. */
const filler = 'x'.repeat(1_000)

/** After fewer jobs, much of a process's CPU time is that of Node's compilers; real workers run for days. */
const warmUpJobs = 20_000

/** Far more than starting a process or working off a backlog takes on a slow machine. */
const patienceMs = 120_000

interface Fleet {
  readonly processes: number
  readonly handlerMs: number
}

const drained =
  (name: LaneName, { processes, handlerMs }: Fleet): Contestant =>
  async (conditions) => {
    const { engine, load } = lanes[name]
    await using place = await createPlace(conditions, engine)
    await using lane = await (await load())(place.url)
    const count = conditions.quick ? 20_000 : 60_000
    await using workers = new AsyncDisposableStack()
    const children = Array.from({ length: processes }, () => {
      const order: FleetOrder = { lane: name, url: place.url, handlerMs }
      return workers.adopt(startWorker(order), endWorker)
    })
    await Promise.all(children.map((child) => answerOf(child)))

    await workOff(lane, children, warmUpJobs * processes)
    await fill({ addMany: (numbers) => lane.addMany(numbers, filler) }, count)
    await place.settleDown()
    const { ms, cpuMicros } = await workOffFilled(lane, children, count)
    return { rate: (count / ms) * 1_000, cpu: cpuMicros / count }
  }

async function workOff(lane: Lane, children: readonly ChildProcess[], count: number): Promise<void> {
  await fill({ addMany: (numbers) => lane.addMany(numbers, filler) }, count)
  await workOffFilled(lane, children, count)
}

async function workOffFilled(
  lane: Lane,
  children: readonly ChildProcess[],
  count: number,
): Promise<{ ms: number; cpuMicros: number }> {
  const started = children.map((child) => answerOf(child))
  const startedAt = performance.now()
  for (const child of children) child.send('start')
  await Promise.all(started)
  await within(patienceMs, 'the end of the backlog', untilEmpty(lane))
  const ms = performance.now() - startedAt
  const stopped = children.map((child) => answerOf<FleetReport>(child))
  for (const child of children) child.send('stop')
  const reports = await Promise.all(stopped)
  const handled = reports.reduce((sum, report) => sum + report.handled, 0)
  if (handled !== count) throw new Error(`${handled} jobs were handled, ${count} were added.`)
  return { ms, cpuMicros: reports.reduce((sum, { cpuMicros }) => sum + cpuMicros, 0) }
}

function startWorker(order: FleetOrder): ChildProcess {
  return fork(fileURLToPath(new URL('worker.ts', import.meta.url)), [JSON.stringify(order)], {
    execArgv: [...childFlags],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
}

async function endWorker(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** The next message of a worker process; throws when the process ends instead. */
async function answerOf<Answer>(child: ChildProcess): Promise<Answer> {
  const over = new AbortController()
  const { signal } = over
  try {
    const ended = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`a worker process ended with ${code}`)
    })
    const [answer] = await within(
      patienceMs,
      'the answer of a worker process',
      Promise.race([once(child, 'message', { signal }), ended]),
    )
    return answer as Answer
  } finally {
    over.abort()
  }
}

const peers = ['graphile-worker'] as const
const rate = { unit: 'jobs/s', better: 'higher', figure: 'rate', peers } as const satisfies Partial<Case>
const cpu = {
  unit: 'µs of CPU a job',
  better: 'lower',
  figure: 'cpu',
  peers,
} as const satisfies Partial<Case>

function fleetTrial(name: string, fleet: Fleet, goals: { readonly rate: Goal; readonly cpu?: Goal }): Trial {
  const lane = fleet.handlerMs === 0 ? 'tuned' : '50'
  return {
    name,
    open: groundOf('postgres'),
    contestants: {
      signalbox: drained(`signalbox ${lane}`, fleet),
      'graphile-worker': drained(`graphile-worker ${lane}`, fleet),
      limit: drained(`plain rows ${lane}`, fleet),
    },
    cases: [
      { ...rate, name, goal: goals.rate },
      ...(goals.cpu === undefined ? [] : [{ ...cpu, name: `${name}-cpu`, goal: goals.cpu }]),
    ],
  }
}

export const fleetTrials: readonly Trial[] = [
  fleetTrial(
    'workers-4',
    { processes: 4, handlerMs: 1 },
    {
      rate: atLeastTimes(1, 'best peer', 'stretch 1.3'),
      cpu: atMostTimes(1.2, 'best peer'),
    },
  ),
  fleetTrial('workers-1', { processes: 1, handlerMs: 1 }, { rate: atLeastTimes(1.2, 'best peer') }),
  fleetTrial('drain-tuned-4', { processes: 4, handlerMs: 0 }, { rate: atLeastTimes(1.3, 'best peer') }),
]
