import { Socket } from 'node:net'

/** An answer as it came. */
export interface RawAnswer {
  readonly status: number
  /** In lower case. */
  readonly head: string
  readonly body: string
  /** What `X-Request-Id` says; answers on the bare socket have none. */
  readonly id: string | undefined
}

/**
 * A socket that survives a failed write. When the server resets a connection, the kernel still has what came before. Node would
 * drop it: it destroys a socket whose write failed.
 */
class SurvivingSocket extends Socket {
  writeError: Error | undefined

  override _write(chunk: unknown, encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    super._write(chunk, encoding, this.#survive(callback))
  }

  override _writev(
    chunks: Parameters<NonNullable<Socket['_writev']>>[0],
    callback: (error?: Error | null) => void,
  ): void {
    super._writev!(chunks, this.#survive(callback))
  }

  #survive(callback: () => void): (error?: Error | null) => void {
    return (error) => {
      this.writeError ??= error ?? undefined
      callback()
    }
  }
}

/** A connection that sends bytes as they are, and reads answers in the order in which they come. Never reconnects. */
export class RawConnection implements Disposable {
  readonly #socket: SurvivingSocket
  readonly #answers: RawAnswer[] = []
  #unread: Buffer = Buffer.alloc(0)
  #isEnded = false
  #isClosed = false
  #error: string | undefined
  #changed = Promise.withResolvers<void>()

  /** `keepsSending`: the client does not end its half when the server has ended its own. */
  constructor(port: number, { keepsSending = false }: { readonly keepsSending?: boolean } = {}) {
    this.#socket = new SurvivingSocket({ allowHalfOpen: true })
    this.#socket.setNoDelay(true).connect(port, '127.0.0.1')
    this.#socket
      .on('data', (chunk) => this.#read(chunk))
      .on('error', (error) => {
        this.#error = `${error}`
      })
      .on('end', () => {
        this.#isEnded = true
        if (!keepsSending) this.#socket.end()
        this.#change()
      })
      .on('close', () => {
        this.#isClosed = true
        this.#change()
      })
  }

  /** Interim answers (1xx) are left out, but for 101. */
  get answers(): readonly RawAnswer[] {
    return this.#answers
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** What came behind the last whole answer. */
  get rest(): string {
    return this.#unread.toString('latin1')
  }

  /** What broke the connection. */
  get error(): string | undefined {
    const { writeError } = this.#socket
    return this.#error ?? (writeError && `${writeError}`)
  }

  send(bytes: Buffer | string): void {
    if (this.#socket.writable && this.error === undefined) this.#socket.write(bytes)
  }

  end(): void {
    this.#socket.end()
  }

  /** Waits until this many answers have come, or the server has closed. Throws when that takes too long. */
  async comes(count: number, timeoutMs = 10_000): Promise<readonly RawAnswer[]> {
    await this.#until(() => this.#answers.length >= count, `${count} answers`, timeoutMs)
    return this.#answers
  }

  /** Waits until the server has closed the connection, and gives all that was answered. */
  async closes(timeoutMs = 10_000): Promise<readonly RawAnswer[]> {
    await this.#until(() => false, 'the end of the connection', timeoutMs)
    return this.#answers
  }

  /** Waits until the server has ended its half of the connection, and gives all that was answered. */
  async ends(timeoutMs = 10_000): Promise<readonly RawAnswer[]> {
    await this.#until(() => this.#isEnded, "the end of the server's half", timeoutMs)
    return this.#answers
  }

  reset(): void {
    this.#socket.resetAndDestroy()
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
  }

  async #until(isSo: () => boolean, what: string, timeoutMs: number): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(
      () => reject(new Error(`${what} did not come in ${timeoutMs} ms: ${JSON.stringify(this.#summary())}`)),
      timeoutMs,
    )
    try {
      while (!isSo() && !this.#isClosed) await Promise.race([this.#changed.promise, late])
    } finally {
      clearTimeout(timer)
    }
  }

  #summary(): object {
    return {
      answers: this.#answers.map(({ status, id }) => `${status} ${id}`),
      rest: this.rest.slice(0, 200),
    }
  }

  #change(): void {
    const { resolve } = this.#changed
    this.#changed = Promise.withResolvers()
    resolve()
  }

  #read(chunk: Buffer): void {
    this.#unread = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk])
    for (;;) {
      const headEnd = this.#unread.indexOf('\r\n\r\n')
      if (headEnd < 0) break
      const head = this.#unread.toString('latin1', 0, headEnd).toLowerCase()
      const status = Number(/^http\/1\.1 (\d{3}) /.exec(head)?.[1])
      // What follows belongs to something else, or is no answer at all.
      if (!status) break
      const end = headEnd + 4 + Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? 0)
      if (this.#unread.length < end) break
      const body = this.#unread.toString('utf8', headEnd + 4, end)
      this.#unread = this.#unread.subarray(end)
      const id = /\r\nx-request-id: (\S+)/.exec(head)?.[1]
      if (status >= 200 || status === 101) this.#answers.push({ status, head, body, id })
    }
    this.#change()
  }
}
