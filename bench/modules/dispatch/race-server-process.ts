/** One of several servers that share a fleet. */
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { answer, orderOf } from './forked.ts'

export interface RaceServerOrder {
  readonly database: string
  readonly redis: string
  /** 0 takes any free one. */
  readonly port: number
  readonly leaseMs: number
  readonly heartbeatMs: number
}

const { database, redis, port, leaseMs, heartbeatMs } = orderOf<RaceServerOrder>()
const dispatch = { leaseMs, serverLeaseMs: leaseMs, heartbeatMs, pollMs: 200 }
const box = await open(database, { redis, dispatch })
const caps = { maxConnections: 20_000, maxConnectionsPerAddress: 20_000, maxStreamsPerPrincipal: 20_000 }
const server = createServer({ box, port, ...caps })
const { url } = await server.listen()

answer({ port: () => Number(new URL(url).port) })
