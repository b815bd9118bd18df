import type { WebSocket } from 'ws'
import type { Clock } from '../../../core/clock.ts'
import { createEvents, type EventSource, type Events } from '../../../core/events.ts'

/** What a gateway does with a socket. */
export type GuardedSocket = Pick<OpenSocket, 'events' | 'send' | 'close' | 'pause' | 'resume'>

export interface SocketEvents {
  message: { readonly text: string }
  /** It answered a ping. */
  alive: undefined
  /** It is over; comes once, and last. */
  closed: { readonly code: number }
}

/** Why we close a socket (RFC 6455, 7.4); `ws` itself uses 1002, 1007, 1008 and 1009 for what is malformed or too large. */
export const closeCodes = {
  goingAway: 1001,
  unsupported: 1003,
  policy: 1008,
  failed: 1011,
  tryLater: 1013,
  unauthorized: 4401,
} as const

/** What a guarded socket is kept by. */
export interface SocketOwner {
  readonly clock: Clock
  readonly pingMs: number
  readonly maxBufferedBytes: number
  /** What a listener threw. */
  onError(error: unknown): void
  /** It is over. */
  forget(socket: OpenSocket): void
}

/** How many pings may stay without an answer, and how many periods a message may take to arrive whole. */
const maxMissed = 2

/**
 * A WebSocket that cannot harm the process: what it buffers is bounded, a peer that no longer answers is found, and
 * whatever a listener throws ends this socket alone.
 */
export class OpenSocket {
  readonly #ws: WebSocket
  readonly #owner: SocketOwner
  readonly #events: Events<SocketEvents>
  #nextVisit: unknown
  #missedPongs = 0
  #unfinishedVisits = 0
  #isClosing = false

  constructor(ws: WebSocket, owner: SocketOwner) {
    this.#ws = ws
    this.#owner = owner
    this.#events = createEvents<SocketEvents>({ onListenerError: (error) => this.#failed(error) })
    // Sockets that came at once are not all visited at once.
    this.#visitIn(owner.pingMs * Math.random())
    // Malformed frames and lost connections: `ws` closes with the right code. Unheard, it would end the process.
    ws.on('error', () => {})
    ws.on('pong', () => {
      this.#missedPongs = 0
      if (!this.#isClosing) this.#events.emit('alive', undefined)
    })
    // `ws` has answered already. A client that sends pings without reading the answers must not fill the memory.
    ws.on('ping', () => this.#checkBuffer(0))
    ws.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary))
    ws.on('close', (code) => this.#over(code))
  }

  get events(): EventSource<SocketEvents> {
    return this.#events
  }

  /** Sends one text message. False: it is closed or closing, perhaps just now because the peer reads too slowly. */
  send(text: string): boolean {
    if (this.#isClosing || this.#ws.readyState !== this.#ws.OPEN) return false
    if (!this.#checkBuffer(Buffer.byteLength(text))) return false
    this.#ws.send(text)
    return true
  }

  /** Closes it; nothing is heard from it any more. */
  close(code = 1000, reason = ''): void {
    if (this.#isClosing) return
    this.#isClosing = true
    // Its own goodbye would otherwise not be read.
    if (this.#ws.isPaused) this.#ws.resume()
    // 123 bytes is what a close frame has room for; our reasons are ASCII, and others' are cut where they are not.
    this.#ws.close(code, Buffer.from(reason).subarray(0, 123).toString().replaceAll('\uFFFD', ''))
  }

  /** Reads no further for now: what was read already may still come, the rest waits with the sender. */
  pause(): void {
    if (!this.#isClosing) this.#ws.pause()
  }

  resume(): void {
    this.#missedPongs = 0
    this.#ws.resume()
  }

  /** Cuts it off. */
  terminate(): void {
    this.#ws.terminate()
  }

  #visitIn(ms: number): void {
    this.#nextVisit = this.#owner.clock.setTimeout(() => {
      this.#visitIn(this.#owner.pingMs)
      this.#visit()
    }, ms)
  }

  /** Once a period: is the other side alive, and does it finish what it begins? */
  #visit(): void {
    // What is not read cannot answer.
    if (this.#isClosing || this.#ws.isPaused) return
    if (this.#missedPongs >= maxMissed) {
      this.terminate()
      return
    }
    this.#unfinishedVisits = isUnfinished(this.#ws) ? this.#unfinishedVisits + 1 : 0
    if (this.#unfinishedVisits > maxMissed) {
      this.close(closeCodes.policy, 'A message was started and not finished.')
      return
    }
    this.#missedPongs++
    if (this.#checkBuffer(0)) this.#ws.ping()
  }

  #receive(data: Buffer, isBinary: boolean): void {
    this.#missedPongs = 0
    this.#unfinishedVisits = 0
    if (this.#isClosing) return
    if (isBinary) this.close(closeCodes.unsupported, 'Messages must be text.')
    else this.#events.emit('message', { text: data.toString() })
  }

  /** Whether so much more may be buffered; closes the socket when not. */
  #checkBuffer(bytes: number): boolean {
    if (this.#ws.bufferedAmount + bytes <= this.#owner.maxBufferedBytes) return true
    this.close(closeCodes.tryLater, 'This client reads messages too slowly.')
    return false
  }

  #failed(error: unknown): void {
    this.#owner.onError(error)
    this.close(closeCodes.failed, 'The server failed. Its log has the error.')
  }

  #over(code: number): void {
    this.#isClosing = true
    this.#owner.clock.clearTimeout(this.#nextVisit)
    this.#events.emit('closed', { code })
    this.#owner.forget(this)
  }
}

/** Whether the first fragments of a message are here and the last is not. `ws` does not report it, so its receiver is asked. */
function isUnfinished(ws: WebSocket): boolean {
  return ((ws as unknown as { _receiver?: { _fragmented?: number } })._receiver?._fragmented ?? 0) !== 0
}
