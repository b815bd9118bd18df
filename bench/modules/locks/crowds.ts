/**
 * Crowds over HTTP, each who waits with a stream: how long a hand-over takes with 50 and with ten thousand waiting, how
 * soon a thousand are told of one success, and what ten thousand who wait beside ten thousand idle streams take.
 */
import type { Socket } from 'node:net'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { openStream } from '../server/idle.ts'
import { startServer } from '../server/running.ts'
import { type Called, type Crowd, createCrowd } from './crowd.ts'

/** Two of these and what else is open stay below 20,000 files, which is as many as a process may have open here and there. */
const manyOfEach = 9_900
/** In a quick run; what they take is carried on to ten thousand. */
const manyInQuick = 1_800
const few = 50
const subscribers = 1_000

/** Times from giving it back until the next has heard of its turn; the one who gave it back is replaced. */
async function handOver(crowd: Crowd, holder: Holder, times: number): Promise<readonly number[]> {
  const took: number[] = []
  for (let done = 0; done < times; done++) {
    const next = crowd.called(1)
    const releasedAt = performance.now()
    await crowd.release(holder.node, holder.token)
    const [{ node, token, at }] = (await next) as readonly [Called]
    took.push(at - releasedAt)
    holder.node = node
    holder.token = token
    await crowd.begin(node, token)
    await crowd.join(1, 'turn')
  }
  return took.sort((a, b) => a - b)
}

interface Holder {
  node: string
  token: number
}

function at(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
}

const waiting: Contestant = async (conditions) => {
  const times = conditions.quick ? 100 : 300
  const many = conditions.quick ? manyInQuick : manyOfEach
  await using place = await createPlace(conditions, 'sqlite')
  await using server = await startServer({ kind: 'signalbox', database: place.url, wide: true })
  using crowd = createCrowd(server.port)
  const holder: Holder = { node: 'first', token: await crowd.take('first') }
  await crowd.join(few, 'turn')
  await handOver(crowd, holder, 50)
  const before = await server.memory()
  const withFew = await handOver(crowd, holder, times)
  await crowd.join(many - few, 'turn')
  const withMany = await handOver(crowd, holder, times)
  const idle: Socket[] = []
  while (idle.length < many)
    idle.push(...(await Promise.all(Array.from({ length: 225 }, () => openStream(server.port)))))
  const after = await server.memory()
  for (const socket of idle) socket.destroy()
  return {
    p50: at(withFew, 0.5),
    p99: at(withFew, 0.99),
    growth: at(withMany, 0.5) / at(withFew, 0.5),
    megabytes: (before + (after - before) * (10_000 / many)) / 1_048_576,
  }
}

const telling: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = await startServer({ kind: 'signalbox', database: place.url, wide: true })
  const took: number[] = []
  for (let round = 0; round < (conditions.quick ? 5 : 10); round++) {
    using crowd = createCrowd(server.port)
    const token = await crowd.take('first')
    await crowd.join(subscribers, 'result')
    const all = crowd.called(subscribers)
    const releasedAt = performance.now()
    await crowd.release('first', token)
    took.push(Math.max(...(await all).map(({ at }) => at)) - releasedAt)
  }
  // The first round is a warm-up.
  return {
    ms: at(
      took.slice(1).sort((a, b) => a - b),
      0.5,
    ),
  }
}

const lower = { better: 'lower', peers: [] } as const

export const crowdTrial: Trial = {
  name: 'crowd',
  open: groundOf('sqlite'),
  contestants: { signalbox: waiting },
  cases: [
    { ...lower, name: 'hand-over-sse-p50', unit: 'ms, 50 waiting', figure: 'p50', goal: atMost(5) },
    { ...lower, name: 'hand-over-sse-p99', unit: 'ms, 50 waiting', figure: 'p99', goal: atMost(25) },
    {
      ...lower,
      name: 'hand-over-growth',
      unit: 'times, 50 to 10 k waiting',
      figure: 'growth',
      goal: atMost(2, 'p50 against p50'),
    },
    {
      ...lower,
      name: 'crowd-memory',
      unit: 'MB, 10 k waiting, 10 k idle',
      figure: 'megabytes',
      goal: atMost(900),
    },
  ],
}

export const tellTrial: Trial = {
  name: 'tell',
  open: groundOf('sqlite'),
  contestants: { signalbox: telling },
  cases: [{ ...lower, name: 'tell-1000', unit: 'ms until the last', figure: 'ms', goal: atMost(100) }],
}
