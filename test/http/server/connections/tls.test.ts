import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { connect as connectTls, getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { open } from 'signalbox'
import { connectNode, createClient, type FetchFunction, type WebSocketMaker } from 'signalbox/client'
import {
  createLog,
  createServer,
  type Log,
  type Server,
  type ServerOptions,
  type TlsOptions,
} from 'signalbox/server'
import { afterAll, beforeAll, test } from 'vitest'
import { WebSocket } from 'ws'
import { type Authority, createAuthority, type KeyPair } from '../../../support/certificates.ts'
import { within } from '../../../support/deadline.ts'
import { readEvents } from '../event-reader.ts'

const before = getCACertificates('default')
let authority: Authority
let first: KeyPair
beforeAll(async () => {
  authority = await createAuthority()
  first = await authority.server('first')
  // What NODE_EXTRA_CA_CERTS does at the start of a process.
  setDefaultCACertificates([...before, authority.cert])
})
afterAll(async () => {
  setDefaultCACertificates(before)
  await authority[Symbol.asyncDispose]()
})

interface Stage extends AsyncDisposable {
  readonly server: Server
  readonly url: string
}

async function serving(tls: TlsOptions, log?: Log, options: Partial<ServerOptions> = {}): Promise<Stage> {
  const box = await open('memory:')
  const server = createServer({ box, port: 0, tls, ...options, ...(log === undefined ? {} : { log }) })
  const { url } = await server.listen()
  return {
    server,
    url,
    async [Symbol.asyncDispose]() {
      await server.close()
      await box.close()
    },
  }
}

/** One request on a connection of the agent's; returns the received data, the server, and the socket. */
async function ask(
  url: string,
  agent: Agent,
  path = '/livez',
): Promise<{ status: number | undefined; peer: string; socket: TLSSocket }> {
  const [reply] = (await within(10_000, path, once(request(url + path, { agent }).end(), 'response'))) as [
    IncomingMessage,
  ]
  const socket = reply.socket as TLSSocket
  const peer = String(socket.getPeerCertificate().subject.CN)
  reply.resume()
  await once(reply, 'end')
  return { status: reply.statusCode, peer, socket }
}

async function metricsOf(url: string, agent: Agent): Promise<string> {
  const [reply] = (await once(request(`${url}/metrics`, { agent }).end(), 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of reply.setEncoding('utf8')) text += chunk
  return text
}

/** An agent that keeps its connections, with or without a client certificate. */
function createAgent(pair?: KeyPair): Agent & Disposable {
  const agent = new Agent({ ca: authority.cert, keepAlive: true, ...pair })
  return Object.assign(agent, { [Symbol.dispose]: () => agent.destroy() })
}

test('requests, streams and nodes work over TLS', async () => {
  await using stage = await serving(first)
  assert.match(stage.url, /^https:\/\/127\.0\.0\.1:\d+$/)
  await using box = await open(stage.url as `https://${string}`)
  const { id } = await box.jobs.add('hello', { to: 'Ada' })
  const [job] = await box.jobs.claim()
  assert.deepEqual([job?.id, job?.payload], [id, { to: 'Ada' }])
  await box.jobs.ack(job!)

  const query = 'operation=pull&resource=app&node=b'
  for (const node of ['a', 'b']) await box.locks.acquire({ operation: 'pull', resource: 'app', node })
  await using stream = await readEvents(`${stage.url}/v1/locks/events?${query}`)
  assert.equal(stream.response.status, 200)
  assert.ok((await stream.next()).data.length > 0)

  await using _node = await connectNode(stage.url.replace('https:', 'wss:'), {
    nodeId: 'gpu-1',
    services: [{ name: 'echo', slots: 1 }],
    onTask: (task) => task.payload,
  })
  using client = createClient(stage.url)
  const { taskId } = await client.dispatch.submit({ service: 'echo', payload: { said: '你好' } })
  const events: unknown[] = []
  await within(
    10_000,
    'the task',
    client.dispatch.watch(taskId, (event) => void events.push(event)),
  )
  assert.match(JSON.stringify(events.at(-1)), /你好/)
})

test('a body in parts and a request behind another are answered in order over TLS', async () => {
  await using stage = await serving(first)
  const raw = connectTls({ port: Number(new URL(stage.url).port), host: '127.0.0.1', ca: authority.cert })
  await once(raw, 'secureConnect')
  const host = new URL(stage.url).host
  const body = '{"kind":"hello"}'
  const head = `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  raw.write(head + body.slice(0, 5))
  raw.write(`${body.slice(5)}GET /livez HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  let text = ''
  raw.setEncoding('utf8').on('data', (chunk) => (text += chunk))
  await within(10_000, 'both answers', once(raw, 'end'))
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 201', 'HTTP/1.1 200'])
})

test('where client certificates are required, a client without a trusted one is refused', async () => {
  await using strangers = await createAuthority('Strangers')
  await using stage = await serving({ ...first, clientCa: authority.cert })
  using known = createAgent(await authority.client())
  assert.equal((await ask(stage.url, known)).status, 200)
  for (const pair of [undefined, await strangers.client()]) {
    using agent = createAgent(pair)
    await assert.rejects(
      ask(stage.url, agent),
      /certificate required|unknown ca|ECONNRESET|socket hang up|EPIPE/i,
    )
  }
  await assert.rejects(fetch(`${stage.url}/livez`), 'the client of the library has no certificate here')
  assert.match(await metricsOf(stage.url, known), /^signalbox_\w*refus\w*\{.*tls_handshake.*\} [3-9]$/m)
  using again = createAgent(await authority.client())
  assert.equal((await ask(stage.url, again)).status, 200)
})

test('the log shows why a client certificate was refused', async () => {
  await using strangers = await createAuthority('Strangers')
  const { promise: logged, resolve } = Promise.withResolvers<string>()
  let text = ''
  const destination = {
    write(lines: string, taken: () => void) {
      text += lines
      if (text.includes('tls_handshake')) resolve(text)
      taken()
    },
  }
  await using log = createLog({ destination, level: 'warn' })
  await using stage = await serving({ ...first, clientCa: authority.cert }, log)
  using agent = createAgent(await strangers.client())
  await assert.rejects(ask(stage.url, agent))
  assert.match(
    await within(10_000, 'a line', logged),
    /"reason":"tls_handshake".*"code":"UNABLE_TO_[A-Z_]+","message":"The client's certificate is not signed/,
  )
})

test('a box and a node with a client certificate work where one is required', async () => {
  await using stage = await serving({ ...first, clientCa: authority.cert })
  const pair = await authority.client()
  using agent = createAgent(pair)
  const box = await open(stage.url as `https://${string}`, { fetch: fetchThrough(agent) })
  const { id } = await box.jobs.add('hello', { to: 'Ada' })
  assert.equal((await box.jobs.claim())[0]?.id, id)
  class CertifiedSocket extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { ca: authority.cert, ...pair })
    }
  }
  const connected = connectNode(stage.url.replace('https:', 'wss:'), {
    nodeId: 'gpu-1',
    services: [{ name: 'echo', slots: 1 }],
    onTask: (task) => task.payload,
    WebSocket: CertifiedSocket as unknown as WebSocketMaker,
  })
  await using _node = await within(10_000, 'the node', connected)
  await box.close()
})

/** A separate `fetch`, as in a program whose requests show a certificate. */
function fetchThrough(agent: Agent): FetchFunction {
  return async (url, { method = 'GET', headers, body, signal }) => {
    const asked = request(url, {
      agent,
      method,
      headers: Object.fromEntries(new Headers(headers)),
      signal: signal!,
    })
    asked.end(body as string | undefined)
    const [reply] = (await once(asked, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    for await (const chunk of reply) chunks.push(chunk)
    const text = chunks.length === 0 ? null : Buffer.concat(chunks)
    return new Response(text, { status: reply.statusCode!, headers: reply.headers as Record<string, string> })
  }
}

test('new certificates apply to new connections, and open connections and streams continue', async () => {
  await using stage = await serving(first)
  using agent = createAgent()
  const one = await ask(stage.url, agent)
  assert.equal(one.peer, 'first')
  await using box = await open(stage.url as `https://${string}`)
  for (const node of ['a', 'b']) await box.locks.acquire({ operation: 'pull', resource: 'app', node })
  await using stream = await readEvents(`${stage.url}/v1/locks/events?operation=pull&resource=app&node=b`)
  await stream.next()

  stage.server.setTls(await authority.server('second'))
  const same = await ask(stage.url, agent)
  assert.deepEqual([same.status, same.peer, same.socket === one.socket], [200, 'first', true])
  using fresh = createAgent()
  assert.equal((await ask(stage.url, fresh)).peer, 'second')
  const { token } = await held(box)
  await box.locks.release({
    operation: 'pull',
    resource: 'app',
    node: 'a',
    token,
    outcome: 'success',
    result: 'ok',
  })
  assert.match(JSON.stringify(await stream.next()), /ok/)
})

async function held(box: Awaited<ReturnType<typeof open>>) {
  const grant = await box.locks.acquire({ operation: 'pull', resource: 'app', node: 'a' })
  assert.equal(grant.status, 'granted')
  return grant as typeof grant & { token: number }
}

test('certificates that do not match never replace working ones', async () => {
  await using strangers = await createAuthority('Strangers')
  await using stage = await serving({ ...first, clientCa: authority.cert })
  const second = await authority.server('second')
  for (const [tls, reason] of [
    [
      { cert: second.cert, key: first.key, clientCa: authority.cert },
      /tls\.key is not the key of the certificate/,
    ],
    [{ ...second, clientCa: 'nothing' }, /tls\.clientCa holds no certificate/],
    [{ ...second, cert: '' }, /tls\.cert holds no certificate/],
    [second, /tls\.clientCa cannot be added or removed/],
  ] as const)
    assert.throws(() => stage.server.setTls(tls), reason)
  using agent = createAgent(await authority.client())
  assert.equal((await ask(stage.url, agent)).peer, 'first')

  // From then on a client without a certificate of the new authority is refused, also one with earlier connections.
  stage.server.setTls({ ...second, clientCa: strangers.cert })
  using formerly = createAgent(await authority.client())
  await assert.rejects(ask(stage.url, formerly))
  using stranger = createAgent(await strangers.client())
  assert.equal((await ask(stage.url, stranger)).peer, 'second')
})

test('a certificate with a foreign key is refused before a port is opened', async () => {
  const other = await authority.server('other')
  const box = await open('memory:')
  const encrypted = first.key.replaceAll('PRIVATE KEY', 'ENCRYPTED PRIVATE KEY')
  for (const [tls, reason] of [
    [{ cert: first.cert, key: other.key }, /^tls\.key is not the key of the certificate in tls\.cert\./],
    [{ cert: first.key, key: first.key }, /^tls\.cert holds no certificate in PEM/],
    [{ cert: first.cert, key: first.cert }, /^tls\.key holds no private key in PEM/],
    [{ cert: first.cert, key: encrypted }, /^tls\.key is encrypted/],
    [
      { ...first, clientCa: first.cert.replace(/\n\w{20}/, '\nAAAAAAAAAAAAAAAAAAAA') },
      /^tls\.clientCa holds a certificate that cannot be read: number 1\./,
    ],
  ] as const) {
    assert.throws(
      () => createServer({ box, port: 0, tls }),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'invalid_argument')
        assert.match(error.message, reason)
        assert.ok(!error.message.includes(tls.key.slice(40, 80)), 'nothing of a key is in it')
        return true
      },
    )
  }
  await using plain = createServer({ box, port: 0 })
  assert.throws(() => plain.setTls(first), /plain HTTP/)
  await box.close()
})

test('a handshake that is never finished blocks nothing', async () => {
  const stage = await serving(first)
  const { port } = new URL(stage.url)
  const silent = connect(Number(port), '127.0.0.1')
  await once(silent, 'connect')
  const plain = connect(Number(port), '127.0.0.1')
  plain.on('error', () => {})
  plain.write('GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n')
  let said = ''
  plain.setEncoding('latin1').on('data', (chunk) => (said += chunk))
  await within(10_000, 'the end of plain HTTP', once(plain, 'close'))
  assert.ok(!said.includes('HTTP/1.1'), 'nothing is answered in the clear')
  using agent = createAgent()
  assert.equal((await ask(stage.url, agent)).status, 200)
  agent.destroy()
  const closed = once(silent, 'close')
  await within(5_000, 'the close', Promise.resolve(stage[Symbol.asyncDispose]()))
  await within(5_000, 'the silent connection', closed)
})

test('a connection above the cap is closed without plain HTTP, and counted', async () => {
  await using stage = await serving(first, undefined, { maxConnectionsPerAddress: 1 })
  using agent = createAgent()
  assert.equal((await ask(stage.url, agent)).status, 200)
  const refused = connect(Number(new URL(stage.url).port), '127.0.0.1').on('error', () => {})
  const chunks: Buffer[] = []
  refused.on('data', (chunk) => chunks.push(chunk))
  await within(10_000, 'the end of the refused connection', once(refused, 'close'))
  assert.equal(Buffer.concat(chunks).toString('latin1'), '')
  assert.match(
    await metricsOf(stage.url, agent),
    /signalbox_http_refused_total\{reason="connection_limit"\} 1\n/,
  )
})
