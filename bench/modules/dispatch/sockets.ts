/**
 * One server and a thousand nodes on real sockets, each in processes of their own, with heartbeats: how many tasks a
 * second come to their end. In memory the limit is a bare `ws` server with the same frames; on SQLite it is the rows that
 * have to be written, in the same batches, with no server at all.
 *
 * 0.6 of those rows is asked for twice. `sockets-sqlite-rows` is the figure as it was written down: a server, its nodes
 * and its store against a loop that has neither. Beside it stands what no server can do more than: the bare `ws` server with
 * a thread that writes the raw rows. On two cores that makes about 0.4 of the raw rows, so 0.6 is out of reach there.
 * `task-rows` is the store's part of it, which can be compared: the same documents in the same batches through the store
 * that a server has, against the raw loop.
 */
import type { Conditions, Contestant, Figures, Trial } from '../../case.ts'
import { atLeast, atLeastTimes, atMost, printed } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import type { EchoOrder } from './echo-process.ts'
import { type Forked, forked } from './forked.ts'
import type { NodesOrder } from './nodes-process.ts'
import type { SocketsPace, Worked } from './paced.ts'
import { rawTasks } from './raw-tasks.ts'
import type { DispatchServerOrder } from './server-process.ts'
import { storedTasks } from './stored-tasks.ts'

const nodeCount = 1_000
const slots = 4
const underWay = 2_000
const idleCount = 10_000

function paceOf({ quick }: Conditions): SocketsPace {
  return quick ? { warmMs: 3_000, timedMs: 1_500 } : { warmMs: 4_000, timedMs: 4_000 }
}

async function workOf(server: Forked, conditions: Conditions): Promise<Figures> {
  await using nodes = await connectNodes(server, { name: 'node', count: nodeCount, slots })
  const { rate, microseconds } = await server.ask<Worked>('run', paceOf(conditions))
  await requireAll(nodes)
  return { rate, microseconds }
}

async function connectNodes(server: Forked, order: Omit<NodesOrder, 'port'>): Promise<Forked> {
  const port = await server.ask<number>('port')
  const nodes = forked('nodes-process.ts', { ...order, port } satisfies NodesOrder)
  await nodes.ask('connect')
  return nodes
}

async function requireAll(nodes: Forked): Promise<void> {
  const lost = await nodes.ask<number>('lost')
  if (lost > 0) throw new Error(`${lost} sockets were lost`)
}

const inMemory: Contestant = async (conditions) => {
  await using server = startServer('memory:')
  return await workOf(server, conditions)
}

const onSqlite: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = startServer(place.url)
  return await workOf(server, conditions)
}

const echo: Contestant = async (conditions) => {
  await using server = forked('echo-process.ts', { underWay } satisfies EchoOrder)
  return await workOf(server, conditions)
}

/** What no server can do more than: the frames and the rows, and nothing that connects them. */
const bare: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = forked('echo-process.ts', { underWay, database: place.url } satisfies EchoOrder)
  return await workOf(server, conditions)
}

const raw: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  return rawTasks(place.url, paceOf(conditions))
}

const stored: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  return await storedTasks(place.url, paceOf(conditions))
}

/** In two processes, so that neither needs as many files as the server. */
const idle: Contestant = async ({ quick }) => {
  await using server = startServer('memory:')
  await using some = await connectNodes(server, { name: 'some', count: idleCount / 2, slots })
  await using others = await connectNodes(server, { name: 'others', count: idleCount / 2, slots })
  // Past heartbeats and pings, which every socket must have survived.
  await new Promise((resolve) => setTimeout(resolve, quick ? 3_000 : 20_000))
  const bytes = await server.ask<number>('memory')
  await requireAll(some)
  await requireAll(others)
  return { megabytes: bytes / 1_048_576 }
}

function startServer(database: string): Forked {
  return forked('server-process.ts', { database, underWay } satisfies DispatchServerOrder)
}

const cost = {
  unit: 'us of processor, server',
  better: 'lower',
  figure: 'microseconds',
  goal: printed,
} as const
const rate = { unit: 'tasks/s, 1 k sockets', better: 'higher', figure: 'rate' } as const

const durable = { ...rate, unit: 'tasks/s, 1 k sockets, durable', peers: ['in memory'] } as const

export const socketTrials: readonly Trial[] = [
  {
    name: 'sockets-memory',
    contestants: { signalbox: inMemory, limit: echo },
    cases: [
      { ...rate, name: 'sockets-memory', peers: [], goal: atLeast(10_000) },
      { ...cost, name: 'sockets-memory-cost', peers: [] },
    ],
  },
  {
    name: 'sockets-sqlite',
    open: groundOf('sqlite'),
    contestants: { signalbox: onSqlite, 'in memory': inMemory, 'bare ws and rows': bare, limit: raw },
    cases: [
      {
        ...durable,
        ...{ name: 'sockets-sqlite', goal: atLeastTimes(0.5, 'in memory', 'Signalbox, in memory') },
      },
      {
        ...durable,
        name: 'sockets-sqlite-rows',
        peers: ['bare ws and rows'],
        goal: atLeastTimes(0.6, 'limit', 'the rows alone'),
      },
      { ...cost, name: 'sockets-sqlite-cost', peers: ['in memory'] },
    ],
  },
  {
    name: 'task-rows',
    open: groundOf('sqlite'),
    contestants: { signalbox: stored, limit: raw },
    cases: [
      {
        ...{ name: 'task-rows', unit: 'tasks/s, rows alone, durable', better: 'higher', figure: 'rate' },
        ...{ peers: [], goal: atLeastTimes(0.6, 'limit', 'the same rows raw') },
      },
      { ...cost, name: 'task-rows-cost', unit: 'us of processor', peers: [] },
    ],
  },
  {
    name: 'idle-sockets',
    contestants: { signalbox: idle },
    cases: [
      {
        ...{ name: 'idle-sockets', unit: 'MB resident, 10 k nodes', better: 'lower', figure: 'megabytes' },
        ...{ peers: [], goal: atMost(400) },
      },
    ],
  },
]
