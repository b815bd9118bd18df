import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer as createTcpServer, type Socket } from 'node:net'
import { test } from 'vitest'
import { version } from '../../core/version.ts'
import { openMemory } from '../../storage/memory/index.ts'
import { createServer as createBareServer, type ServerOptions } from './index.ts'

const box = { backend: await openMemory({ namespace: 'default', migrate: true }) }

function createServer(options: Omit<ServerOptions, 'box'>) {
  return createBareServer({ box, ...options })
}

test('a server reports that it is alive and ready, and its version', async () => {
  await using server = createServer({ port: 0 })
  const { url } = await server.listen()
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
  for (const [path, status] of [
    ['/livez', 'ok'],
    ['/readyz', 'ready'],
  ]) {
    const reply = await fetch(url + path)
    assert.equal(reply.status, 200)
    assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
    const told = (await reply.json()) as { status: string; version: string }
    assert.deepEqual([told.status, told.version], [status, version])
  }
})

test('the root lists the parts of the API', async () => {
  await using server = createServer({ port: 0 })
  const { url } = await server.listen()
  const body = (await (await fetch(url)).json()) as { routes: object; note: string }
  for (const path of Object.keys(body.routes)) assert.equal((await fetch(url + path)).status, 200)
  assert.match(body.note, /dashboard/)
})

test('an unknown route is a problem document', async () => {
  await using server = createServer({ port: 0 })
  const { url } = await server.listen()
  for (const [method, path] of [
    ['GET', '/nope?secret=1'],
    ['POST', '/v1'],
    ['DELETE', '/v1/jobs/7/ack/again'],
  ] as const) {
    const reply = await fetch(url + path, { method })
    assert.equal(reply.status, 404)
    assert.match(reply.headers.get('content-type') ?? '', /^application\/problem\+json/)
    assert.deepEqual(await reply.json(), {
      type: 'urn:signalbox:error:not_found',
      title: 'The thing or the route does not exist.',
      status: 404,
      code: 'not_found',
      detail: `There is no route ${method} ${path.split('?')[0]}.`,
    })
  }
})

test('a second listen gives the same answer, and after close it is refused', async () => {
  const server = createServer({ port: 0 })
  const [first, second] = await Promise.all([server.listen(), server.listen()])
  assert.equal(first.url, second.url)
  await Promise.all([server.close(), server.close()])
  await assert.rejects(server.listen(), { code: 'closed' })
  await assert.rejects(fetch(first.url))
})

test.runIf(waitingRoom() >= 4_096)('a thousand connections in one moment are all accepted', async () => {
  const most = 1_200
  await using server = createServer({ port: 0, maxConnections: 5_000, maxConnectionsPerAddress: 5_000 })
  const { port } = new URL((await server.listen()).url)
  const longestMs = async () => {
    const begun = performance.now()
    const sockets = Array.from({ length: most }, () => connect(Number(port), '127.0.0.1'))
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    for (const socket of sockets) socket.destroy()
    return performance.now() - begun
  }
  // A client that is turned away tries again after a second, each time; a busy machine is not slow three times in a
  // row.
  const taken: number[] = []
  while (taken.length < 3 && !taken.some((ms) => ms < 1_000)) taken.push(await longestMs())
  assert.ok(Math.min(...taken) < 1_000, `it took ${taken.map(Math.round).join(', ')} ms`)
})

/** How many may wait to be let in, at most, on this machine. */
function waitingRoom(): number {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'))
  } catch {
    return 0
  }
}

test('a server closed while it opens does not stay open', async () => {
  const server = createServer({ port: 0 })
  const opening = server.listen()
  await server.close()
  const { url } = await opening
  await assert.rejects(fetch(url))
})

test('a server that never listened also closes', async () => {
  await createServer({ port: 0 }).close()
})

test('a port in use is named, with advice', async () => {
  const other = createTcpServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  await using server = createServer({ port })
  await assert.rejects(server.listen(), (error: { code: string; message: string; details: object }) => {
    assert.equal(error.code, 'listen_failed')
    assert.match(
      error.message,
      new RegExp(`^Port ${port} on 127\\.0\\.0\\.1 is already in use\\..*--port 0.*npm start -- --port 0`),
    )
    assert.deepEqual(error.details, { host: '127.0.0.1', port, reason: 'EADDRINUSE' })
    return true
  })
  other.close()
})

const begun = '{"kind":"mail"}'

/** Begins a request and stops in the middle of its body; the server's `100 Continue` says that it has begun there. */
async function beginRequest(url: string): Promise<Socket> {
  const { host, port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(
    `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${begun.length}\r\n\r\n${begun.slice(0, -1)}`,
  )
  const [answer] = await once(socket, 'data')
  assert.match(String(answer), /^HTTP\/1\.1 100 /)
  return socket
}

test('an address that this machine does not have is named', async () => {
  // One of those that are kept for documents.
  const host = '192.0.2.7'
  await using server = createServer({ host, port: 0, bootstrap: ['a-secret-of-thirty-two-characters!'] })
  await assert.rejects(server.listen(), {
    code: 'listen_failed',
    message: /^This machine has no address 192/,
  })
})

test('a draining server is alive but not ready, and finishes running requests', async () => {
  const server = createServer({ port: 0 })
  const { url } = await server.listen()
  const socket = await beginRequest(url)
  const answered = once(socket, 'data')

  const closed = server.close()
  const ready = await fetch(`${url}/readyz`)
  assert.equal(ready.status, 503)
  const { checks } = (await ready.json()) as { checks: { name: string; ok: boolean }[] }
  assert.deepEqual(
    checks.filter(({ ok }) => !ok).map(({ name }) => name),
    ['accepting'],
  )
  assert.equal(ready.headers.get('connection'), 'close')
  for (const path of ['/', '/nope', '/v1/jobs']) {
    const refused = await fetch(url + path)
    assert.equal(refused.status, 503)
    assert.equal(((await refused.json()) as { code: string }).code, 'draining')
    assert.equal(refused.headers.get('retry-after'), '1')
  }
  assert.equal((await fetch(`${url}/livez`)).status, 200)

  socket.write('}')
  const [answer] = await answered
  assert.match(String(answer), /^HTTP\/1\.1 201 /)
  await closed
  await assert.rejects(fetch(`${url}/livez`))
})

test('a client that never finishes its request delays close only by the grace time', async () => {
  const server = createServer({ port: 0, graceMs: 60_000 })
  const { url } = await server.listen()
  const socket = await beginRequest(url)
  const cut = new Promise((resolve) => socket.once('close', resolve))
  await server.close({ graceMs: 50 })
  await cut
})

test('a client that leaves during its request does not delay close', async () => {
  const server = createServer({ port: 0, graceMs: 60_000 })
  const { url } = await server.listen()
  const socket = await beginRequest(url)
  const closed = server.close()
  socket.destroy()
  await closed
})

test('idle connections do not delay close', async () => {
  const server = createServer({ port: 0, graceMs: 60_000 })
  const { url } = await server.listen()
  const sockets = Array.from({ length: 5 }, () => connect(Number(new URL(url).port), '127.0.0.1'))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  await (await fetch(`${url}/livez`)).text()
  const cut = sockets.map((socket) => once(socket, 'close'))
  await server.close()
  await Promise.all(cut)
})

test('invalid options are refused by name', () => {
  for (const [options, message] of [
    [{ port: 65_536 }, /^port must be a whole number from 0 to 65535, not 65536/],
    [{ port: '80' }, /^port must be/],
    [{ host: '' }, /^host must be/],
    [
      { headersTimeoutMs: 40_000 },
      /^headersTimeoutMs \(40000\) must not be above requestTimeoutMs \(30000\)/,
    ],
    [{ hots: 'localhost' }, /has no option "hots"/],
    [{ allowedHosts: ['a b'] }, /^allowedHosts\[0\] must be a name/],
    [{ maxConnections: 0 }, /^maxConnections must be/],
    [{ bootstrap: ['short'] }, /^Bootstrap secret 1 must be 32 or more/],
    [{ bootstrap: null }, /^bootstrap must be a list of secrets/],
    [{ bootstrap: 'a-secret-of-thirty-two-characters!' }, /^bootstrap must be a list of secrets\.$/],
    [{ bootstrap: [null] }, /^Bootstrap secret 1 must be 32 or more/],
    [{ log: null }, /^log must be a log, as createLog makes, not null/],
    [{ log: {} }, /^log must be a log/],
    [{ box: undefined }, /^createServer needs a box to serve/],
  ] as const) {
    assert.throws(() => createServer(options as never), { code: 'invalid_argument', message })
  }
})
