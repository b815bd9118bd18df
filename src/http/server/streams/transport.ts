import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { closeLingering, ignore } from '../lingering-close.ts'

/** What a stream of events is written to: a response of Node's, or the body of a `Response`. */
export interface Transport {
  /** Says who is told what happens to it, from now on. Called once, before anything else. */
  attach(owner: TransportOwner): void
  /** Takes it, to be sent. False: it is not sent as fast as it comes, so the next had better wait for `drained`. */
  write(chunk: Uint8Array): boolean
  /** Ends it once all that was written has been sent. */
  end(): void
  /** Cuts it off. */
  destroy(): void
}

export interface TransportOwner {
  /** There is room again. May come without need. */
  drained(): void
  /** It is over, whoever ended it. May come more than once. */
  closed(): void
}

/** The transport of a response whose head has been written, or which its client has left already. */
export function httpTransport(response: ServerResponse): Transport {
  return new HttpTransport(response)
}

/** A class, for there may be many thousands: methods are shared, functions of their own would not be. */
class HttpTransport implements Transport {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  attach(owner: TransportOwner): void {
    const response = this.#response
    response.on('drain', () => owner.drained())
    response.on('close', () => owner.closed())
    // Of a write to a connection that has just been lost; `close` says so too. Unheard, it would end the process.
    response.on('error', ignore)
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

/** The transport of a connection that is nothing but a stream, and whose head has been written. Somebody must hear its errors. */
export function socketTransport(socket: Socket): Transport {
  return new SocketTransport(socket)
}

class SocketTransport implements Transport {
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
  }

  attach(owner: TransportOwner): void {
    const socket = this.#socket
    const closed = () => {
      socket.off('close', closed)
      owner.closed()
    }
    socket.on('drain', () => owner.drained())
    // A client that keeps its half open after the end does not keep the stream.
    socket.on('finish', closed).on('close', closed)
    if (socket.destroyed) owner.closed()
  }

  write(chunk: Uint8Array): boolean {
    // Whoever has gone takes all there is: `close` follows.
    return !this.#socket.writable || this.#socket.write(chunk)
  }

  end(): void {
    closeLingering(this.#socket)
  }

  destroy(): void {
    this.#socket.destroy()
  }
}

/** So much may lie in the body of a `Response` before `write` says no. */
const bodyHighWaterBytes = 65_536

/** A transport and the body that shows what is written to it. */
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
      // A copy: many readers share one chunk, and whoever reads a body may take its memory away with it.
      controller.enqueue(new Uint8Array(chunk))
      return (controller.desiredSize ?? 0) > 0
    },
    end() {
      controller.close()
      // Nobody says when the rest has been read, and it is no more than the high water mark.
      queueMicrotask(() => owner?.closed())
    },
    destroy() {
      controller.error(new Error('The stream of events was cut off.'))
      queueMicrotask(() => owner?.closed())
    },
  }
  return { transport, body }
}
