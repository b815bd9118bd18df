/**
 * Whether the server in this container answers. 403: it does, and is known by other names than this one. With TLS it asks
 * itself, so the name in the certificate does not matter; where clients need a certificate, it has none, and an open
 * port must do.
 */
import { once } from 'node:events'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect } from 'node:net'

const {
  SIGNALBOX_PORT: port = '7420',
  SIGNALBOX_TLS_CERT: cert,
  SIGNALBOX_TLS_CLIENT_CA: clientCa,
} = process.env
const host = '127.0.0.1'
const signal = AbortSignal.timeout(4_000)

if (cert !== undefined && clientCa !== undefined) {
  const socket = connect({ host, port: Number(port), signal })
  await once(socket, 'connect')
  socket.destroy()
} else {
  const options = { host, port, path: '/livez', signal }
  const asked =
    cert === undefined ? requestHttp(options) : requestHttps({ ...options, rejectUnauthorized: false })
  const [{ statusCode }] = await once(asked.end(), 'response')
  asked.destroy()
  if (statusCode !== 200 && statusCode !== 403) {
    process.stderr.write(`/livez answered ${statusCode}\n`)
    process.exitCode = 1
  }
}
