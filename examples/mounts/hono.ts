/**
 * Signalbox in a Hono app, which speaks `Request` and `Response` as it does.
 *
 *   node examples/mounts/hono.ts
 */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { open } from 'signalbox'
import { createHandler } from 'signalbox/server'
import { secret, tour } from './parts/tour.ts'

await using box = await open('memory:')
await using signalbox = createHandler({ box, basePath: '/signalbox', bootstrap: [secret] })

const app = new Hono()
app.get('/', (context) => context.text('the rest of the app'))
app.all('/signalbox/*', (context) => signalbox(context.req.raw))

const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server
await once(server, 'listening')
server.on('upgrade', (request, socket, head) => {
  if (!signalbox.upgrade(request, socket, head)) socket.destroy()
})

const { port } = server.address() as AddressInfo
await tour({ url: `http://127.0.0.1:${port}/signalbox` })
// First Signalbox, so that streams and nodes are told; then the port.
await signalbox.close()
server.close()
server.closeAllConnections()
