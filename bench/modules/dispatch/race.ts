/**
 * Eight servers share a thousand nodes of four slots over Postgres and Redis, 95 % of the slots are in use all the time,
 * and servers are repeatedly killed by kill -9 and started anew. Nodes count for themselves what they run at a time:
 * that is a fact no registry can hide. Afterwards, when a lease and a heartbeat have passed, as many tasks as there are
 * slots must all run at once; what does not is leaked.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from 'signalbox'
import type { Contestant, Trial } from '../../case.ts'
import { atLeast, atMost, printed } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { type Forked, forked } from './forked.ts'
import type { RacePayload } from './race-node.ts'
import type { RaceNodesOrder, RaceReading } from './race-nodes-process.ts'
import type { RaceServerOrder } from './race-server-process.ts'

const serverCount = 8
const nodeCount = 1_000
const slots = 4
const slotCount = nodeCount * slots
const fill = Math.floor(slotCount * 0.95)
const leaseMs = 5_000
const heartbeatMs = 2_000
const killEveryMs = 1_500
/** Far longer than a task, a lease and a start take together. */
const reachMs = 40_000
/** On a slow machine a server takes its time to come back; the killing ends then, whatever the number. */
const longestMs = 45_000

const signalbox: Contestant = async (conditions) => {
  const killCount = conditions.quick ? 3 : 10
  await using database = await createPlace(conditions, 'postgres')
  await using redis = await createPlace(conditions, 'redis')
  await using box = await open(database.url, { redis: redis.url, migrate: true })
  await using servers = await Servers.start({
    database: database.url,
    redis: redis.url,
    leaseMs,
    heartbeatMs,
  })
  await using nodes = new Nodes(servers.ports)
  await nodes.until('all nodes are welcome', ({ welcomes }) => welcomes >= nodeCount)

  const load = new Load(box, nodes)
  const loading = load.run()
  // The first error is the one that is reported.
  loading.catch(() => undefined)
  await nodes.until('the slots are filled', ({ running }) => running >= fill * 0.9)
  const killUntil = performance.now() + longestMs
  let kills = 0
  for (; kills < killCount && performance.now() < killUntil; kills++) {
    await sleep(killEveryMs * (0.5 + Math.random()))
    await servers.killOne()
  }
  load.stop()
  await loading
  const last = await nodes.reach(({ settled }) => settled >= load.submitted)

  await sleep(leaseMs + heartbeatMs)
  await submit(box, slotCount, 2 * reachMs)
  const { running, overCommitted } = await nodes.reach((seen) => seen.running >= slotCount)
  return {
    overCommitted,
    leaked: slotCount - running,
    lost: Math.max(0, load.submitted - last.settled),
    kills,
    tasks: load.submitted,
  }
}

async function submit(box: Box, count: number, holdMs: number): Promise<void> {
  const payload: RacePayload = { holdMs }
  await Promise.all(Array.from({ length: count }, () => box.dispatch.submit({ service: 'asr', payload })))
}

/** Keeps as many tasks in flight as fill the slots to the mark. */
class Load {
  readonly #box: Box
  readonly #nodes: Nodes
  #isOver = false
  submitted = 0

  constructor(box: Box, nodes: Nodes) {
    this.#box = box
    this.#nodes = nodes
  }

  async run(): Promise<void> {
    while (!this.#isOver) {
      const { settled } = await this.#nodes.read()
      const room = Math.min(500, fill - (this.submitted - settled))
      if (room > 0) {
        await submit(this.#box, room, 2_000 + Math.random() * 2_000)
        this.submitted += room
      } else await sleep(50)
    }
  }

  stop(): void {
    this.#isOver = true
  }
}

/** The nodes' processes, and what they have seen together. */
class Nodes implements AsyncDisposable {
  readonly #processes: readonly Forked[]

  constructor(ports: readonly number[]) {
    this.#processes = ['even', 'odd'].map((name) =>
      forked('race-nodes-process.ts', { name, count: nodeCount / 2, slots, ports } satisfies RaceNodesOrder),
    )
  }

  async read(): Promise<RaceReading> {
    const all = await Promise.all(this.#processes.map((process) => process.ask<RaceReading>('read')))
    return all.reduce((sum, one) => ({
      overCommitted: sum.overCommitted + one.overCommitted,
      running: sum.running + one.running,
      settled: sum.settled + one.settled,
      welcomes: sum.welcomes + one.welcomes,
    }))
  }

  /** The first reading for which it holds, or the last one before the time is over. */
  async reach(holds: (reading: RaceReading) => boolean): Promise<RaceReading> {
    const until = performance.now() + reachMs
    for (;;) {
      const reading = await this.read()
      if (holds(reading) || performance.now() > until) return reading
      await sleep(50)
    }
  }

  async until(what: string, holds: (reading: RaceReading) => boolean): Promise<void> {
    const reading = await this.reach(holds)
    if (!holds(reading)) throw new Error(`not in time: ${what} (${JSON.stringify(reading)})`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.kill()))
  }
}

/** The servers' processes; one that is killed comes back on the same port. */
class Servers implements AsyncDisposable {
  readonly #order: Omit<RaceServerOrder, 'port'>
  readonly #processes: Forked[]
  readonly ports: readonly number[]

  private constructor(order: Omit<RaceServerOrder, 'port'>, processes: Forked[], ports: readonly number[]) {
    this.#order = order
    this.#processes = processes
    this.ports = ports
  }

  static async start(order: Omit<RaceServerOrder, 'port'>): Promise<Servers> {
    const processes = Array.from({ length: serverCount }, () => startOne(order, 0))
    const ports = await Promise.all(processes.map((process) => process.ask<number>('port')))
    return new Servers(order, processes, ports)
  }

  async killOne(): Promise<void> {
    const number = Math.floor(Math.random() * serverCount)
    await this.#processes[number]!.kill()
    const again = startOne(this.#order, this.ports[number]!)
    this.#processes[number] = again
    await again.ask('port')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.kill()))
  }
}

function startOne(order: Omit<RaceServerOrder, 'port'>, port: number): Forked {
  return forked('race-server-process.ts', { ...order, port } satisfies RaceServerOrder)
}

const each = { better: 'lower', peers: [] } as const

export const raceTrial: Trial = {
  name: 'race',
  open: groundOf('postgres', 'redis'),
  contestants: { signalbox },
  cases: [
    {
      ...each,
      ...{ name: 'race-over-committed', unit: 'tasks too many, 8 servers, kill -9', figure: 'overCommitted' },
      goal: atMost(0),
    },
    { ...each, name: 'race-leaked', unit: 'slots of 4 k', figure: 'leaked', goal: atMost(0) },
    { ...each, name: 'race-lost', unit: 'tasks without an end', figure: 'lost', goal: atMost(0) },
    { ...each, name: 'race-kills', unit: 'kill -9', better: 'higher', figure: 'kills', goal: atLeast(1) },
    { ...each, name: 'race-tasks', unit: 'tasks', better: 'higher', figure: 'tasks', goal: printed },
  ],
}
