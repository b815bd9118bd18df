import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { RawConnection } from '../pipelining/raw-connection.ts'
import { type Stage, serving } from '../stage.ts'

const upgrade = 'Connection: Upgrade\r\nUpgrade: x\r\n'
const webSocket =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'

function requestsTo({ url }: Stage) {
  const { host } = new URL(url)
  const post = (path: string, body: string, headers = '', version = '1.1') =>
    `POST ${path} HTTP/${version}\r\nHost: ${host}\r\n${headers}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  return {
    add: (headers = '', version = '1.1') => post('/v1/jobs', '{"kind":"mail"}', headers, version),
    claim: (headers = '') => post('/v1/jobs/claim', '{"queues":["none"],"waitMs":20000}', headers),
    unknown: `POST /nowhere HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    webSocket: (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${webSocket}\r\n`,
    connect: `CONNECT elsewhere:443 HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    events: `GET /v1/events HTTP/1.0\r\nHost: ${host}\r\n\r\n`,
  }
}

/** A client that sends more after the server's last answer, as if the packets had been on their way. */
function connectTo({ url }: Stage): RawConnection {
  return new RawConnection(Number(new URL(url).port), { keepsSending: true })
}

/** After a reset the second write fails. */
async function sendMore(connection: RawConnection, bytes: string): Promise<void> {
  for (let count = 0; count < 4; count++) {
    connection.send(bytes)
    await sleep(15)
  }
}

test('no answer that ends its connection is followed by a reset when packets were in flight', async () => {
  await using stage = await serving()
  const { add, webSocket, connect, unknown } = requestsTo(stage)
  const chunk = '5\r\nhello\r\n'
  const cases: Readonly<Record<string, readonly [packets: readonly string[], statuses: readonly number[]]>> =
    {
      'a request with Upgrade': [[add(upgrade)], [201]],
      'a request with Upgrade, and one behind it': [[add(upgrade) + add()], [201]],
      'a request that names Upgrade alone, and a CONNECT behind it': [
        [add('Upgrade: x\r\n') + connect],
        [201],
      ],
      'a request that names Upgrade alone, and a WebSocket behind it': [
        [add('Upgrade: x\r\n') + webSocket('/v1/nodes/connect')],
        [201],
      ],
      'Connection: close': [[add('Connection: close\r\n') + add()], [201]],
      'Connection: close, and a CONNECT behind it': [[add('Connection: close\r\n') + connect], [201]],
      'HTTP/1.0': [[add('', '1.0')], [201]],
      'a CONNECT': [[connect], [404]],
      'a CONNECT behind a request': [[add() + connect], [201, 404]],
      'a WebSocket at no gateway': [[webSocket('/nowhere')], [404]],
      'a broken request': [['GARBAGE\r\n\r\n'], [400]],
      'a broken request behind another': [[`${add()}GARBAGE\r\n\r\n`], [201, 400]],
      'a broken body': [[`${unknown}no chunk\r\n`], [400]],
      'a body that breaks after its first chunk': [[`${unknown}${chunk}no chunk\r\n`], [404]],
      'a body that breaks after its answer': [[unknown + chunk, 'no chunk\r\n'], [404]],
    }
  for (const [what, [packets, statuses]] of Object.entries(cases)) {
    using connection = connectTo(stage)
    for (const packet of packets) {
      connection.send(packet)
      if (packet !== packets.at(-1)) await connection.comes(1)
    }
    const answers = await connection.ends()
    await sendMore(connection, add())
    assert.deepEqual(
      [answers.map(({ status }) => status), connection.error, connection.isClosed],
      [statuses, undefined, false],
      what,
    )
  }
})

test('a closing server ends its last answers without a reset, and does not wait for idle clients', async () => {
  const stage = await serving({ graceMs: 30_000 })
  const { claim, events, connect, add } = requestsTo(stage)
  // The last is refused, and its client stays.
  const connections = [claim(), claim('Expect: x\r\n'), events, connect].map((bytes) => {
    const connection = connectTo(stage)
    connection.send(bytes)
    return connection
  })
  await connections[3]!.ends()
  const begunAt = performance.now()
  const closed = stage[Symbol.asyncDispose]()
  const [first, second] = await Promise.all(connections.slice(0, 3).map((connection) => connection.ends()))
  for (const connection of connections.slice(0, 3)) {
    connection.send(add())
    await sleep(5)
    connection.send(add())
  }
  for (const connection of connections) assert.equal(connection.error, undefined)
  for (const answers of [first, second]) assert.match(answers![0]!.head, /\r\nconnection: close(\r|$)/)
  await closed
  const tookMs = performance.now() - begunAt
  assert.ok(tookMs < 2_000, `closing took ${tookMs} ms`)
  for (const connection of connections) connection[Symbol.dispose]()
})

test('a closing server cuts connections that wait for their next request', async () => {
  const stage = await serving({ graceMs: 30_000 })
  const { add } = requestsTo(stage)
  const connections = [add(), add('Expect: x\r\n')].map((bytes) => {
    const connection = connectTo(stage)
    connection.send(bytes)
    return connection
  })
  for (const connection of connections) await connection.comes(1)
  const ended = connections.map((connection) => connection.ends())
  const begunAt = performance.now()
  await stage[Symbol.asyncDispose]()
  await Promise.all(ended)
  assert.ok(performance.now() - begunAt < 2_000)
  for (const connection of connections) connection[Symbol.dispose]()
})

test('a closing server answers the requests that it has read behind a waiting claim', async () => {
  const stage = await serving({ graceMs: 30_000 })
  const { claim, add } = requestsTo(stage)
  const [inTime, late] = [connectTo(stage), connectTo(stage)]
  // The jobs are added while the claim waits.
  inTime.send(claim() + add() + add())
  // The last of these waits as well, so its answer ends the connection.
  late.send(claim() + add() + claim())
  while ((await stage.box.jobs.list({ queue: 'default' })).items.length < 3) await sleep(5)
  const closed = stage[Symbol.asyncDispose]()
  const [first, second] = await Promise.all([inTime.ends(), late.ends()])
  await closed
  assert.deepEqual(
    [first, second].map((answers) => answers.map(({ status }) => status)),
    [
      [200, 201, 201],
      [200, 201, 200],
    ],
  )
  assert.match(second.at(-1)!.head, /\r\nconnection: close(\r|$)/)
  for (const connection of [inTime, late]) connection[Symbol.dispose]()
})

test('a client that resets its connection does not shorten the time of the others', async () => {
  const stage = await serving({ graceMs: 30_000 })
  const { connect, add } = requestsTo(stage)
  const [stays, resets] = [connectTo(stage), connectTo(stage)]
  for (const connection of [stays, resets]) {
    connection.send(connect)
    await connection.ends()
  }
  const closed = stage[Symbol.asyncDispose]()
  await sleep(20)
  resets.reset()
  await sleep(20)
  await sendMore(stays, add())
  assert.equal(stays.error, undefined)
  await closed
  stays[Symbol.dispose]()
})
