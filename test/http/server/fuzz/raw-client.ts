import { connect, type Socket } from 'node:net'

/** A reply as it came over the socket. */
export interface RawReply {
  readonly status: number
  readonly head: string
  readonly body: string
}

/** A connection that sends bytes as they are and reads replies by their length. It reconnects when it was closed. */
export class RawClient implements Disposable {
  readonly #port: number
  #socket: Socket | undefined
  #pending: Buffer = Buffer.alloc(0)
  /** The reply to a HEAD has the length of a body that does not come. */
  #isHead = false
  #waiting: { resolve: (reply: RawReply | 'closed') => void; timer: NodeJS.Timeout } | undefined

  constructor(port: number) {
    this.#port = port
  }

  /** Sends, and answers the reply, or `closed` when the server closed the connection without one. */
  async ask(bytes: Buffer, timeoutMs = 10_000): Promise<RawReply | 'closed'> {
    const socket = await this.#open()
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = undefined
        socket.destroy()
        reject(
          new Error(`no reply within ${timeoutMs} ms to ${JSON.stringify(bytes.toString('latin1', 0, 300))}`),
        )
      }, timeoutMs)
      this.#waiting = { resolve, timer }
      this.#isHead = bytes.toString('latin1', 0, 5) === 'HEAD '
      socket.write(bytes)
    })
  }

  /** Half a request and then nothing: the connection is cut by this side. */
  async abandon(bytes: Buffer): Promise<void> {
    const socket = await this.#open()
    socket.write(bytes)
    await new Promise((resolve) => setImmediate(resolve))
    socket.destroy()
    this.#socket = undefined
  }

  /** What follows is sent on a new connection. */
  hangUp(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  [Symbol.dispose](): void {
    this.hangUp()
  }

  #open(): Promise<Socket> {
    if (this.#socket && !this.#socket.destroyed && this.#socket.writable) return Promise.resolve(this.#socket)
    this.#pending = Buffer.alloc(0)
    return new Promise((resolve, reject) => {
      const socket = connect(this.#port, '127.0.0.1')
      socket.setNoDelay(true)
      socket.on('error', reject)
      socket.on('connect', () => resolve(socket))
      socket.on('data', (chunk) => this.#read(chunk))
      socket.on('close', () => this.#answer('closed'))
      this.#socket = socket
    })
  }

  #read(chunk: Buffer): void {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    const headEnd = this.#pending.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const head = this.#pending.toString('latin1', 0, headEnd)
    const isStream = /content-type: text\/event-stream/i.test(head)
    const length = isStream || this.#isHead ? 0 : Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
    if (this.#pending.length < headEnd + 4 + length) return
    const body = this.#pending.toString('utf8', headEnd + 4, headEnd + 4 + length)
    this.#pending = Buffer.alloc(0)
    const reply = { status: Number(head.slice(9, 12)), head: head.toLowerCase(), body }
    // A stream never ends, and a server that is about to close does not accept the next request.
    if (isStream || /connection: close/.test(reply.head)) this.hangUp()
    this.#answer(reply)
  }

  #answer(reply: RawReply | 'closed'): void {
    const waiting = this.#waiting
    if (!waiting) return
    this.#waiting = undefined
    clearTimeout(waiting.timer)
    waiting.resolve(reply)
  }
}
