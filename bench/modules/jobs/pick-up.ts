/**
 * How long a job that is added to an idle queue waits for its handler: from the call of `add` until the handler is
 * entered, which includes writing the job down. Between processes the two instants are read from the machine's one
 * monotonic clock. The pause between jobs is random, so that no contestant's polling falls into step with it.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Case, Contestant, Figures, Trial } from '../../case.ts'
import { atMostTimes } from '../../goal.ts'
import { childFlags } from '../../measure.ts'
import { groundOf } from './ground.ts'
import type { Lane } from './lane.ts'
import { type LaneName, lanes } from './lanes.ts'
import type { PickedUp } from './pick-up-worker.ts'
import { createPlace } from './place.ts'

/** Enough for all code on both sides to be compiled: with 20, the slowest of a hundred is a compiler's pause. */
const warmUps = 200

/** The worker in another process, as in production. */
const remote =
  (name: LaneName): Contestant =>
  async (conditions) => {
    const { engine, load } = lanes[name]
    await using place = await createPlace(conditions, engine)
    await using lane = await (await load())(place.url)
    const child = fork(
      fileURLToPath(new URL('pick-up-worker.ts', import.meta.url)),
      [JSON.stringify({ lane: name, url: place.url })],
      { execArgv: [...childFlags], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
    )
    try {
      let picked: (message: PickedUp) => void = () => undefined
      await ready(child)
      const collect = async () => {
        child.send('collect')
        await ready(child)
      }
      child.on('message', (message: PickedUp) => picked(message))
      return await sample(lane, conditions.quick, collect, (number) => {
        const { promise, resolve } = Promise.withResolvers<bigint>()
        picked = (message) => {
          if (message.number === number) resolve(BigInt(message.at))
        }
        return promise
      })
    } finally {
      // It has nothing to save.
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }

/** Ends the process, and so the measurement: its last words are the reason. */
function raise(error: unknown): void {
  throw error
}

async function ready(child: ChildProcess): Promise<void> {
  const told = await Promise.race([once(child, 'message'), once(child, 'exit')])
  if (told[0] !== 'ready') throw new Error(`the worker's process said ${JSON.stringify(told[0])}`)
}

/** Producer and worker in one process. */
const local =
  (name: LaneName): Contestant =>
  async (conditions) => {
    const { engine, load } = lanes[name]
    await using place = await createPlace(conditions, engine)
    await using lane = await (await load())(place.url)
    let picked: (number: number) => void = () => undefined
    const worker = await lane.work((number) => picked(number), raise)
    const figures = await sample(lane, conditions.quick, undefined, (number) => {
      const { promise, resolve } = Promise.withResolvers<bigint>()
      picked = (seen) => {
        if (seen === number) resolve(process.hrtime.bigint())
      }
      return promise
    })
    await worker.stop()
    return figures
  }

/** `collect` runs the garbage collector of the worker's process: the garbage of loading belongs to no contestant. */
async function sample(
  lane: Lane,
  quick: boolean,
  collect: (() => Promise<void>) | undefined,
  expect: (number: number) => Promise<bigint>,
): Promise<Figures> {
  const waits: number[] = []
  const count = quick ? 100 : 300
  for (let number = -warmUps; number < count; number++) {
    if (number === 0) {
      globalThis.gc!()
      await collect?.()
    }
    await sleep(2 + Math.random() * 5)
    const entered = expect(number)
    const addedAt = process.hrtime.bigint()
    await lane.add(number)
    const wait = Number((await entered) - addedAt) / 1e6
    if (number >= 0) waits.push(wait)
  }
  waits.sort((a, b) => a - b)
  return { p50: waits[Math.floor(count * 0.5)]!, p99: waits[Math.floor(count * 0.99)]! }
}

const wait = { unit: 'ms', better: 'lower' } as const satisfies Partial<Case>
const peers = ['graphile-worker', 'BullMQ on Postgres', 'pg-boss']
/** pg-boss pins nothing in process, so its two figures are one; the nearer two are enough here. */
const localPeers = ['graphile-worker', 'BullMQ on Postgres']

export const pickupTrials: readonly Trial[] = [
  {
    name: 'pickup',
    open: groundOf('postgres'),
    contestants: {
      signalbox: remote('signalbox'),
      'graphile-worker': remote('graphile-worker tuned'),
      'BullMQ on Postgres': remote('BullMQ on Postgres'),
      'pg-boss': remote('pg-boss tuned'),
    },
    cases: [
      { ...wait, name: 'pickup-p50', figure: 'p50', peers, goal: atMostTimes(1.1, 'best peer') },
      { ...wait, name: 'pickup-p99', figure: 'p99', peers, goal: atMostTimes(1, 'best peer') },
    ],
  },
  {
    name: 'pickup-local',
    open: groundOf('postgres'),
    contestants: {
      signalbox: local('signalbox'),
      'graphile-worker': local('graphile-worker tuned'),
      'BullMQ on Postgres': local('BullMQ on Postgres'),
    },
    cases: [
      {
        ...wait,
        name: 'pickup-local-p50',
        figure: 'p50',
        peers: localPeers,
        goal: atMostTimes(0.5, 'best peer'),
      },
      {
        ...wait,
        name: 'pickup-local-p99',
        figure: 'p99',
        peers: localPeers,
        goal: atMostTimes(0.5, 'best peer'),
      },
    ],
  },
]
