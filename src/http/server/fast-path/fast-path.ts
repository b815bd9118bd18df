import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { markPipelined } from '../connection-order.ts'
import { closeLingering, ignore } from '../lingering-close.ts'
import { bodyTooLate } from '../request/body.ts'
import { answerOnSocket } from '../request/problem.ts'
import { socketTransport, type Transport } from '../streams/transport.ts'
import { FastPathRequest } from './fast-path-request.ts'
import { HeadReader } from './read-head.ts'

/**
 * Serves what workers send all day without Node's HTTP parser: a POST that arrives whole, and streams of events. For every
 * request Node makes a parser, two streams, listeners and timers, which costs more than most requests themselves. A stream
 * of events would keep them as long as it lasts.
 *
 *     connection ──▶ read ──plain and whole──▶ serve ──▶ one write ──▶ read …
 *                      └────anything else────▶ Node, for as long as the connection lasts
 *
 * A connection serves one request at a time. So answers come in order, and the server does not read from a client that
 * does not read its answers. A timer closes idle connections as Node would.
 */
export interface FastPath {
  /** Takes the connections of this server from now on. Attach what judges connections later. */
  attach(server: Server): void
  /** Stops looking for idle connections. */
  close(): void
}

export interface FastPathOptions {
  readonly maxHeaderBytes: number
  /** Whether a GET of this path opens a stream of events. */
  isStream(path: string): boolean
  /** How long a connection may be idle before its first request. */
  readonly headersTimeoutMs: number
  /** How long it may be idle after an answer. */
  readonly keepAliveMs: number
  readonly timeoutCheckMs: number
  /** Answers the request; never throws. */
  serve(request: FastPathRequest): void
  /** A request is over: its answer was sent, or its client left. */
  over(): void
  /** A connection sent no request in time, and gets a 408. */
  late?(socket: Socket): void
  /** An answer was not sent at once. The returned function is called when it was, or when the client left. */
  unsent(socket: Socket): () => void
}

export function createFastPath(options: FastPathOptions): FastPath {
  const connections = new Set<FastPathConnection>()
  let sweeping: NodeJS.Timeout | undefined
  let goOn = (_socket: Socket): void => {}

  const parent: FastPathParent = {
    options,
    reader: new HeadReader(options),
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
      // A request is being served, or the connection got its 408.
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

/** What all connections of a fast path share. */
export interface FastPathParent {
  readonly options: Pick<FastPathOptions, 'keepAliveMs' | 'serve' | 'over' | 'unsent'>
  readonly reader: HeadReader
  /** Node reads the connection from now on, beginning with `chunk`. `isBehind`: it was sent before an earlier request was answered. */
  handOver(connection: FastPathConnection, chunk: Buffer, isBehind: boolean): void
  /** The connection is closed. */
  forget(connection: FastPathConnection): void
  /** The connection carries a stream of events until it closes. */
  becomesStream(connection: FastPathConnection): void
}

/**
 * One connection, as long as `HeadReader` can read its requests. A client may end its half after its last request, as
 * `nc -N` does. The requests that were read are answered, and then the connection ends. But the end of a half is also all
 * that the server sees of a client that died, so a request that waits stops waiting, and a claim gives its jobs back.
 */
export class FastPathConnection {
  readonly socket: Socket
  readonly #parent: FastPathParent
  /** The request that is being served. */
  #request: FastPathRequest | undefined
  /** Bytes that came before that request was answered. */
  #ahead: Buffer | undefined
  #taken: (() => void) | undefined
  /** No request has come yet. */
  isFresh = true
  /** The client has ended its half: no request follows. */
  hasEnded = false
  /** When the last request was over; undefined while one is being served. */
  restsSince: number | undefined = performance.now()

  constructor(parent: FastPathParent, socket: Socket) {
    this.#parent = parent
    this.socket = socket
    socket.on('data', this.#read).on('end', this.#end).on('close', this.#close)
    // `close` follows. An error without a listener would end the process.
    socket.on('error', ignore)
  }

  get keepAliveMs(): number {
    return this.#parent.options.keepAliveMs
  }

  /** Writes the answer to the request that is being served. `closes`: the connection ends with it. */
  write(text: string, encoding: 'latin1' | 'utf8', closes: boolean): void {
    const { socket } = this
    // The client has gone.
    if (!socket.writable) return
    socket.write(text, encoding, this.#written)
    if (closes) closeLingering(socket)
    if (socket.writableLength > 0) this.#taken = this.#parent.options.unsent(socket)
  }

  /** Writes the head of a stream. The server reads no further request here. */
  stream(head: string): Transport {
    const { socket } = this
    // A stream ends with its client, and the end of the client's half is all that shows that it left.
    if (this.hasEnded) socket.destroy()
    // The client left: the request is over.
    if (this.hasEnded || this.#request === undefined) return socketTransport(socket)
    // There may be many thousands of streams, so each keeps neither its request nor this object.
    this.#request = undefined
    this.#ahead = undefined
    this.#stopListening()
    socket.on('data', ignore).on('end', destroy).on('error', ignore)
    this.#parent.becomesStream(this)
    // The head, the retry time and the present state are mostly there at once: send them as one packet.
    socket.cork()
    process.nextTick(uncork, socket)
    if (socket.writable) socket.write(head, 'latin1')
    socket.resume()
    return socketTransport(socket)
  }

  readonly #read = (chunk: Buffer): void => this.#take(chunk, false)

  #take(chunk: Buffer, isBehind: boolean): void {
    if (this.#request !== undefined) {
      this.#ahead = this.#ahead === undefined ? chunk : Buffer.concat([this.#ahead, chunk])
      this.socket.pause()
      return
    }
    // The client cannot be answered any more.
    if (!this.socket.writable) return
    const whole = this.#parent.reader.read(chunk)
    if (whole === undefined) {
      this.#stopListening()
      this.#parent.handOver(this, chunk, isBehind)
      return
    }
    this.isFresh = false
    this.restsSince = undefined
    this.#request = new FastPathRequest(whole, this)
    this.#parent.options.serve(this.#request)
  }

  /** The answer was sent, or the connection is lost. */
  readonly #written = (): void => {
    this.#finish()
    const { socket } = this
    if (socket.writableEnded) return
    this.restsSince = performance.now()
    const ahead = this.#ahead
    if (ahead === undefined) return
    this.#ahead = undefined
    this.#take(ahead, true)
    socket.resume()
  }

  readonly #end = (): void => {
    this.hasEnded = true
    if (this.#request === undefined) this.socket.end()
    else this.#request.leave()
  }

  readonly #close = (): void => {
    this.#parent.forget(this)
    this.#request?.leave()
    this.#finish()
  }

  #finish(): void {
    this.#taken?.()
    this.#taken = undefined
    if (this.#request === undefined) return
    this.#request = undefined
    this.#parent.options.over()
  }

  #stopListening(): void {
    this.socket.off('data', this.#read).off('end', this.#end).off('close', this.#close).off('error', ignore)
  }
}

function destroy(this: Socket): void {
  this.destroy()
}

function uncork(socket: Socket): void {
  socket.uncork()
}
