/**
 * How fast a backlog of no-op jobs is worked off by one worker process: from the start of the worker until the store
 * has settled the last of them, so that no contestant ends with acks still in memory. Signalbox and the limits write a
 * history row for every job; pg-boss keeps its finished jobs as it always does; graphile-worker and the tuned BullMQ
 * keep nothing.
 */
import type { Case, Conditions, Contestant, Figures, Trial } from '../../case.ts'
import { atLeastTimes, printed } from '../../goal.ts'
import { type Engine, groundOf } from './ground.ts'
import { fill, type Lane, type OpenLane, Tally, untilEmpty } from './lane.ts'
import { type LaneName, lanes } from './lanes.ts'
import { createPlace } from './place.ts'

/** How many jobs. */
export interface Load {
  readonly quick: number
  readonly full: number
}

/** The backlog that those who are quick work off. */
const backlog: Load = { quick: 20_000, full: 40_000 }
/** A smaller one for those who are not: it makes pg-boss faster, whose rate falls with the backlog, and BullMQ no slower. */
const smaller: Load = { quick: 10_000, full: 20_000 }

export const drained =
  (name: LaneName, load: Load = backlog): Contestant =>
  async (conditions) => {
    const { engine, load: loadLane } = lanes[name]
    return await drainLane(conditions, engine, await loadLane(), load)
  }

/** The rate at which one lane works off its backlog, in a new place. */
export async function drainLane(
  conditions: Conditions,
  engine: Engine,
  openLane: OpenLane,
  load: Load = backlog,
): Promise<Figures> {
  await using place = await createPlace(conditions, engine)
  await using lane = await openLane(place.url)
  const count = conditions.quick ? load.quick : load.full

  // Half of it again: otherwise a contestant that finishes a small backlog in milliseconds would be timed before half of its
  // code is compiled, while real workers run for days.
  const warmUp = count / 2
  await fill(lane, warmUp)
  await workOff(lane, warmUp)
  await fill(lane, count)
  await place.settleDown()
  const ms = await workOff(lane, count)
  return { rate: (count / ms) * 1_000 }
}

async function workOff(lane: Lane, count: number): Promise<number> {
  const tally = new Tally(count)
  const startedAt = performance.now()
  const worker = await lane.work(tally.handle, tally.fail)
  await tally.done
  await untilEmpty(lane)
  const ms = performance.now() - startedAt
  await worker.stop()
  return ms
}

const rate = { unit: 'jobs/s', better: 'higher', figure: 'rate' } as const satisfies Partial<Case>
const tunedPeers = ['graphile-worker', 'pg-boss', 'BullMQ'] as const

export const drainTrials: readonly Trial[] = [
  {
    name: 'drain-tuned',
    open: groundOf('postgres', 'redis'),
    contestants: {
      signalbox: drained('signalbox tuned'),
      'graphile-worker': drained('graphile-worker tuned'),
      'pg-boss': drained('pg-boss tuned', smaller),
      BullMQ: drained('BullMQ tuned', smaller),
      limit: drained('raw postgres'),
    },
    cases: [
      { ...rate, name: 'drain-tuned', peers: tunedPeers, goal: atLeastTimes(1.5, 'best peer') },
      { ...rate, name: 'drain-to-limit', peers: [], goal: printed },
    ],
  },
  {
    name: 'drain-default',
    open: groundOf('postgres', 'redis'),
    contestants: {
      signalbox: drained('signalbox'),
      'graphile-worker': drained('graphile-worker', { quick: 1_000, full: 2_000 }),
      BullMQ: drained('BullMQ', { quick: 4_000, full: 8_000 }),
    },
    cases: [
      {
        ...rate,
        name: 'drain-default',
        peers: ['graphile-worker'],
        goal: atLeastTimes(20, 'graphile-worker'),
        // Two seconds a job: measuring it would only be waiting.
        constants: { 'pg-boss': '0.5' },
      },
      { ...rate, name: 'drain-default-bullmq', peers: ['BullMQ'], goal: atLeastTimes(8, 'BullMQ') },
    ],
  },
  {
    name: 'drain-mariadb',
    open: groundOf('mariadb'),
    contestants: { signalbox: drained('signalbox mariadb'), limit: drained('raw mariadb') },
    cases: [{ ...rate, name: 'drain-mariadb', peers: [], goal: atLeastTimes(0.7, 'limit') }],
  },
  {
    name: 'drain-sqlite',
    open: groundOf('sqlite'),
    contestants: { signalbox: drained('signalbox sqlite'), limit: drained('raw sqlite') },
    cases: [{ ...rate, name: 'drain-sqlite', peers: [], goal: atLeastTimes(0.45, 'limit') }],
  },
]
