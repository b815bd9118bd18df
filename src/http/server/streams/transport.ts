import type { ServerResponse } from 'node:http'
import { ignore } from '../lingering-close.ts'

/** Where a stream of events is written to: a response of Node, or the body of a `Response`. */
export interface Transport {
  /** Sets the owner, which hears of everything that follows. Called once, before anything else. */
  attach(owner: TransportOwner): void
  /** Sends a chunk. False: the client reads too slowly, so the owner waits for `drained`. */
  write(chunk: Uint8Array): boolean
  /** Ends the stream once everything was sent. */
  end(): void
  /** Cuts the stream. */
  destroy(): void
}

export interface TransportOwner {
  /** The next chunk may be written. May come without need. */
  drained(): void
  /** The stream is over, by either side. May come more than once. */
  closed(): void
}

/** Writes to a response whose head was written, or whose client has left. */
export function httpTransport(response: ServerResponse): Transport {
  return new HttpTransport(response)
}

/** There may be many thousands, so this is a class: its methods are shared. */
class HttpTransport implements Transport {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  attach(owner: TransportOwner): void {
    const response = this.#response
    response.on('drain', () => owner.drained())
    response.on('close', () => owner.closed())
    // The error of a write to a lost connection; `close` follows. An error without a listener would end the process.
    response.on('error', ignore)
    // A stream ends with its client, and the end of the client's half is all that shows that it left.
    const { socket } = response.req
    if (socket.readableEnded) response.destroy()
    else socket.once('end', () => response.destroy())
    if (response.closed || response.destroyed) owner.closed()
  }

  write(chunk: Uint8Array): boolean {
    return this.#response.write(chunk)
  }

  end(): void {
    this.#response.end()
  }

  destroy(): void {
    this.#response.destroy()
  }
}

/** The most unread bytes in the body of a `Response` before `write` returns false. */
const bodyHighWaterBytes = 65_536

/** A transport, and the body from which a reader reads what was written to it. */
export function bodyTransport(): {
  readonly transport: Transport
  readonly body: ReadableStream<Uint8Array>
} {
  let owner: TransportOwner | undefined
  let controller: ReadableStreamDefaultController<Uint8Array>
  const body = new ReadableStream<Uint8Array>(
    {
      start: (given) => {
        controller = given
      },
      pull: () => owner?.drained(),
      cancel: () => owner?.closed(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: bodyHighWaterBytes }),
  )
  const transport: Transport = {
    attach: (given) => {
      owner = given
    },
    write(chunk) {
      // A copy: many streams share one chunk, and the reader of a body may transfer its memory.
      controller.enqueue(new Uint8Array(chunk))
      return (controller.desiredSize ?? 0) > 0
    },
    end() {
      controller.close()
      // No event says that the rest was read. It is no more than the high-water mark.
      queueMicrotask(() => owner?.closed())
    },
    destroy() {
      controller.error(new Error('The stream of events was cut off.'))
      queueMicrotask(() => owner?.closed())
    },
  }
  return { transport, body }
}
