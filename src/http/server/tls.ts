import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import type { IncomingMessage, ServerOptions as NodeServerOptions, ServerResponse } from 'node:http'
import { createServer, type Server as HttpsServer } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { SignalboxError } from '../../core/errors.ts'
import { onlyKeys } from '../../core/options.ts'

/**
 * TLS of the server itself, for machines without a proxy. The server checks that a certificate and its key match before
 * it uses them, at the start and when they are replaced. So a wrong pair never replaces a valid one. Open connections
 * keep their certificate; the next handshake uses the new one.
 */
export interface TlsOptions {
  /** The server's certificate in PEM, followed by the certificates that signed it, without the root. */
  readonly cert: string
  /** The private key of the certificate in PEM, not encrypted. */
  readonly key: string
  /**
   * Certificates in PEM that sign the certificates of clients. The server refuses clients without one. @default clients
   * need none
   */
  readonly clientCa?: string | undefined
}

/** The result of a check of certificates. */
export interface TlsCheck {
  /** The instant at which the server's certificate expires. */
  readonly expiresAt: number
}

/**
 * Checks certificates and key. Throws `invalid_argument` with the name of the wrong option. No message quotes a key.
 */
export function checkTls(options: TlsOptions): TlsCheck {
  onlyKeys('tls', options, ['cert', 'key', 'clientCa'])
  const { cert, key, clientCa } = options
  const [certificate] = certificatesOf('cert', cert)
  if (!certificate!.checkPrivateKey(privateKeyOf(key)))
    throw refusedTls('key', 'is not the key of the certificate in tls.cert. Give the two files of one pair.')
  if (clientCa !== undefined) certificatesOf('clientCa', clientCa)
  return { expiresAt: certificate!.validToDate.getTime() }
}

/** Refuses an expired certificate as a replacement, because every client would refuse it. */
export function requireUnexpired({ expiresAt }: TlsCheck): void {
  if (expiresAt > Date.now()) return
  throw refusedTls(
    'cert',
    `expired at ${new Date(expiresAt).toISOString()}. The server keeps its present certificate.`,
  )
}

function certificatesOf(option: 'cert' | 'clientCa', pem: unknown): readonly X509Certificate[] {
  const blocks =
    typeof pem === 'string' ? pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) : null
  if (blocks === null)
    throw refusedTls(option, 'holds no certificate in PEM ("-----BEGIN CERTIFICATE-----").')
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block)
    } catch (error) {
      throw refusedTls(option, `holds a certificate that cannot be read: number ${index + 1}.`, error)
    }
  })
}

function privateKeyOf(pem: unknown): KeyObject {
  if (typeof pem !== 'string' || !/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem))
    throw refusedTls('key', 'holds no private key in PEM ("-----BEGIN PRIVATE KEY-----").')
  if (/ENCRYPTED/.test(pem))
    throw refusedTls(
      'key',
      'is encrypted, and the server asks for no passphrase. Decrypt it: openssl pkey -in key.pem -out plain.pem',
    )
  try {
    return createPrivateKey(pem)
  } catch (error) {
    throw refusedTls('key', 'holds a private key that cannot be read.', error)
  }
}

function refusedTls(option: keyof TlsOptions, why: string, cause?: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', `tls.${option} ${why}`, {
    cause,
    details: { option: `tls.${option}` },
  })
}

/** How long a handshake may take. */
const handshakeMs = 10_000

/** An HTTPS server of Node with replaceable certificates. */
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

/** The reason for a refused client certificate. Node's own error says only "socket hang up". */
function certificateRefusal({ authorizationError }: TLSSocket): Error | undefined {
  // The type says Error; Node sets the code of OpenSSL.
  const code: unknown = authorizationError
  if (typeof code !== 'string') return undefined
  const message = `The client's certificate is not signed by the authority in tls.clientCa, or is not valid: ${code}.`
  return Object.assign(new Error(message), { code })
}

function contextOf({ cert, key, clientCa }: TlsOptions): { cert: string; key: string; ca?: string } {
  return { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) }
}
