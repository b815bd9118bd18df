/** A server in a separate process: a bare Fastify, or Signalbox as `signalbox serve` runs it. It prints its port. */
import fastify from 'fastify'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'

export interface ServerOrder {
  readonly kind: 'bare' | 'bullmq' | 'signalbox'
  /** Where Signalbox or BullMQ keeps its jobs. */
  readonly database?: string
  /** Caps high enough for ten thousand connections from one address. */
  readonly wide?: boolean
}

const order = JSON.parse(process.argv[2]!) as ServerOrder
const starters = { bare, bullmq, signalbox }
process.send!({ port: await starters[order.kind]() })
process.on('message', (question) => {
  if (question === 'memory') globalThis.gc?.()
  const { user, system } = process.cpuUsage()
  process.send!({ rss: process.memoryUsage.rss(), cpuMs: (user + system) / 1_000 })
})

/** The least a server does that takes a job and answers with its id. */
async function bare(): Promise<number> {
  const app = fastify()
  app.post('/v1/jobs', (request, reply) => {
    const { kind } = request.body as { kind: string }
    return reply.code(201).send({ id: `01jqz0000000000000000000${kind.length}`, duplicate: false })
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as { port: number }).port
}

/** A route that adds to a queue of BullMQ, as users write it. */
async function bullmq(): Promise<number> {
  const { bullRedisLane } = await import('../jobs/bullmq.ts')
  const lane = await bullRedisLane('default')(order.database!)
  const app = fastify()
  let added = 0
  app.post('/v1/jobs', async (_request, reply) => {
    await lane.add(added++)
    return reply.code(201).send({ id: `${added}`, duplicate: false })
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as { port: number }).port
}

async function signalbox(): Promise<number> {
  const box = await open(order.database!, { thread: true, migrate: true })
  const caps = order.wide
    ? { maxConnections: 20_000, maxConnectionsPerAddress: 20_000, maxStreamsPerPrincipal: 20_000 }
    : {}
  const server = createServer({ box, port: 0, ...caps })
  const { url } = await server.listen()
  return Number(new URL(url).port)
}
