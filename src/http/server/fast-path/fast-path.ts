import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { markPipelined } from '../connection-order.ts'
import { bodyTooLate } from '../request/body.ts'
import { answerOnSocket } from '../request/problem.ts'
import { FastPathConnection, type FastPathParent } from './fast-path-connection.ts'
import type { FastPathRequest } from './fast-path-request.ts'
import { HeadReader } from './read-head.ts'

/**
 * A shorter way for what workers ask all day: a POST that comes whole, and streams of events. Node makes a parser, two
 * streams, their listeners and timers of every request, which costs more than most of what is asked for, and for a stream
 * of events keeps them as long as it lasts; of a request that lies there whole none of it is needed.
 *
 *     connection ──▶ read ──plain and whole──▶ serve ──▶ one write ──▶ read …
 *                      └────anything else────▶ Node, for as long as the connection lasts
 *
 * One request of a connection is under way at a time, so answers come in order, and a client that does not read them is
 * not read from either. Connections that wait for their first request, or for their next, are looked through now and
 * then and cut as Node would cut them.
 */
export interface FastPath {
  /** Takes the connections of this server from now on. Whoever judges connections is to be attached later. */
  attach(server: Server): void
  /** Looks for idle connections no more. */
  close(): void
}

export interface FastPathOptions {
  readonly maxHeaderBytes: number
  /** How long a connection may say nothing before its first request. */
  readonly headersTimeoutMs: number
  /** How long it may say nothing after an answer. */
  readonly keepAliveMs: number
  readonly timeoutCheckMs: number
  /** Sees to it that the request is answered; never throws. */
  serve(request: FastPathRequest): void
  /** A request that was to be served is over: its answer was taken, or its client has gone. */
  over(): void
  /** A connection asked for nothing in time, and is told so. */
  late?(socket: Socket): void
  /** An answer was not taken at once; the returned function says that it was, or that its client has gone. */
  unsent(socket: Socket): () => void
}

export function createFastPath(options: FastPathOptions): FastPath {
  const connections = new Set<FastPathConnection>()
  let sweeping: NodeJS.Timeout | undefined
  let goOn = (_socket: Socket): void => {}

  const parent: FastPathParent = {
    options,
    reader: new HeadReader(options.maxHeaderBytes),
    handOver(connection, chunk, isBehind) {
      connections.delete(connection)
      if (isBehind) markPipelined(connection.socket)
      goOn(connection.socket)
      connection.socket.emit('data', chunk)
    },
    forget: (connection) => void connections.delete(connection),
    becomesStream(connection) {
      const { socket } = connection
      connections.delete(connection)
      if (socket.destroyed) return options.over()
      let isOver = false
      const over = () => {
        if (!isOver) options.over()
        isOver = true
      }
      // A client that keeps its half open after the end does not keep the stream.
      socket.on('finish', over).on('close', over)
    },
  }

  function sweep(): void {
    const now = performance.now()
    for (const { socket, restsSince, isFresh } of connections) {
      // Those that are being served, and those that were told already.
      if (restsSince === undefined || !socket.writable) continue
      const idleMs = now - restsSince
      if (!isFresh && idleMs > options.keepAliveMs) socket.destroy()
      else if (isFresh && idleMs > options.headersTimeoutMs) {
        options.late?.(socket)
        answerOnSocket(bodyTooLate(), socket)
      }
    }
  }

  return {
    attach(server) {
      const own = server.listeners('connection')
      server.removeAllListeners('connection')
      goOn = (socket) => {
        for (const listener of own) Reflect.apply(listener, server, [socket])
      }
      server.on('connection', (socket: Socket) => {
        connections.add(new FastPathConnection(parent, socket))
      })
      sweeping = setInterval(sweep, options.timeoutCheckMs).unref()
    },
    close() {
      clearInterval(sweeping)
    },
  }
}
