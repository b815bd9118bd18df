import type { Socket } from 'node:net'
import { closeLingering, ignore } from '../lingering-close.ts'
import { socketTransport, type Transport } from '../streams/transport.ts'
import type { FastPathOptions } from './fast-path.ts'
import { FastPathRequest } from './fast-path-request.ts'
import type { HeadReader } from './read-head.ts'

/** What connections share. */
export interface FastPathParent {
  readonly options: Pick<FastPathOptions, 'keepAliveMs' | 'serve' | 'over' | 'unsent'>
  readonly reader: HeadReader
  /** Node goes on with this connection, which begins with that. `isBehind`: it came before an earlier request was answered. */
  handOver(connection: FastPathConnection, chunk: Buffer, isBehind: boolean): void
  /** It is closed. */
  forget(connection: FastPathConnection): void
  /** All that is still to come of it is a stream. */
  becomesStream(connection: FastPathConnection): void
}

/** One connection, for as long as its requests are of the plainest kind. */
export class FastPathConnection {
  readonly socket: Socket
  readonly #parent: FastPathParent
  /** The one that is under way. */
  #request: FastPathRequest | undefined
  /** What came before it was answered. */
  #ahead: Buffer | undefined
  #taken: (() => void) | undefined
  /** Nothing was asked here yet. */
  isFresh = true
  /** Since when nothing is under way; undefined while something is. */
  restsSince: number | undefined = performance.now()

  constructor(parent: FastPathParent, socket: Socket) {
    this.#parent = parent
    this.socket = socket
    socket.on('data', this.#read).on('end', endAlso).on('close', this.#close)
    // `close` follows; unheard, it would end the process.
    socket.on('error', ignore)
  }

  get keepAliveMs(): number {
    return this.#parent.options.keepAliveMs
  }

  /** Writes the answer to what is under way. `closes`: there is to be no other. */
  write(text: string, encoding: 'latin1' | 'utf8', closes: boolean): void {
    const { socket } = this
    // The client has gone.
    if (!socket.writable) return
    socket.write(text, encoding, this.#written)
    if (closes) closeLingering(socket)
    if (socket.writableLength > 0) this.#taken = this.#parent.options.unsent(socket)
  }

  /** Writes the head of a stream; nothing that is asked here later is read. */
  stream(head: string): Transport {
    const { socket } = this
    // It is over, as everybody knows by now.
    if (this.#request === undefined) return socketTransport(socket)
    // Of many thousands of streams, each keeps as little as can be: nothing of its request, and nothing of this.
    this.#request = undefined
    this.#ahead = undefined
    this.#stopListening()
    socket.on('data', ignore).on('end', cut).on('error', ignore)
    this.#parent.becomesStream(this)
    // The head, the word on when to come again and the present state are mostly there at once, and go out as one.
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
    // Whoever could not be answered any more is not served either.
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

  /** All of the answer has been taken, or nobody is left who would. */
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
    this.socket.off('data', this.#read).off('end', endAlso).off('close', this.#close).off('error', ignore)
  }
}

/** Who ends a connection while we work for it has gone, as far as anybody can tell. */
function endAlso(this: Socket): void {
  this.destroySoon()
}

/** The same of a stream, where what has not been read yet is not waited for: nobody else would ever give it up. */
function cut(this: Socket): void {
  this.destroy()
}

function uncork(socket: Socket): void {
  socket.uncork()
}
