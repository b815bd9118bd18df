/** What an idle stream of events costs the server: its resident set with 10,000 of them open, less that with none. */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { startServer } from './running.ts'

const count = 10_000

const signalbox: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  await using server = await startServer({ kind: 'signalbox', database: place.url, wide: true })
  // What a server needs for its first streams at all is not what the ten-thousandth costs.
  const sockets = [...(await openStreams(server.port, 10))]
  const before = await server.memory()
  // In parts, so that the backlog of the listening socket is never full.
  while (sockets.length < count) sockets.push(...(await openStreams(server.port, 250)))
  // Past the first rounds of keep-alives, which every stream must have survived.
  await sleep(conditions.quick ? 3_000 : 20_000)
  const after = await server.memory()
  const lost = sockets.filter((socket) => socket.destroyed).length
  for (const socket of sockets) socket.destroy()
  if (lost > 0) throw new Error(`${lost} of ${count} streams were lost`)
  return { kilobytes: (after - before) / (count - 10) / 1_024 }
}

function openStreams(port: number, many: number): Promise<Socket[]> {
  return Promise.all(Array.from({ length: many }, () => openStream(port)))
}

/** Open once the present state has come; fails when it has not within half a minute. */
export function openStream(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const timer = setTimeout(() => socket.destroy(new Error('a stream did not open within 30 s')), 30_000)
    socket.on('error', reject)
    socket.on('connect', () =>
      socket.write(`GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAccept: text/event-stream\r\n\r\n`),
    )
    socket.on('data', (chunk) => {
      const text = chunk.toString('latin1')
      if (text.startsWith('HTTP/1.1') && !text.startsWith('HTTP/1.1 200'))
        reject(new Error(text.slice(0, 300)))
      else if (text.includes('event: queues')) {
        clearTimeout(timer)
        resolve(socket)
      }
    })
  })
}

export const idleTrial: Trial = {
  name: 'idle-streams',
  open: groundOf('sqlite'),
  contestants: { signalbox },
  cases: [
    {
      name: 'idle-streams',
      unit: 'kB a stream, 10 k open',
      better: 'lower',
      figure: 'kilobytes',
      peers: [],
      goal: atMost(30),
    },
  ],
}
