import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, test } from 'vitest'
import { type Authority, createAuthority, type KeyPair } from '../support/certificates.ts'
import { within } from '../support/deadline.ts'
import { createWorkplace, type Serving, type Workplace } from './command.ts'

/** What the image asks whether the server is well. */
const healthCheck = fileURLToPath(new URL('../../packaging/docker/healthcheck.ts', import.meta.url))

let authority: Authority
let first: KeyPair
beforeAll(async () => {
  authority = await createAuthority()
  first = await authority.server('first')
})
afterAll(() => authority[Symbol.asyncDispose]())

/** The files of a pair, and of the authority that signs clients, as an operator has them. */
function write(place: Workplace, { cert, key }: KeyPair): void {
  const files = { 'cert.pem': cert, 'key.pem': key, 'ca.pem': authority.cert }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(place.folder, name), text)
  chmodSync(join(place.folder, 'key.pem'), 0o600)
}

const flags = ['--tls-cert=cert.pem', '--tls-key=key.pem']

/** The server that answers a new connection. */
async function peerOf(url: string, pair?: KeyPair): Promise<string> {
  const agent = new Agent({ ca: authority.cert, ...pair })
  const asked = request(`${url}/livez`, { agent }).end()
  const [reply] = (await within(10_000, 'livez', once(asked, 'response'))) as [IncomingMessage]
  const { subject } = (reply.socket as TLSSocket).getPeerCertificate()
  reply.resume()
  return `${reply.statusCode} ${subject.CN}`
}

async function logged(server: Serving, event: string): Promise<string> {
  const found = () =>
    server
      .err()
      .split('\n')
      .find((line) => line.includes(`"${event}"`))
  await within(
    10_000,
    event,
    (async () => {
      while (found() === undefined) await sleep(20)
    })(),
  )
  return found()!
}

test('serve with a certificate prints https, and a command with its authority reaches it', async () => {
  using place = createWorkplace()
  write(place, first)
  await using server = await place.serve(flags)
  assert.match(server.out(), /^Signalbox \S+ is listening on https:\/\/127\.0\.0\.1:\d+ /)
  assert.match(server.out(), /Authentication: off/)
  assert.match(server.out(), /Try: curl https:\/\/127/)
  assert.equal(await peerOf(server.url), '200 first')
  const env = { SIGNALBOX_URL: server.url, NODE_EXTRA_CA_CERTS: join(place.folder, 'ca.pem') }
  const { code, out } = await place.run(['add', 'hello', '--json'], env)
  assert.equal(code, 0)
  assert.match(out, /"id"/)
  const doctor = await place.run(['doctor', '--json', '--url', server.url], env)
  assert.match(doctor.out, new RegExp(`"${server.url}"`))
  assert.ok(!doctor.out.includes('plain HTTP'))
  const { port } = new URL(server.url)
  for (const [reported, status] of [
    [{ SIGNALBOX_PORT: port, SIGNALBOX_TLS_CERT: 'cert.pem' }, 0],
    [{ SIGNALBOX_PORT: port, SIGNALBOX_TLS_CERT: 'cert.pem', SIGNALBOX_TLS_CLIENT_CA: 'ca.pem' }, 0],
    [{ SIGNALBOX_PORT: port }, 1],
  ] as const)
    assert.equal(
      spawnSync(process.execPath, [healthCheck], { env: reported, timeout: 20_000 }).status,
      status,
    )
  // Without the authority nothing is sent.
  const stranger = await place.run(['add', 'hello', '--json'], { SIGNALBOX_URL: server.url })
  assert.notEqual(stranger.code, 0)
})

test('SIGHUP loads new certificates, and refuses and logs those that do not match', async () => {
  using place = createWorkplace()
  write(place, first)
  const env = {
    SIGNALBOX_TLS_CERT: 'cert.pem',
    SIGNALBOX_TLS_KEY: 'key.pem',
    SIGNALBOX_TLS_CLIENT_CA: 'ca.pem',
  }
  await using server = await place.serve([], env)
  const client = await authority.client()
  assert.equal(await peerOf(server.url, client), '200 first')
  await assert.rejects(peerOf(server.url), 'a client needs a certificate')

  const second = await authority.server('second')
  write(place, { cert: second.cert, key: first.key })
  server.kill('SIGHUP')
  const refused = await logged(server, 'tls.reload_failed')
  assert.match(
    refused,
    /SIGNALBOX_TLS_KEY names \\"key\.pem\\", which is not the key of the certificate in SIGNALBOX_TLS_CERT/,
  )
  assert.match(refused, /"level":"error"/)
  assert.equal(await peerOf(server.url, client), '200 first')

  write(place, second)
  server.kill('SIGHUP')
  assert.match(await logged(server, 'tls.reloaded'), /"expiresAt":"20\d\d-/)
  assert.equal(await peerOf(server.url, client), '200 second')
  server.kill('SIGTERM')
  assert.equal((await server.ended).code, 0)
})

test('SIGHUP loads a new authority of clients', async () => {
  await using strangers = await createAuthority('Strangers')
  using place = createWorkplace()
  write(place, first)
  await using server = await place.serve([...flags, '--tls-client-ca=ca.pem'])
  assert.equal(await peerOf(server.url, await authority.client()), '200 first')
  writeFileSync(join(place.folder, 'ca.pem'), strangers.cert)
  server.kill('SIGHUP')
  await logged(server, 'tls.reloaded')
  assert.equal(await peerOf(server.url, await strangers.client()), '200 first')
  await assert.rejects(peerOf(server.url, await authority.client()))
})

test('SIGHUP refuses an expired certificate, and a server that starts with one logs a warning', async () => {
  using place = createWorkplace()
  const expired = await authority.expiredServer()
  write(place, first)
  {
    await using server = await place.serve(flags)
    write(place, expired)
    server.kill('SIGHUP')
    assert.match(await logged(server, 'tls.reload_failed'), /tls\.cert expired at 20\d\d-/)
    assert.equal(await peerOf(server.url), '200 first')
  }
  await using late = await place.serve(flags)
  assert.match(await logged(late, 'tls.expired'), /"level":"warn".*"expiresAt":"20\d\d-/)
  await assert.rejects(peerOf(late.url), { code: 'CERT_HAS_EXPIRED' })
})

test('unusable certificates are refused at the start, each by its file name', async () => {
  using place = createWorkplace()
  const other = await authority.server('other')
  write(place, { cert: first.cert, key: other.key })
  const mismatch = await place.call(['serve', ...flags])
  assert.equal(mismatch.code, 2)
  assert.match(
    mismatch.err,
    /--tls-key names "key\.pem", which is not the key of the certificate in --tls-cert\. Give the two files of one pair\./,
  )

  write(place, first)
  chmodSync(join(place.folder, 'key.pem'), 0o644)
  const open = await place.call(['serve', ...flags])
  assert.equal(open.code, 2)
  assert.match(
    open.err,
    /--tls-key names "key\.pem", which other users may read or write \(mode 644\)\. Run: chmod 600/,
  )

  for (const [args, reason] of [
    [
      ['--tls-cert=none.pem', '--tls-key=key.pem'],
      /--tls-cert names "none\.pem", which cannot be read \(ENOENT\)\./,
    ],
    [['--tls-cert=cert.pem'], /--tls-cert is given without --tls-key or SIGNALBOX_TLS_KEY/],
    [['--tls-key=key.pem'], /--tls-key is given without --tls-cert or SIGNALBOX_TLS_CERT/],
    [['--tls-client-ca=ca.pem'], /--tls-client-ca is given without --tls-cert or SIGNALBOX_TLS_CERT/],
  ] as const) {
    const { code, err } = await place.call(['serve', '--port=0', ...args])
    assert.equal(code, 2)
    assert.match(err, reason)
  }
})
