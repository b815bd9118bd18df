/**
 * Requests over HTTP with durable commits on SQLite, at 50 connections, against a bare Fastify that parses the body of
 * an add and answers as long a reply. `claim-ack` counts both requests of a pair, each over the same connection. Its limit
 * is that same server answering to adds: it knows no claims and acks, whose bodies are shorter, and a claim's reply longer.
 */
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
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
  return { rate: await driveAdds(server.port, quick ? 50_000 : 150_000) }
}

const add: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = await startServer({ kind: 'signalbox', database: place.url })
  await driveAdds(server.port, 10_000)
  return { rate: await driveAdds(server.port, conditions.quick ? 30_000 : 100_000) }
}

const claimAck: Contestant = async (conditions) => {
  const count = conditions.quick ? 10_000 : 30_000
  await using place = await createPlace(conditions, 'sqlite')
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

export const addTrial: Trial = {
  name: 'http-add',
  open: groundOf('sqlite'),
  contestants: { signalbox: add, limit: bare },
  cases: [
    {
      name: 'http-add',
      unit: 'requests/s',
      better: 'higher',
      figure: 'rate',
      peers: [],
      goal: atLeastTimes(0.5, 'limit', 'POST /v1/jobs against a bare POST'),
    },
  ],
}

export const claimAckTrial: Trial = {
  name: 'http-claim-ack',
  open: groundOf('sqlite'),
  contestants: { signalbox: claimAck, limit: bare },
  cases: [
    {
      name: 'http-claim-ack',
      unit: 'requests/s',
      better: 'higher',
      figure: 'rate',
      peers: [],
      goal: atLeastTimes(0.4, 'limit', 'both requests count'),
    },
  ],
}
