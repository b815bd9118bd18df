/** A server in a process of its own: a bare Fastify, or Signalbox as `signalbox serve` runs it. Tells its port. */
import fastify from 'fastify'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'

export interface ServerOrder {
  readonly kind: 'bare' | 'signalbox'
  /** Signalbox only. */
  readonly database?: string
  /** Caps high enough for ten thousand connections from one address. */
  readonly wide?: boolean
}

const order = JSON.parse(process.argv[2]!) as ServerOrder
process.send!({ port: order.kind === 'bare' ? await bare() : await signalbox() })
process.on('message', () => {
  globalThis.gc?.()
  process.send!({ rss: process.memoryUsage.rss() })
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

async function signalbox(): Promise<number> {
  const box = await open(order.database!, { thread: true })
  const caps = order.wide
    ? { maxConnections: 20_000, maxConnectionsPerAddress: 20_000, maxStreamsPerPrincipal: 20_000 }
    : {}
  const server = createServer({ box, port: 0, ...caps })
  const { url } = await server.listen()
  return Number(new URL(url).port)
}
