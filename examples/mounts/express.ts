/**
 * Signalbox in an Express app, which knows its users: whoever it lets through may do everything in Signalbox, and needs
 * no token. Nodes come by WebSocket, past Express, so they always need one.
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
// Before what reads bodies: it reads its own, with limits of its own. (After them it works too, with theirs as well.)
app.use('/signalbox', operatorsOnly, signalbox.listener)
app.use(express.json())
app.get('/', (_request, response) => void response.send('the rest of the app'))

/** Stands for however the app knows who somebody is. */
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
