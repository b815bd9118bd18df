import type { IncomingMessage, ServerOptions as NodeServerOptions, ServerResponse } from 'node:http'
import { createServer, type Server as HttpsServer } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { refusedTls, type TlsOptions } from './tls.ts'

/** How long a handshake may take. */
const handshakeMs = 10_000

/** An HTTPS server of Node, whose certificates can be replaced. */
export interface TlsServer {
  readonly server: HttpsServer
  /** New connections get these certificates. */
  replace(options: TlsOptions): void
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
  // Node would answer a failed handshake as a broken request, in HTTP.
  server.removeAllListeners('tlsClientError')
  server.on('tlsClientError', (error, socket) => {
    socket.destroy()
    onRefused(socket, certificateRefusal(socket) ?? error)
  })
  return {
    server,
    replace(next) {
      if ((next.clientCa !== undefined) !== needsCertificate)
        throw refusedTls('clientCa', 'cannot be added or removed while the server runs. Restart the server.')
      server.setSecureContext(contextOf(next))
    },
  }
}

/** Node says "socket hang up" of a client whose certificate it refused. */
function certificateRefusal({ authorizationError }: TLSSocket): Error | undefined {
  // The type says Error; Node sets the code of OpenSSL.
  const code: unknown = authorizationError
  if (typeof code !== 'string') return undefined
  const message = `The client's certificate is not signed by the authority in tls.clientCa, or does not count: ${code}.`
  return Object.assign(new Error(message), { code })
}

function contextOf({ cert, key, clientCa }: TlsOptions): { cert: string; key: string; ca?: string } {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) }
}
