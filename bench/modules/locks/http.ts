/**
 * Pairs over HTTP with durable commits on SQLite, at 50 connections: both requests of a pair count. The limit is a bare
 * Fastify that parses a body of about the same length and answers.
 */
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { drive, post } from '../server/load.ts'
import { startServer } from '../server/running.ts'

const connections = 50

const bare: Contestant = async ({ quick }) => {
  await using server = await startServer({ kind: 'bare' })
  const { port } = server
  const body = { kind: 'lock', payload: { resource: 'key-12', node: 'node-12', requestId: 'request-1234' } }
  const request = post(port, '/v1/jobs', JSON.stringify(body))
  const run = async (count: number) => {
    let left = count
    const next = () => (left-- > 0 ? request : undefined)
    const { requests, seconds } = await drive({ port, connections, statuses: [201], next })
    return requests / seconds
  }
  await run(10_000)
  return { rate: await run(quick ? 30_000 : 100_000) }
}

const signalbox: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = await startServer({ kind: 'signalbox', database: place.url })
  const { port } = server
  let asked = 0
  const run = async (pairs: number) => {
    let left = pairs
    const asking: string[] = []
    const next = (connection: number, last: string): Buffer | undefined => {
      const own = { operation: 'bench', resource: `key-${connection}`, node: `node-${connection}` }
      if (last.startsWith('{"status":"granted"')) {
        const { token } = JSON.parse(last) as { token: number }
        const body = { ...own, requestId: asking[connection], token, outcome: 'success' }
        return post(port, '/v1/locks/release', JSON.stringify(body))
      }
      if (left-- <= 0) return undefined
      asking[connection] = `request-${asked++}`
      return post(port, '/v1/locks/acquire', JSON.stringify({ ...own, requestId: asking[connection] }))
    }
    const { requests, seconds } = await drive({ port, connections, statuses: [200], next })
    if (requests !== 2 * pairs) throw new Error(`${requests} requests for ${pairs} pairs`)
    return requests / seconds
  }
  await run(5_000)
  return { rate: await run(conditions.quick ? 15_000 : 50_000) }
}

export const httpTrial: Trial = {
  name: 'http-pairs',
  open: groundOf('sqlite'),
  contestants: { signalbox, limit: bare },
  cases: [
    {
      name: 'http-pairs',
      unit: 'requests/s',
      better: 'higher',
      figure: 'rate',
      peers: [],
      goal: atLeastTimes(0.6, 'limit', 'both requests of a pair count'),
    },
  ],
}
