/** Which share of tasks reaches a node that is full, by simulation, with one server and with eight that share a fleet. */
import type { Contestant, Trial } from '../../case.ts'
import type { Goal } from '../../goal.ts'
import { HeartbeatPlacer } from './registry/heartbeat-placer.ts'
import { RegistryPlacer } from './registry/registry-placer.ts'
import { type Placer, simulate } from './simulation.ts'

function percentOf(create: () => Placer): Contestant {
  return ({ quick }) => {
    const taskCount = quick ? 20_000 : 250_000
    return { percent: (simulate(create(), taskCount, 1).full / taskCount) * 100 }
  }
}

const goal: Goal = { text: '< 0.1', holds: ({ signalbox }) => signalbox < 0.1 }

function trial(name: string, serverCount: number): Trial {
  return {
    name,
    contestants: {
      signalbox: percentOf(() => new RegistryPlacer(serverCount)),
      'by heartbeats': percentOf(() => new HeartbeatPlacer()),
    },
    cases: [
      {
        ...{ name, unit: '% of tasks at a full node', better: 'lower', figure: 'percent' },
        ...{ peers: ['by heartbeats'], goal },
      },
    ],
  }
}

export const placementTrials: readonly Trial[] = [trial('placement-1', 1), trial('placement-8', 8)]
