import type { WebSocket } from 'ws'
import type { Clock } from '../../../core/clock.ts'
import { createEvents, type EventSource, type Events } from '../../../core/events.ts'

/** The part of a socket that a gateway uses. */
export type GuardedSocket = Pick<OpenSocket, 'events' | 'send' | 'close' | 'pause' | 'resume'>

interface SocketEvents {
  message: { readonly text: string }
  /** The peer answered a ping. */
  alive: undefined
  /** The socket closed. Emitted once, as the last event. */
  closed: { readonly code: number }
}

/**
 * Close codes of the server (RFC 6455, 7.4). `ws` itself uses 1002, 1007, 1008 and 1009 for malformed or large
 * messages.
 */
export const closeCodes = {
  goingAway: 1001,
  unsupported: 1003,
  policy: 1008,
  failed: 1011,
  tryLater: 1013,
  unauthorized: 4401,
} as const

/** The limits and callbacks that the sockets of a server share. */
export interface SocketOwner {
  readonly clock: Clock
  readonly pingMs: number
  readonly maxBufferedBytes: number
  /** Gets an error that a listener threw. */
  onError(error: unknown): void
  /** The socket closed. */
  forget(socket: OpenSocket): void
}

/** How many pings may stay unanswered, and how many ping periods a message may take to arrive. */
const maxMissed = 2

/**
 * A WebSocket that cannot harm the process: its buffers are bounded, it closes when the peer stops answering pings, and
 * an error of a listener ends only this socket.
 */
export class OpenSocket {
  readonly #ws: WebSocket
  readonly #owner: SocketOwner
  readonly #events: Events<SocketEvents>
  #nextCheck: unknown
  #missedPongs = 0
  #unfinishedChecks = 0
  #isClosing = false

  constructor(ws: WebSocket, owner: SocketOwner) {
    this.#ws = ws
    this.#owner = owner
    this.#events = createEvents<SocketEvents>({ onListenerError: (error) => this.#onListenerError(error) })
    // A random start spreads the checks of sockets that opened together.
    this.#checkIn(owner.pingMs * Math.random())
    // `ws` closes with the right code after malformed frames and lost connections. Without a listener, the error would
    // end the process.
    ws.on('error', () => {})
    ws.on('pong', () => {
      this.#missedPongs = 0
      if (!this.#isClosing) this.#events.emit('alive', undefined)
    })
    // `ws` answers pings itself. A client that sends pings and does not read the answers must not fill the memory.
    ws.on('ping', () => this.#checkBuffer(0))
    ws.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary))
    ws.on('close', (code) => this.#onClose(code))
  }

  get events(): EventSource<SocketEvents> {
    return this.#events
  }

  /** Sends a text message. False: the socket is closed or closing; this call may have closed it for a slow peer. */
  send(text: string): boolean {
    if (this.#isClosing || this.#ws.readyState !== this.#ws.OPEN) return false
    if (!this.#checkBuffer(Buffer.byteLength(text))) return false
    this.#ws.send(text)
    return true
  }

  /** Closes the socket. It emits no further message. */
  close(code = 1000, reason = ''): void {
    if (this.#isClosing) return
    this.#isClosing = true
    // A paused socket would not read the peer's close frame.
    if (this.#ws.isPaused) this.#ws.resume()
    // A close frame holds 123 bytes of reason. The cut may split a character, so the replacement character goes.
    this.#ws.close(code, Buffer.from(reason).subarray(0, 123).toString().replaceAll('\uFFFD', ''))
  }

  /** Stops reading until `resume`. Messages that were read already may still arrive. */
  pause(): void {
    if (!this.#isClosing) this.#ws.pause()
  }

  resume(): void {
    this.#missedPongs = 0
    this.#ws.resume()
  }

  /** Cuts the connection. */
  terminate(): void {
    this.#ws.terminate()
  }

  #checkIn(ms: number): void {
    this.#nextCheck = this.#owner.clock.setTimeout(() => {
      this.#checkIn(this.#owner.pingMs)
      this.#checkPeer()
    }, ms)
  }

  /** Checks once a period that the peer is alive and finishes the messages that it begins. */
  #checkPeer(): void {
    // The server does not read the pongs of a paused socket.
    if (this.#isClosing || this.#ws.isPaused) return
    if (this.#missedPongs >= maxMissed) {
      this.terminate()
      return
    }
    this.#unfinishedChecks = isUnfinished(this.#ws) ? this.#unfinishedChecks + 1 : 0
    if (this.#unfinishedChecks > maxMissed) {
      this.close(closeCodes.policy, 'A message began but did not end in time.')
      return
    }
    this.#missedPongs++
    if (this.#checkBuffer(0)) this.#ws.ping()
  }

  #receive(data: Buffer, isBinary: boolean): void {
    this.#missedPongs = 0
    this.#unfinishedChecks = 0
    if (this.#isClosing) return
    if (isBinary) this.close(closeCodes.unsupported, 'Messages must be text.')
    else this.#events.emit('message', { text: data.toString() })
  }

  /** Returns whether the socket may buffer so many more bytes; closes it if not. */
  #checkBuffer(bytes: number): boolean {
    if (this.#ws.bufferedAmount + bytes <= this.#owner.maxBufferedBytes) return true
    this.close(closeCodes.tryLater, 'This client reads messages too slowly.')
    return false
  }

  #onListenerError(error: unknown): void {
    this.#owner.onError(error)
    this.close(closeCodes.failed, 'The server failed. Its log has the error.')
  }

  #onClose(code: number): void {
    this.#isClosing = true
    this.#owner.clock.clearTimeout(this.#nextCheck)
    this.#events.emit('closed', { code })
    this.#owner.forget(this)
  }
}

/** Whether a message arrived in part. `ws` has no method for that, so this reads a private field of its receiver. */
function isUnfinished(ws: WebSocket): boolean {
  return ((ws as unknown as { _receiver?: { _fragmented?: number } })._receiver?._fragmented ?? 0) !== 0
}
