/**
 * Signalbox in a NestJS app on Express, as a middleware before all modules. The module below is made without decorators,
 * for Node runs this file as it stands; yours has them.
 *
 *   node examples/mounts/nest.ts
 */
import 'reflect-metadata'
import type { Server } from 'node:http'
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { open } from 'signalbox'
import { createHandler } from 'signalbox/server'
import { secret, tour } from './parts/tour.ts'

class AppController {
  rest() {
    return 'the rest of the app'
  }
}
Get()(AppController.prototype, 'rest', Object.getOwnPropertyDescriptor(AppController.prototype, 'rest')!)
Controller()(AppController)

class AppModule {}
Module({ controllers: [AppController] })(AppModule)

await using box = await open('memory:')
await using signalbox = createHandler({ box, basePath: '/signalbox', bootstrap: [secret] })

const app = await NestFactory.create(AppModule, { logger: ['error'], forceCloseConnections: true })
// What is not below its base path goes on to the app.
app.use(signalbox.listener)
const server: Server = app.getHttpServer()
server.on('upgrade', (request, socket, head) => {
  if (!signalbox.upgrade(request, socket, head)) socket.destroy()
})

await app.listen(0, '127.0.0.1')
await tour({ url: `${await app.getUrl()}/signalbox` })
// First Signalbox, so that streams and nodes are told; then the port.
await signalbox.close()
await app.close()
