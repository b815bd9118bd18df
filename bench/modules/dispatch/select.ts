/**
 * What it takes to choose a node for a task and reserve its slot, with heartbeats between: in the registry, in a
 * registry behind a read-write lock, and in the plainest code there is.
 */
import type { Conditions, Contestant, Trial } from '../../case.ts'
import { atMost, printed } from '../../goal.ts'
import { figuresOf, Latencies } from './latencies.ts'
import { keyOf, PlainSlots } from './plain-slots.ts'
import { LockedRegistry } from './registry/locked-registry.ts'
import { asks, memberOf, runningIn, serviceNames } from './registry/population.ts'
import { RegistryFleet } from './registry/registry-fleet.ts'

function timedTurns({ quick }: Conditions): number {
  return quick ? 30_000 : 200_000
}

function signalbox(nodeCount: number): Contestant {
  return (conditions) => {
    const fleet = new RegistryFleet(nodeCount)
    const latencies = new Latencies(timedTurns(conditions))
    warm(fleet, nodeCount)
    while (!latencies.isFull) fleet.turn(latencies)
    return figuresOf(latencies)
  }
}

/** Until as many run as ever will, and the code is compiled. */
function warm(fleet: RegistryFleet, nodeCount: number): void {
  for (let turn = 0; turn < runningIn(nodeCount) + 20_000; turn++) fleet.turn(null)
}

/** It takes milliseconds where the others take microseconds, so it is given a time and not a number. */
function locked(nodeCount: number): Contestant {
  return async ({ quick }) => {
    const registry = new LockedRegistry(Array.from({ length: nodeCount }, (_, number) => memberOf(number)))
    const latencies = new Latencies(5_000)
    const held: { nodeId: string; service: string }[] = []
    const turn = async (number: number, taken: Latencies | null): Promise<void> => {
      const ask = asks[number % asks.length]!
      const begun = performance.now()
      const nodeId = await registry.dispatch(ask)
      taken?.add(performance.now() - begun)
      held.push({ nodeId, service: ask.service })
      await registry.heartbeat(`node-${number % nodeCount}`, (number % 100) / 100)
      const over = held.length > runningIn(nodeCount) / 2 ? held.shift() : undefined
      if (over) await registry.release(over.nodeId, over.service)
    }
    for (let number = 0; number < 20; number++) await turn(number, null)
    const until = performance.now() + (quick ? 1_000 : 3_000)
    while (!latencies.isFull && (performance.now() < until || latencies.count < 30))
      await turn(20 + latencies.count, latencies)
    return figuresOf(latencies)
  }
}

function limit(nodeCount: number): Contestant {
  return (conditions) => {
    const slots = new PlainSlots(nodeCount)
    const latencies = new Latencies(timedTurns(conditions))
    const most = runningIn(nodeCount)
    const running: (() => void)[] = []
    for (let turn = -(most + 20_000); turn < 0 || !latencies.isFull; turn++) {
      const ask = asks[(turn + most + 20_000) % asks.length]!
      const key = keyOf(ask)
      const service = serviceNames.indexOf(ask.service)
      const begun = performance.now()
      const node = slots.reserve(key, service)
      const ms = performance.now() - begun
      if (turn >= 0) latencies.add(ms)
      const at = (turn + most + 20_000) % most
      running[at]?.()
      running[at] = () => slots.release(key, service, node)
    }
    return figuresOf(latencies)
  }
}

function trial(nodeCount: number, label: string, goalMicroseconds: number): Trial {
  const each = { peers: ['rw lock'] } as const
  return {
    name: `select-${label}`,
    contestants: {
      signalbox: signalbox(nodeCount),
      'rw lock': locked(nodeCount),
      limit: limit(nodeCount),
    },
    cases: [
      {
        ...each,
        ...{ name: `select-${label}-p99`, unit: `us, ${label} nodes x 8 services`, better: 'lower' },
        ...{ figure: 'p99', goal: atMost(goalMicroseconds) },
      },
      {
        ...each,
        ...{ name: `select-${label}-p50`, unit: 'us', better: 'lower', figure: 'p50', goal: printed },
      },
      {
        ...each,
        ...{ name: `select-${label}-rate`, unit: 'a second, in a row', better: 'higher' },
        ...{ figure: 'rate', goal: printed },
      },
    ],
  }
}

/** Both fleets are in one process and take turns: the figures are ratios of times that saw the same machine. */
const growth: Contestant = (conditions) => {
  const few = { fleet: new RegistryFleet(100), latencies: new Latencies(timedTurns(conditions)) }
  const many = { fleet: new RegistryFleet(100_000), latencies: new Latencies(timedTurns(conditions)) }
  warm(few.fleet, 100)
  warm(many.fleet, 100_000)
  while (!many.latencies.isFull) {
    for (const { fleet, latencies } of [few, many])
      for (let turn = 0; turn < 1_000; turn++) fleet.turn(latencies)
  }
  return {
    p50: many.latencies.at(0.5) / few.latencies.at(0.5),
    p99: many.latencies.at(0.99) / few.latencies.at(0.99),
  }
}

const growthTrial: Trial = {
  name: 'select-growth',
  contestants: { signalbox: growth },
  cases: [
    {
      ...{ name: 'select-growth', unit: 'x at p99, 100 to 100 k nodes', better: 'lower', figure: 'p99' },
      ...{ peers: [], goal: atMost(5) },
    },
    {
      ...{ name: 'select-growth-p50', unit: 'x at p50, 100 to 100 k nodes', better: 'lower', figure: 'p50' },
      ...{ peers: [], goal: atMost(5) },
    },
  ],
}

export const selectTrials: readonly Trial[] = [
  trial(10_000, '10k', 25),
  trial(100_000, '100k', 50),
  growthTrial,
]
