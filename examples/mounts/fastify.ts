/**
 * Signalbox in a Fastify app. Fastify would parse bodies; a separate plugin leaves them alone.
 *
 *   node examples/mounts/fastify.ts
 */
import fastify from 'fastify'
import { open } from 'signalbox'
import { createHandler } from 'signalbox/server'
import { secret, tour } from './parts/tour.ts'

await using box = await open('memory:')
await using signalbox = createHandler({ box, basePath: '/signalbox', bootstrap: [secret] })

const app = fastify({ forceCloseConnections: true })
app.get('/', async () => 'the rest of the app')
app.register(async (plugin) => {
  plugin.removeAllContentTypeParsers()
  plugin.addContentTypeParser('*', (_request, _body, done) => done(null))
  for (const path of ['/signalbox', '/signalbox/*'])
    plugin.all(path, (request, reply) => {
      reply.hijack()
      signalbox.listener(request.raw, reply.raw)
    })
})
app.server.on('upgrade', (request, socket, head) => {
  if (!signalbox.upgrade(request, socket, head)) socket.destroy()
})
// First Signalbox, so that streams and nodes are told; then the port.
app.addHook('preClose', () => signalbox.close())

await tour({ url: `${await app.listen({ port: 0, host: '127.0.0.1' })}/signalbox` })
await app.close()
