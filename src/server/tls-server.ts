import type { IncomingMessage, ServerOptions as NodeServerOptions, ServerResponse } from 'node:http'
import { createServer, type Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { refusedTls, type TlsOptions } from './tls.ts'

/** How long a handshake may take. */
const handshakeMs = 10_000

/** A server of Node's that speaks HTTPS, and what it is told later. */
export interface TlsServer {
  readonly server: HttpsServer
  /** Takes this pair for connections to come. */
  replace(options: TlsOptions): void
  /** Cuts connections, also those whose handshake has not ended: Node does not count them as connections yet. */
  cut(): void
}

export function createTlsServer(
  tls: TlsOptions,
  options: NodeServerOptions,
  serve: (request: IncomingMessage, response: ServerResponse) => void,
  onRefused: (socket: TLSSocket, error: Error) => void,
): TlsServer {
  const needsCertificate = tls.clientCa !== undefined
  const server = createServer(
    {
      ...options,
      ...contextOf(tls),
      handshakeTimeout: handshakeMs,
      requestCert: needsCertificate,
      rejectUnauthorized: needsCertificate,
    },
    serve,
  )
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  // Node would answer a failed handshake as a broken request, in HTTP.
  server.removeAllListeners('tlsClientError')
  server.on('tlsClientError', (error, socket) => {
    socket.destroy()
    onRefused(socket, error)
  })
  return {
    server,
    replace(next) {
      if ((next.clientCa !== undefined) !== needsCertificate)
        throw refusedTls('clientCa', 'cannot be added or taken away while the server runs. Start it again.')
      server.setSecureContext(contextOf(next))
    },
    cut() {
      for (const socket of sockets) socket.destroy()
    },
  }
}

function contextOf({ cert, key, clientCa }: TlsOptions): { cert: string; key: string; ca?: string } {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) }
}
