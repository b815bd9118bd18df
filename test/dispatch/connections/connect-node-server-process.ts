import { open } from 'signalbox'
import { createServer } from 'signalbox/server'

/** A server to be killed: it prints its port and its database, and takes over tasks of a dead one after a second. */
const [port = '0', database = 'memory:'] = process.argv.slice(2)
const box = await open(database, { migrate: true })
const { backend } = box
const server = createServer({
  box: { backend, settings: { dispatch: { leaseMs: 1_000, pollMs: 100 } } },
  port: Number(port),
})
const { url } = await server.listen()
console.log(url)
