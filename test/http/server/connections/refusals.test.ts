import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLog, type ServerOptions } from 'signalbox/server'
import { test } from 'vitest'
import { type RefusalReason, refusalReasons } from '../../../../src/http/server/log/log.ts'
import { unsentDefaults } from '../../../../src/http/server/request/unsent.ts'
import { within } from '../../../support/deadline.ts'
import { RawConnection } from '../pipelining/raw-connection.ts'
import { listening, type Stage, serving } from '../stage.ts'

/** A log, and the lines in it about refusals. */
function watchedLog() {
  const lines: Record<string, unknown>[] = []
  const destination = {
    write(chunk: string, taken: () => void) {
      for (const line of chunk.split('\n').slice(0, -1)) lines.push(JSON.parse(line))
      taken()
    },
  }
  const logged = () => lines.filter(({ event }) => event === 'connection.refused')
  return { log: createLog({ destination }), logged }
}

/** A server that is looked at: what it counted, and what it logged. */
async function watched(options: Omit<ServerOptions, 'box' | 'log'> = {}) {
  const { log, logged } = watchedLog()
  const stage = await serving({ ...options, log })
  return {
    stage,
    host: new URL(stage.url).host,
    port: Number(new URL(stage.url).port),
    logged,
    [Symbol.asyncDispose]: () => stage[Symbol.asyncDispose](),
  }
}

function countsIn(metrics: string): Record<string, number> {
  const found = metrics.matchAll(/^signalbox_http_refused_total\{reason="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries(Array.from(found, ([, reason, count]) => [reason!, Number(count)]))
}

async function countsOf({ ask }: Pick<Stage, 'ask'>): Promise<Record<string, number>> {
  return countsIn((await ask('GET', '/metrics')).body)
}

/** Waits until the server has counted this many refusals of a reason. */
async function counted(stage: Stage, reason: RefusalReason, count = 1): Promise<void> {
  const wait = async () => {
    while (((await countsOf(stage))[reason] ?? 0) < count) await sleep(10)
  }
  await within(10_000, `${count} of ${reason}`, wait())
}

test('the metrics show every refusal reason from the start', async () => {
  await using server = await watched()
  assert.deepEqual(
    await countsOf(server.stage),
    Object.fromEntries(refusalReasons.map((reason) => [reason, 0])),
  )
})

const webSocket = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'

/** What to send, and what the server says of it. */
const cases: Readonly<Record<string, readonly [reason: RefusalReason, (host: string) => string]>> = {
  'bytes that are not HTTP': ['parse_error', () => 'GARBAGE\r\n\r\n'],
  'a body with a wrong chunk': [
    'parse_error',
    (host) => `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
  ],
  'a head that is too large': [
    'oversized_head',
    (host) => `GET /livez HTTP/1.1\r\nHost: ${host}\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`,
  ],
  'a connection without a request': ['headers_timeout', () => ''],
  'a head that does not end': ['headers_timeout', (host) => `GET /livez HTTP/1.1\r\nHost: ${host}\r\n`],
  'a body that does not end': [
    'request_timeout',
    (host) =>
      `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
  ],
  'a WebSocket on another path': [
    'upgrade_refused',
    (host) => `GET /nowhere HTTP/1.1\r\nHost: ${host}\r\n${webSocket}\r\n`,
  ],
  'a CONNECT': ['connect_refused', (host) => `CONNECT elsewhere:443 HTTP/1.1\r\nHost: ${host}\r\n\r\n`],
}

for (const [what, [reason, write]] of Object.entries(cases))
  test(`the server counts and logs ${what} as ${reason}, once`, async () => {
    await using server = await watched({ headersTimeoutMs: 150, requestTimeoutMs: 300, timeoutCheckMs: 20 })
    using connection = new RawConnection(server.port)
    connection.send(write(server.host))
    await connection.closes()
    await counted(server.stage, reason)
    const counts = Object.entries(await countsOf(server.stage)).filter(([, count]) => count > 0)
    assert.deepEqual(counts, [[reason, 1]])
    const [line, ...others] = server.logged()
    assert.deepEqual([line?.level, line?.reason, line?.address, others], ['warn', reason, '127.0.0.1', []])
  })

test('the server counts and logs a client that leaves in the middle of its request', async () => {
  await using server = await watched()
  const half = `POST /v1/jobs HTTP/1.1\r\nHost: ${server.host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`
  for (const leave of ['end', 'resetAndDestroy'] as const) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => {})
    socket.write(half)
    await sleep(50)
    socket[leave]()
  }
  await counted(server.stage, 'cut_request', 2)
  assert.deepEqual(
    server.logged().map(({ reason }) => reason),
    ['cut_request', 'cut_request'],
  )
})

test('a client that leaves after its answer, or between two requests, is not counted', async () => {
  await using server = await watched()
  for (const leave of ['end', 'resetAndDestroy'] as const) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => {})
    socket.write(`GET /livez HTTP/1.1\r\nHost: ${server.host}\r\n\r\n`)
    await new Promise((resolve) => socket.once('data', resolve))
    socket[leave]()
  }
  await sleep(50)
  assert.deepEqual(server.logged(), [])
})

test('the server counts and logs a connection above the cap', async () => {
  await using server = await watched({ maxConnectionsPerAddress: 1 })
  {
    using first = new RawConnection(server.port)
    first.send(`GET /livez HTTP/1.1\r\nHost: ${server.host}\r\n\r\n`)
    await first.comes(1)
    using second = new RawConnection(server.port)
    assert.equal((await second.closes())[0]?.status, 429)
    first.send(`GET /metrics HTTP/1.1\r\nHost: ${server.host}\r\n\r\n`)
    const [, metrics] = await first.comes(2)
    assert.equal(countsIn(metrics!.body).connection_limit, 1)
  }
  assert.deepEqual(
    server.logged().map(({ reason, code }) => [reason, code]),
    [['connection_limit', 'too_many']],
  )
})

test('the server counts and logs an answer that it cuts because the client does not read it', async () => {
  // A server has no option for this bound, and its default takes hundreds of megabytes to reach.
  const { maxBytes } = unsentDefaults
  Object.assign(unsentDefaults, { maxBytes: 1_000 })
  await using server = await watched().finally(() => Object.assign(unsentDefaults, { maxBytes }))
  const payload = 'x'.repeat(200_000)
  await server.stage.box.jobs.addMany(Array.from({ length: 60 }, () => ({ kind: 'large', payload })))
  const sockets = [1, 2].map(() =>
    connect(server.port, '127.0.0.1')
      .on('error', () => {})
      .pause(),
  )
  for (const socket of sockets) socket.write(`GET /v1/jobs?limit=60 HTTP/1.1\r\nHost: ${server.host}\r\n\r\n`)
  await counted(server.stage, 'cut_stream')
  for (const socket of sockets) socket.destroy()
  assert.deepEqual(
    server.logged().map(({ reason, address }) => [reason, address]),
    [['cut_stream', '127.0.0.1']],
  )
})

test('the server counts and logs a stream that it cuts because the client does not read it', async () => {
  const { log, logged } = watchedLog()
  await using stage = await listening({ trust: true, log })
  // The numbers of this many queues exceed the buffer of one reader.
  const queues = Array.from({ length: 3_000 }, (_, number) => `${'q'.repeat(90)}${number}`)
  await stage.box.jobs.addMany(queues.map((queue) => ({ kind: 'mail', queue })))
  const unread = await stage.handler(new Request(`${stage.url}/v1/events`))
  assert.equal(unread.status, 200)
  const untilCut = async () => {
    while ((await countsOf(stage)).cut_stream !== 1) {
      await stage.box.jobs.add('mail', null, { queue: queues[0]! })
      await sleep(50)
    }
  }
  await within(10_000, 'the cut', untilCut())
  assert.deepEqual(
    logged().map(({ reason, route }) => [reason, route]),
    [['cut_stream', 'events']],
  )
  assert.match(await unread.text(), /too_many/)
})

test('a server mounted in an app counts and logs a WebSocket that it refuses', async () => {
  const { log, logged } = watchedLog()
  await using stage = await listening({ trust: true, log })
  const { host, port } = new URL(stage.url)
  using connection = new RawConnection(Number(port))
  // Nodes need a token, also where the app is trusted.
  connection.send(`GET /v1/nodes/connect HTTP/1.1\r\nHost: ${host}\r\n${webSocket}\r\n`)
  assert.equal((await connection.closes())[0]?.status, 401)
  assert.equal((await countsOf(stage)).upgrade_refused, 1)
  assert.deepEqual(
    logged().map(({ reason, address }) => [reason, address]),
    [['upgrade_refused', '127.0.0.1']],
  )
})

test('a flood of garbage is counted completely, and makes a few log lines', async () => {
  await using server = await watched()
  const flood = Array.from({ length: 200 }, async () => {
    using connection = new RawConnection(server.port)
    connection.send('GARBAGE\r\n\r\n')
    await connection.closes()
  })
  await Promise.all(flood)
  assert.equal((await countsOf(server.stage)).parse_error, 200)
  assert.ok(server.logged().length <= 10, `${server.logged().length} lines`)
})
