/**
 * A wire between workers and their database that can be cut at the worst moment. It reads what the workers send and,
 * when the word COMMIT passes, may cut that connection
 *
 *   before   COMMIT is not passed on: the database never hears of it;
 *   after    COMMIT is passed on and answered, and the answer is kept from the worker;
 *   between  COMMIT is passed on and the connection ends at once: it may or may not count.
 *
 * The same can be done to any other packet, and the whole wire can be frozen: nothing passes, nothing is refused.
 */
import { createServer, type Socket, connect as tcpConnect } from 'node:net'

export type Cut = 'before' | 'after' | 'between'

/** What to do with the connection that a packet came on; undefined lets it pass. */
export type Fate = (packet: { readonly isCommit: boolean }) => Cut | undefined

export interface Proxy extends AsyncDisposable {
  /** The database's URL, through the wire. */
  readonly url: string
  readonly cuts: Readonly<Record<Cut, number>>
  /** Holds everything back, both ways, without closing anything. */
  freeze(): void
  thaw(): void
}

export async function createProxy(target: string, fate: Fate): Promise<Proxy> {
  const { hostname, port, protocol } = new URL(target)
  const isPostgres = protocol.startsWith('postgres')
  const cuts: Record<Cut, number> = { before: 0, after: 0, between: 0 }
  const sockets = new Set<Socket>()
  let isFrozen = false

  const server = createServer({ noDelay: true }, (client) => {
    const upstream = tcpConnect({ host: hostname, port: Number(port), noDelay: true })
    let isCutOnAnswer = false
    let awaitsReady = false
    let kept = Buffer.alloc(0)
    const end = () => {
      for (const socket of [client, upstream]) {
        sockets.delete(socket)
        socket.resetAndDestroy()
      }
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end).on('close', end)
      if (isFrozen) socket.pause()
    }
    client.on('data', (data: Buffer) => {
      const isCommit = hasCommit(data)
      const cut = isCutOnAnswer ? undefined : fate({ isCommit })
      if (cut === undefined) {
        upstream.write(data)
        return
      }
      cuts[cut]++
      if (cut === 'before') end()
      else if (cut === 'after') {
        isCutOnAnswer = true
        awaitsReady = isCommit && isPostgres
        upstream.write(data)
      } else upstream.write(data, end)
    })
    upstream.on('data', (data: Buffer) => {
      if (!isCutOnAnswer) {
        client.write(data)
        return
      }
      kept = Buffer.concat([kept, data])
      if (!awaitsReady || kept.includes(ready)) end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  const url = new URL(target)
  url.port = String(address.port)

  return {
    url: url.href,
    cuts,
    freeze() {
      isFrozen = true
      for (const socket of sockets) socket.pause()
    },
    thaw() {
      isFrozen = false
      for (const socket of sockets) socket.resume()
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/**
 * ReadyForQuery, outside of any transaction: the end of Postgres's answer to COMMIT. Earlier messages may be the answer
 * to another statement of the same packet, and cutting after one would end the session before its COMMIT is done.
 */
const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/** Both protocols send statements as plain text. COMMIT is short and is sent in one write, so it is never torn. */
function hasCommit(data: Buffer): boolean {
  return /\bCOMMIT\b/i.test(data.toString('latin1'))
}
