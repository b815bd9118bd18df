/**
 * Counts the statements clients send to a Postgres, by standing between them: every simple Query and every Execute.
 * Counting on the wire leaves nothing out, whatever the server's own statistics take for a statement.
 */

import { once } from 'node:events'
import { createServer, connect as dial, type Socket } from 'node:net'

export interface Wiretap extends AsyncDisposable {
  /** The server's address, by way of here. */
  readonly url: string
  readonly count: number
}

export async function openWiretap(target: string): Promise<Wiretap> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let count = 0
  const server = createServer((client) => {
    const upstream = dial(Number(port || 5432), hostname)
    const isStatement = createReader()
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (chunk) => {
      count += isStatement(chunk)
      upstream.write(chunk)
    })
    upstream.on('data', (chunk) => client.write(chunk))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(target)
  url.host = `127.0.0.1:${(server.address() as { port: number }).port}`
  return {
    url: url.href,
    get count() {
      return count
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * Reads one client's messages, however they are cut into chunks; answers how many statements each chunk completed.
 * The first message has a length but no type, all others a type and then a length that counts itself.
 */
function createReader(): (chunk: Buffer) => number {
  let rest = Buffer.alloc(0)
  let isFirst = true
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    let statements = 0
    while (rest.length >= 5) {
      const size = isFirst ? rest.readInt32BE(0) : 1 + rest.readInt32BE(1)
      if (rest.length < size) break
      const type = isFirst ? '' : String.fromCharCode(rest[0]!)
      if (type === 'Q' || type === 'E') statements++
      isFirst = false
      rest = rest.subarray(size)
    }
    return statements
  }
}
