/**
 * Signalbox in a Next.js app: next/app/signalbox/[[...path]]/route.ts is the whole of it. Next itself is not installed
 * here, so a small server calls what that file exports, as Next does.
 *
 *   node examples/mounts/next.ts
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { secret, tour } from './parts/tour.ts'

process.env.SIGNALBOX_DATABASE = 'memory:'
process.env.SIGNALBOX_TOKEN = secret
const route: Readonly<Record<string, unknown>> = await import('./next/app/signalbox/[[...path]]/route.ts')

const server: Server = createServer(
  getRequestListener(async (request) => {
    const method = route[request.method]
    return typeof method === 'function' ? method(request) : new Response(null, { status: 405 })
  }),
)
server.listen(0, '127.0.0.1')
await once(server, 'listening')

const { port } = server.address() as AddressInfo
await tour({ url: `http://127.0.0.1:${port}/signalbox`, nodes: false })
// Next ends with its process.
process.exit()
