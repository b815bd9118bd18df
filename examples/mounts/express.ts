/**
 * Signalbox in an Express app that authenticates its users: every request that the app lets through may do everything in
 * Signalbox, and needs no token. Nodes connect by WebSocket, past Express, so they always need one.
 *
 *   node examples/mounts/express.ts
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type NextFunction, type Request, type Response } from 'express'
import { open } from 'signalbox'
import { createHandler } from 'signalbox/server'
import { secret, tour } from './parts/tour.ts'

await using box = await open('memory:')
await using signalbox = createHandler({ box, basePath: '/signalbox', trust: true, bootstrap: [secret] })

const app = express()
// Before body parsers: Signalbox reads bodies itself, with its own limits. (After a parser it works too, with both limits.)
app.use('/signalbox', operatorsOnly, signalbox.listener)
app.use(express.json())
app.get('/', (_request, response) => void response.send('the rest of the app'))

/** Stands for the app's own authentication. */
function operatorsOnly(request: Request, response: Response, next: NextFunction): void {
  if (request.get('cookie') === 'session=operator') next()
  else response.status(401).send('Who are you?')
}

const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
server.on('upgrade', (request, socket, head) => {
  if (!signalbox.upgrade(request, socket, head)) socket.destroy()
})

const { port } = server.address() as AddressInfo
await tour({ url: `http://127.0.0.1:${port}/signalbox`, headers: { cookie: 'session=operator' } })
// First Signalbox, so that streams and nodes are told; then the port.
await signalbox.close()
server.close()
server.closeAllConnections()
