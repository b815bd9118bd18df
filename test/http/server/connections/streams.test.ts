import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, createServer, get } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { test } from 'vitest'
import { createNotifier } from '../../../../src/core/notifier.ts'
import { EventParser, type ParsedEvent } from '../../../../src/http/contract/sse.ts'
import type { Feed, FeedEvent, FeedReader } from '../../../../src/http/server/call.ts'
import { Streams, type StreamsOptions } from '../../../../src/http/server/streams/stream.ts'
import { httpTransport } from '../../../../src/http/server/streams/transport.ts'
import { within } from '../../../support/deadline.ts'
import { dataOf, readEvents } from '../event-reader.ts'
import { serving } from '../stage.ts'

interface Queues {
  readonly items: readonly { readonly queue: string; readonly ready: number }[]
}
const readyOf = (event: ParsedEvent) =>
  (dataOf(event) as Queues).items.map(({ queue, ready }) => [queue, ready])

test("the operators' stream shows the queues first, and again when a number changes", async () => {
  await using stage = await serving()
  await stage.box.jobs.add('send', 1, { queue: 'mail' })
  await using reader = await readEvents(`${stage.url}/v1/events`)
  assert.equal(reader.response.status, 200)
  assert.match(reader.response.headers.get('content-type')!, /^text\/event-stream/)
  assert.match(reader.response.headers.get('cache-control')!, /no-store/)
  assert.equal(reader.response.headers.get('x-accel-buffering'), 'no')
  assert.equal(reader.response.headers.get('content-encoding'), null)
  const first = await reader.next()
  assert.equal(first.type, 'queues')
  assert.deepEqual(readyOf(first), [['mail', 1]])
  assert.ok(reader.parser.retryMs! >= 1_000 && reader.parser.retryMs! <= 3_000)
  await stage.box.jobs.add('send', 2, { queue: 'mail' })
  const second = await reader.next(5_000)
  assert.deepEqual(readyOf(second), [['mail', 2]])
  assert.ok(Number(second.id) > Number(first.id))
})

test('a reader that reconnects misses nothing, or learns that it must start again', async () => {
  await using stage = await serving()
  const url = `${stage.url}/v1/events`
  const ids: string[] = []
  {
    await using reader = await readEvents(url)
    for (const count of [0, 1, 2]) {
      ids.push((await reader.next()).id)
      if (count < 2) await stage.box.jobs.add('send', count, { queue: 'mail' })
    }
  }
  await using resumed = await readEvents(url, { 'last-event-id': ids[2]! })
  await stage.box.jobs.add('send', 3, { queue: 'mail' })
  const next = await resumed.next()
  assert.deepEqual([next.type, readyOf(next)], ['queues', [['mail', 3]]])
  for (const older of [ids[0]!, '12345']) {
    await using anew = await readEvents(url, { 'last-event-id': older })
    assert.deepEqual([(await anew.next()).type, (await anew.next()).id], ['reset', next.id])
  }
})

test('workers on remote boxes learn of jobs and of cancellation requests', async () => {
  await using stage = await serving()
  const { jobs } = stage.box
  await using reader = await readEvents(`${stage.url}/v1/jobs/events?queues=mail,a%252Cb`)
  assert.equal((await reader.next()).type, 'open')
  await jobs.add('x', 1, { queue: 'other' })
  await jobs.add('x', 1, { queue: 'a,b' })
  const hint = await reader.next()
  assert.deepEqual([hint.type, hint.id, dataOf(hint)], ['ready', '', { queue: 'a,b' }])
  const { id } = await jobs.add('x', 1, { queue: 'mail' })
  assert.deepEqual(dataOf(await reader.next()), { queue: 'mail' })
  await jobs.claim({ queues: ['mail'] })
  await jobs.cancel(id)
  assert.equal((await reader.next()).type, 'cancel')
})

test('an invalid list of queues is refused before the stream begins', async () => {
  await using stage = await serving()
  for (const queues of ['', ',', 'a,,b', '%25zz', 'a%0Ab', 'x'.repeat(192), Array(101).fill('q').join(',')]) {
    const { status, body } = await stage.ask('GET', `/v1/jobs/events?queues=${queues}`)
    assert.equal(status, 400, queues)
    assert.equal(body.code, 'invalid_argument')
  }
})

test('a revoked token loses its open streams within 5 s, and other tokens keep theirs', async () => {
  const bootstrap = 'a-bootstrap-secret-of-32-characters-or-more'
  await using stage = await serving({ bootstrap: [bootstrap] })
  const admin = { authorization: `Bearer ${bootstrap}` }
  const make = async (name: string) =>
    (await stage.ask('POST', '/v1/tokens', { headers: admin, body: { name, scope: 'work' } })).body
  const [lost, kept] = [await make('lost'), await make('kept')]
  const open = (path: string, token: { secret: string }) =>
    readEvents(`${stage.url}${path}`, { authorization: `Bearer ${token.secret}` })
  await using operator = await open('/v1/events', lost)
  await using worker = await open('/v1/jobs/events', lost)
  await using other = await open('/v1/jobs/events', kept)
  for (const reader of [operator, worker, other]) await reader.next()
  const revoked = await stage.ask('DELETE', `/v1/tokens/${lost.id}`, { headers: admin })
  assert.equal(revoked.status, 200)
  for (const reader of [operator, worker]) {
    const last = (await reader.toEnd(5_000)).at(-1)!
    assert.equal(last.type, 'error')
    assert.equal((dataOf(last) as { code: string }).code, 'unauthorized')
  }
  await stage.box.jobs.add('x')
  assert.equal((await other.next()).type, 'ready')
})

test('a closing server sends readers a reconnect time, and ends their streams', async () => {
  const stage = await serving({ graceMs: 60_000 })
  await using reader = await readEvents(`${stage.url}/v1/jobs/events`)
  await reader.next()
  const closed = Promise.resolve(stage[Symbol.asyncDispose]())
  await reader.toEnd()
  assert.ok(reader.parser.retryMs! >= 2_000 && reader.parser.retryMs! <= 4_000)
  assert.deepEqual(
    reader.events.map(({ type }) => type),
    ['open'],
  )
  await within(5_000, 'closing', closed)
})

/** A port with streams of a feed that the test speaks for. */
interface FeedStage extends AsyncDisposable {
  readonly url: string
  readonly streams: Streams
  readonly readers: Set<FeedReader>
  emit(event: FeedEvent): void
  /** Waits until this many streams have ended. */
  ended(count: number): Promise<void>
}

async function feeding(options: StreamsOptions = {}): Promise<FeedStage> {
  const readers = new Set<FeedReader>()
  const woken = createNotifier()
  let endedCount = 0
  const feed: Feed = {
    open(_lastEventId, reader) {
      readers.add(reader)
      reader.send({ type: 'open', data: {} })
      return () => readers.delete(reader)
    },
  }
  const streams = new Streams({ authenticator: { watch: () => () => {} }, ...options })
  const principal = { id: 'local', scope: 'read', namespace: 'default', everyNamespace: true } as const
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const ended = () => {
      endedCount++
      woken.wake()
    }
    streams.serve(
      { status: 200, headers: {}, feed, lastEventId: undefined, principal, ended },
      httpTransport(response),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    streams,
    readers,
    emit(event) {
      for (const reader of readers) reader.send(event)
    },
    async ended(count) {
      const wait = async () => {
        while (endedCount < count) await woken.wait()
      }
      await within(10_000, `the end of ${count} streams`, wait())
    },
    async [Symbol.asyncDispose]() {
      await streams.close()
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Asks for a stream on a bare socket, so that a test can stop reading. */
async function askOnSocket(url: string): Promise<{ socket: Socket; text: () => string }> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  const text = () => Buffer.concat(chunks).toString()
  // An old version of HTTP has no chunks, so what comes after the head is the stream itself.
  socket.write('GET / HTTP/1.0\r\n\r\n')
  while (!text().includes('event: open')) await once(socket, 'data')
  return { socket, text }
}

function eventsIn(text: string): readonly ParsedEvent[] {
  const events: ParsedEvent[] = []
  new EventParser((event) => events.push(event)).push(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4)))
  return events
}

test('a reader that stops reading is dropped and later learns why; other readers get everything', async () => {
  await using stage = await feeding({ lastWordsMs: 10_000 })
  await using good = await readEvents(stage.url)
  const slow = await askOnSocket(stage.url)
  slow.socket.pause()
  await good.next()
  let count = 0
  // Kernels buffer some megabytes before a block shows.
  while (stage.readers.size === 2) {
    assert.ok(++count < 2_000, 'the slow reader is still there')
    stage.emit({ id: count, type: 'x', data: 'y'.repeat(65_536) })
    assert.ok(stage.streams.bufferedBytes <= 262_144)
    assert.equal((await good.next()).id, String(count))
  }
  assert.equal(stage.streams.bufferedBytes, 0)
  slow.socket.resume()
  await once(slow.socket, 'close')
  const events = eventsIn(slow.text())
  const last = events.at(-1)!
  assert.equal(last.type, 'error')
  assert.equal((dataOf(last) as { code: string }).code, 'too_many')
  // What it got until then has no gap.
  const ids = events.slice(1, -1).map(({ id }) => Number(id))
  assert.deepEqual(
    ids,
    ids.map((_, nth) => nth + 1),
  )
  stage.emit({ id: count + 1, type: 'x', data: 'still there' })
  assert.equal(dataOf(await good.next()), 'still there')
})

test('a reader that never reads again is disconnected', async () => {
  await using stage = await feeding({ lastWordsMs: 100 })
  const slow = await askOnSocket(stage.url)
  slow.socket.pause()
  for (let id = 1; stage.readers.size > 0; id++) {
    assert.ok(id < 2_000, 'the slow reader is still there')
    stage.emit({ id, type: 'x', data: 'y'.repeat(65_536) })
    // What the kernel takes is sent before the next one comes.
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await stage.ended(1)
  slow.socket.resume()
  await once(slow.socket, 'close')
  assert.doesNotMatch(slow.text().slice(-1_000), /too_many/)
})

test('an idle stream sends signs of life', async () => {
  await using stage = await feeding({ keepAliveMs: 20 })
  const { socket, text } = await askOnSocket(stage.url)
  while (text().split('\n: \n').length < 4) await once(socket, 'data')
  assert.equal(eventsIn(text()).length, 1)
  socket.destroy()
})

test('a client that leaves, in any way, leaves nothing behind', async () => {
  await using stage = await feeding()
  const ways: ((socket: Socket) => void)[] = [
    (socket) => socket.destroy(),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.end(),
  ]
  for (const [nth, go] of ways.entries()) {
    const { socket } = await askOnSocket(stage.url)
    assert.equal(stage.streams.size, 1)
    go(socket)
    await stage.ended(nth + 1)
    assert.equal(stage.streams.size, 0)
    assert.equal(stage.readers.size, 0)
    socket.destroy()
  }
})

test('a client that leaves while events are written does not affect others', async () => {
  await using stage = await feeding()
  await using good = await readEvents(stage.url)
  await good.next()
  for (let id = 1; id <= 20; id++) {
    const { socket } = await askOnSocket(stage.url)
    socket.resetAndDestroy()
    stage.emit({ id, type: 'x', data: id })
    stage.emit({ id: id + 0.5, type: 'x', data: id })
    assert.equal((await good.next()).id, String(id))
    await good.next()
  }
  await stage.ended(20)
  assert.equal(stage.streams.size, 1)
})

test('closing ends the streams of readers that read, and cuts the others', async () => {
  await using stage = await feeding({ lastWordsMs: 200 })
  await using good = await readEvents(stage.url)
  const slow = await askOnSocket(stage.url)
  slow.socket.pause()
  for (let id = 1; id < 100; id++) stage.emit({ id, type: 'x', data: 'y'.repeat(100_000) })
  const [events] = await Promise.all([good.toEnd(), within(5_000, 'closing', stage.streams.close())])
  assert.ok(events.length > 0)
  slow.socket.destroy()
})

test('streams that follow each other on one connection leave no listener behind', async () => {
  const counts: number[] = []
  const server = createServer((request, response) => {
    counts.push(request.socket.listenerCount('end'))
    response.writeHead(200)
    const transport = httpTransport(response)
    transport.attach({ drained: () => undefined, closed: () => undefined })
    transport.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  try {
    for (let nth = 0; nth < 4; nth++) {
      const [response] = await once(get({ port, host: '127.0.0.1', agent }), 'response')
      response.resume()
      await once(response, 'close')
    }
  } finally {
    agent.destroy()
    server.close()
  }
  assert.deepEqual(counts, [counts[0], counts[0], counts[0], counts[0]])
})
