/**
 * A load of HTTP requests over keep-alive connections, one request at a time on each: plain sockets and the least
 * parsing, so that on a small machine the server is measured and not the client. The same load drives every contestant.
 */
import { connect, type Socket } from 'node:net'

export interface LoadOptions {
  readonly port: number
  readonly connections: number
  /** The next request of a connection, made from the last reply's body ('' at first); undefined ends it. */
  readonly next: (connection: number, lastBody: string) => Buffer | undefined
  /** Statuses that count as done; any other ends the load with an error. */
  readonly statuses: readonly number[]
}

export interface LoadResult {
  readonly requests: number
  readonly seconds: number
}

/** Sends until every connection has nothing more to ask. */
export async function drive({ port, connections, next, statuses }: LoadOptions): Promise<LoadResult> {
  const startedAt = performance.now()
  const counts = await Promise.all(
    Array.from({ length: connections }, (_, number) => driveOne(port, number, next, statuses)),
  )
  const seconds = (performance.now() - startedAt) / 1_000
  return { requests: counts.reduce((sum, count) => sum + count, 0), seconds }
}

function driveOne(
  port: number,
  number: number,
  next: LoadOptions['next'],
  statuses: readonly number[],
): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0
    let pending: Buffer = Buffer.alloc(0)
    const socket: Socket = connect(port, '127.0.0.1')
    socket.setNoDelay(true)
    const ask = (lastBody: string) => {
      const request = next(number, lastBody)
      if (request === undefined) {
        socket.destroy()
        resolve(count)
      } else socket.write(request)
    }
    socket.on('connect', () => ask(''))
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`connection ${number} was closed after ${count} replies`)))
    socket.on('data', (chunk) => {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
      const headEnd = pending.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      const head = pending.toString('latin1', 0, headEnd)
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1])
      if (Number.isNaN(length)) return reject(new Error(`a reply without a length: ${head}`))
      if (pending.length < headEnd + 4 + length) return
      const body = pending.toString('latin1', headEnd + 4, headEnd + 4 + length)
      const status = Number(head.slice(9, 12))
      if (!statuses.includes(status)) return reject(new Error(`${status}: ${body.slice(0, 200)}`))
      pending = Buffer.alloc(0)
      count++
      ask(body)
    })
  })
}

/** A POST of that JSON text. */
export function post(port: number, path: string, body: string): Buffer {
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}
