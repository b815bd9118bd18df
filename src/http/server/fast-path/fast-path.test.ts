import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { inGrowingLeases } from '../../../../test/support/spans.ts'
import { createFastPath } from './fast-path.ts'
import type { FastPathRequest } from './fast-path-request.ts'

interface Settings {
  readonly headersTimeoutMs?: number
  readonly keepAliveMs?: number
  /** What is answered. @default what was asked */
  readonly body?: string
}

/** A server that answers with what it was asked, and says by which way that came. */
async function setUp({ headersTimeoutMs = 60_000, keepAliveMs = 60_000, body }: Settings = {}) {
  const seen = { overs: 0, unsent: 0, taken: 0 }
  const underWay: FastPathRequest[] = []
  const served: ((request: FastPathRequest) => void)[] = []
  /** The next requests wait until they are released. */
  let isHolding = false
  const release = (request: FastPathRequest, closes = false) => {
    const asked = Buffer.from(request.readBody({ maxBytes: 1e9, maxKeys: 1 })).toString()
    const headers = { 'x-way': 'short' }
    request.reply({ status: 200, headers, body: body ?? asked }, 'id', closes)
  }
  const server = createServer((request, response) => {
    void text(request).then((asked) => response.writeHead(200, { 'x-way': 'node' }).end(asked))
  })
  const fastPath = createFastPath({
    ...{ isStream: () => true, maxHeaderBytes: 16_384, headersTimeoutMs, keepAliveMs, timeoutCheckMs: 20 },
    serve(request) {
      underWay.push(request)
      served.shift()?.(request)
      if (!isHolding) release(request)
    },
    over: () => void seen.overs++,
    unsent() {
      seen.unsent++
      return () => void seen.taken++
    },
  })
  fastPath.attach(server)
  const accepted: Socket[] = []
  server.on('connection', (socket: Socket) => accepted.push(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    fastPath,
    seen,
    release,
    hold: (holds = true) => {
      isHolding = holds
    },
    next: () => new Promise<FastPathRequest>((resolve) => served.push(resolve)),
    /** So much of what the last client sent has been read. */
    hasRead: (text: string) => comes(() => accepted.at(-1)!.bytesRead >= Buffer.byteLength(text)),
    async connect() {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true }).on('error', () => {})
      await once(socket, 'connect')
      return socket
    },
    async [Symbol.asyncDispose]() {
      fastPath.close()
      server.close()
      server.closeAllConnections()
    },
  }
}

const post = (body: string, ...headers: string[]) =>
  [
    'POST /v1/jobs HTTP/1.1',
    'Host: here',
    ...headers,
    `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  ].join('\r\n')

/** Waits until it is so, or a time limit; the caller asserts the state itself. */
async function comes(isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + 10_000; !isSo() && performance.now() < end; ) await sleep(2)
}

/** Reads until this has come. */
async function until(socket: Socket, wanted: string): Promise<string> {
  let text = ''
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    text += chunk
    if (text.includes(wanted)) return text
  }
  throw new Error(`It ended before "${wanted}" came: ${text}`)
}

const waysOf = (answers: string) => [...answers.matchAll(/x-way: (\w+)/g)].map(([, way]) => way)

test('a request that comes whole is answered the short way, as often as it comes', async () => {
  await using server = await setUp()
  const socket = await server.connect()
  socket.write(post('one'))
  const first = await until(socket, 'one')
  assert.match(first, /^HTTP\/1\.1 200 OK\r\nx-way: short\r\nx-request-id: id\r\ncontent-length: 3\r\nDate: /)
  assert.match(first, /\r\nConnection: keep-alive\r\nKeep-Alive: timeout=60\r\n\r\none$/)
  socket.write(post('zwölf'))
  assert.match(await until(socket, 'zwölf'), /content-length: 6\r\n/)
  await comes(() => server.seen.overs >= 2)
  await sleep(20)
  assert.equal(server.seen.overs, 2)
})

test('whatever else comes is Node’s, from then on', async () => {
  await using server = await setUp()
  const socket = await server.connect()
  socket.write(post('one'))
  assert.deepEqual(waysOf(await until(socket, 'one')), ['short'])
  const [begin, end] = [post('two').slice(0, 30), post('two').slice(30)]
  socket.write(begin)
  await server.hasRead(post('one') + begin)
  socket.write(end)
  assert.deepEqual(waysOf(await until(socket, 'two')), ['node'])
  socket.write(post('three'))
  assert.deepEqual(waysOf(await until(socket, 'three')), ['node'])
})

test('several requests at once are answered in order, each once', async () => {
  await using server = await setUp()
  server.hold()
  const socket = await server.connect()
  const first = server.next()
  socket.write(post('one'))
  const request = await first
  socket.write(post('two'))
  await server.hasRead(post('one') + post('two'))
  socket.write(post('three') + post('four'))
  await sleep(30)
  server.hold(false)
  server.release(request)
  const answers = await until(socket, 'four')
  assert.deepEqual(answers.match(/one|two|three|four/g), ['one', 'two', 'three', 'four'])
  assert.deepEqual(waysOf(answers), ['short', 'short', 'node', 'node'])
})

test('one that comes while another is under way is taken when that is answered', async () => {
  await using server = await setUp()
  server.hold()
  const socket = await server.connect()
  const first = server.next()
  socket.write(post('one'))
  const one = await first
  const second = server.next()
  socket.write(post('two'))
  await sleep(30)
  server.release(one)
  server.release(await second)
  assert.deepEqual(waysOf(await until(socket, 'two')), ['short', 'short'])
})

test('a client that goes is known to have gone, and its request is over once', async () => {
  await using server = await setUp()
  server.hold()
  for (const leave of [(socket: Socket) => socket.end(), (socket: Socket) => socket.resetAndDestroy()]) {
    const socket = await server.connect()
    const next = server.next()
    socket.write(post('one'))
    const request = await next
    const { signal } = request
    assert.equal(request.isGone, false)
    leave(socket)
    if (!signal.aborted) await once(signal, 'abort')
    assert.equal(request.isGone, true)
    assert.equal((signal.reason as { code: string }).code, 'request_timeout')
    server.release(request)
  }
  await comes(() => server.seen.overs >= 2)
  await sleep(30)
  assert.equal(server.seen.overs, 2)
})

test('a client that asks for nothing is told that it is late; one that asks for no more is cut', async () => {
  await inGrowingLeases(60, async (quietMs) => {
    await using server = await setUp({ headersTimeoutMs: quietMs, keepAliveMs: quietMs })
    assert.match(await text(await server.connect()), /^HTTP\/1\.1 408 [\s\S]*"code":"request_timeout"/)
    const socket = await server.connect()
    socket.write(post('one'))
    assert.match(await text(socket), /^HTTP\/1\.1 200 [\s\S]*\r\n\r\none$/)
  })
}, 60_000)

test('while a request runs, its silent connection is not cut', async () => {
  await inGrowingLeases(40, async (quietMs) => {
    await using server = await setUp({ headersTimeoutMs: quietMs, keepAliveMs: quietMs })
    server.hold()
    const socket = await server.connect()
    const next = server.next()
    socket.write(post('one'))
    const request = await next
    await sleep(4 * quietMs)
    server.release(request)
    assert.match(await until(socket, 'one'), /^HTTP\/1\.1 200 /)
  })
}, 60_000)

test('a client that does not read is not read from, and what waits for it is known', async () => {
  await using server = await setUp({ body: 'x'.repeat(16 * 1_048_576) })
  const socket = await server.connect()
  socket.pause()
  socket.write(post('one'))
  await comes(() => server.seen.unsent > 0)
  socket.write(post('two'))
  await sleep(50)
  assert.deepEqual(server.seen, { overs: 0, unsent: 1, taken: 0 })
  socket.destroy()
  await comes(() => server.seen.taken > 0)
  assert.deepEqual(server.seen, { overs: 1, unsent: 1, taken: 1 })
})

test('the last answer says so, and closes', async () => {
  await using server = await setUp()
  server.hold()
  const socket = await server.connect()
  const next = server.next()
  socket.write(post('one'))
  server.release(await next, true)
  assert.match(await text(socket), /\r\nConnection: close\r\n\r\none$/)
})

test('an answer that says that nothing has changed names no length', async () => {
  await using server = await setUp()
  server.hold()
  const socket = await server.connect()
  const next = server.next()
  socket.write(get)
  const request = await next
  request.reply({ status: 304, headers: { etag: '"a"' }, body: '' }, 'id', true)
  const answer = await text(socket)
  assert.match(answer, /^HTTP\/1\.1 304 Not Modified\r\netag: "a"\r\n[\s\S]*\r\n\r\n$/)
  assert.doesNotMatch(answer, /content-length/i)
})

const get = 'GET /v1/events HTTP/1.1\r\nHost: here\r\nAccept: text/event-stream\r\n\r\n'

/** A client whose request has become a stream. */
async function openStream(server: Awaited<ReturnType<typeof setUp>>) {
  server.hold()
  const socket = await server.connect()
  const next = server.next()
  socket.write(get)
  const request = await next
  const feed = { open: () => () => {} }
  const principal = { id: 'a', scope: 'read', namespace: 'default', everyNamespace: false } as const
  const outgoing = { status: 200, headers: { 'x-way': 'short' }, feed, principal } as const
  const transport = request.stream({ ...outgoing, lastEventId: undefined, ended: () => {} }, 'id')
  const seen = { closed: 0, drained: 0 }
  transport.attach({ drained: () => void seen.drained++, closed: () => void seen.closed++ })
  return { socket, transport, seen }
}

test('a stream is a head and its events, and ends with its connection', async () => {
  await using server = await setUp()
  const { socket, transport, seen } = await openStream(server)
  assert.equal(transport.write(Buffer.from('one')), true)
  const begun = await until(socket, 'one')
  assert.match(
    begun,
    /^HTTP\/1\.1 200 OK\r\nx-way: short\r\nx-request-id: id\r\nDate: .*\r\nConnection: close\r\n\r\none$/,
  )
  socket.write(post('a request that the server does not read'))
  transport.write(Buffer.from('two'))
  assert.equal(server.seen.overs, 0)
  transport.end()
  assert.equal(await text(socket), 'two')
  await comes(() => seen.closed > 0)
  await sleep(20)
  assert.deepEqual([server.seen.overs, seen.closed], [1, 1])
})

test('a reader that goes, and one that ends without reading, is gone', async () => {
  await using server = await setUp()
  for (const leave of [(socket: Socket) => socket.destroy(), (socket: Socket) => socket.end()]) {
    const { socket, transport, seen } = await openStream(server)
    socket.pause()
    while (transport.write(Buffer.alloc(65_536)));
    leave(socket)
    await comes(() => seen.closed > 0)
    assert.equal(seen.closed, 1)
    assert.equal(transport.write(Buffer.from('a response without a reader')), true)
    socket.destroy()
  }
  assert.equal(server.seen.overs, 2)
})

test('one whose client left before it began is over at once, and once', async () => {
  await using server = await setUp()
  server.hold()
  const socket = await server.connect()
  const next = server.next()
  socket.write(get)
  const request = await next
  socket.resetAndDestroy()
  await comes(() => request.isGone)
  const outgoing = { status: 200, headers: {}, feed: { open: () => () => {} } } as const
  let closed = 0
  request.stream(outgoing as never, 'id').attach({ drained() {}, closed: () => void closed++ })
  assert.deepEqual([closed, server.seen.overs], [1, 1])
})
