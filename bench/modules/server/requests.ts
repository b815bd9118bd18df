/**
 * Requests over HTTP with durable commits, at 50 connections, against a bare Fastify that parses the body of an add and
 * answers with a reply of the same length. `claim-ack` counts both requests of a pair, each over the same connection. Its
 * limit is that same server answering adds, because it knows no claims and acks. `fastify-bullmq` is what users build
 * themselves: a route in Fastify that adds to a queue of BullMQ, on a Redis that keeps nothing on disk.
 */
import type { Contestant, Trial } from '../../case.ts'
import { atLeast, atLeastTimes, type Goal } from '../../goal.ts'
import { groundOf, groundUrl } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { drive, post } from './load.ts'
import { startServer } from './running.ts'

const connections = 50
const body = JSON.stringify({
  kind: 'mail',
  payload: { to: 'ada@example.com', subject: 'x'.repeat(80), number: 12_345 },
})

async function driveAdds(port: number, count: number): Promise<number> {
  const request = post(port, '/v1/jobs', body)
  let left = count
  const { requests, seconds } = await drive({
    port,
    connections,
    statuses: [201],
    next: () => (left-- > 0 ? request : undefined),
  })
  return requests / seconds
}

const bare: Contestant = async ({ quick }) => {
  await using server = await startServer({ kind: 'bare' })
  await driveAdds(server.port, 10_000)
  const count = quick ? 50_000 : 150_000
  return { rate: await driveAdds(server.port, count) }
}

function addOn(engine: 'sqlite' | 'postgres'): Contestant {
  return async (conditions) => {
    await using place = await createPlace(conditions, engine)
    await using server = await startServer({ kind: 'signalbox', database: place.url })
    await driveAdds(server.port, 10_000)
    const count = conditions.quick ? 30_000 : 100_000
    return { rate: await driveAdds(server.port, count) }
  }
}

const fastifyBullmq: Contestant = async (conditions) => {
  await using server = await startServer({ kind: 'bullmq', database: groundUrl(conditions, 'redis') })
  await driveAdds(server.port, 5_000)
  const count = conditions.quick ? 20_000 : 60_000
  return { rate: await driveAdds(server.port, count) }
}

const claimAckOn =
  (engine: 'sqlite' | 'postgres'): Contestant =>
  async (conditions) => {
    const count = conditions.quick ? 10_000 : 30_000
    await using place = await createPlace(conditions, engine)
    await using server = await startServer({ kind: 'signalbox', database: place.url })
    const { port } = server
    await driveAdds(port, count + 2_000)
    const claim = post(port, '/v1/jobs/claim', JSON.stringify({ workerId: 'bench', leaseMs: 30_000 }))
    let left = 0
    const cycle = (connection: number, last: string): Buffer | undefined => {
      if (last.startsWith('{"items":[{')) {
        const { id, token } = (JSON.parse(last) as { items: { id: string; token: string }[] }).items[0]!
        return post(port, `/v1/jobs/${id}/ack`, JSON.stringify({ token }))
      }
      if (last.startsWith('{"items":[]')) throw new Error(`nothing to claim on connection ${connection}`)
      return left-- > 0 ? claim : undefined
    }
    left = 1_000
    await drive({ port, connections, statuses: [200], next: cycle })
    left = count
    const { requests, seconds } = await drive({ port, connections, statuses: [200], next: cycle })
    if (requests !== 2 * count) throw new Error(`${requests} requests for ${count} jobs`)
    return { rate: requests / seconds }
  }

function addTrialOn(engine: 'sqlite' | 'postgres', goal: Goal): Trial {
  const name = engine === 'sqlite' ? 'http-add' : `http-add-${engine}`
  return {
    name,
    open: groundOf(engine, 'redis'),
    contestants: {
      signalbox: addOn(engine),
      'fastify-bullmq': fastifyBullmq,
      limit: bare,
    },
    cases: [
      {
        name,
        unit: 'requests/s',
        better: 'higher',
        figure: 'rate',
        peers: ['fastify-bullmq'],
        goal,
      },
    ],
  }
}

export const addTrials: readonly Trial[] = [
  addTrialOn('sqlite', atLeastTimes(1.3, 'fastify-bullmq')),
  addTrialOn('postgres', atLeastTimes(1.3, 'fastify-bullmq')),
]

function claimAckTrialOn(engine: 'sqlite' | 'postgres', goal: Goal): Trial {
  const name = engine === 'sqlite' ? 'http-claim-ack' : `http-claim-ack-${engine}`
  return {
    name,
    open: groundOf(engine),
    contestants: { signalbox: claimAckOn(engine), limit: bare },
    cases: [{ name, unit: 'requests/s', better: 'higher', figure: 'rate', peers: [], goal }],
  }
}

export const claimAckTrials: readonly Trial[] = [
  claimAckTrialOn('sqlite', atLeast(8_000)),
  claimAckTrialOn('postgres', atLeast(6_000)),
]
