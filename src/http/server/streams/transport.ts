import type { ServerResponse } from 'node:http'
import { ignore } from '../lingering-close.ts'

/** The target of a stream of events: a Node response, or the body of a `Response`. */
export interface Transport {
  /** Sets the owner, which gets all later callbacks. Called once, before every other method. */
  attach(owner: TransportOwner): void
  /** Sends a chunk. False: the client reads too slowly, so the owner must wait for `drained`. */
  write(chunk: Uint8Array): boolean
  /** Ends the stream after everything is sent. */
  end(): void
  /** Cuts the stream. */
  destroy(): void
}

export interface TransportOwner {
  /** The owner may write the next chunk. The transport may call this at any time. */
  drained(): void
  /** One side ended the stream. The transport may call this more than once. */
  closed(): void
}

/** Writes to a response whose head is written, or whose client has left. */
export function httpTransport(response: ServerResponse): Transport {
  return new HttpTransport(response)
}

/** A class, because a server may have many thousands and a class shares its methods. */
class HttpTransport implements Transport {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  attach(owner: TransportOwner): void {
    const response = this.#response
    const { socket } = response.req
    const left = () => response.destroy()
    response.on('drain', () => owner.drained())
    response.on('close', () => {
      // The connection may carry many streams, one after the other.
      socket.off('end', left)
      owner.closed()
    })
    // A write to a lost connection fails, and `close` follows. An error without a listener would end the process.
    response.on('error', ignore)
    // Only the end of the client's half of the socket shows that the client left.
    if (socket.readableEnded) left()
    else socket.once('end', left)
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

/** Unread bytes in the body of a `Response` above which `write` returns false. */
const bodyHighWaterBytes = 65_536

/** Creates a transport, and the body that yields the chunks written to it. */
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
      // Copies the chunk: many streams share it, and the reader of a body may transfer its memory.
      controller.enqueue(new Uint8Array(chunk))
      return (controller.desiredSize ?? 0) > 0
    },
    end() {
      controller.close()
      // No event reports that the reader read the rest, which is at most the high-water mark.
      queueMicrotask(() => owner?.closed())
    },
    destroy() {
      controller.error(new Error('The stream of events was cut off.'))
      queueMicrotask(() => owner?.closed())
    },
  }
  return { transport, body }
}
