import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '@hono/node-server'
import { test } from 'vitest'
import { RawConnection } from '../pipelining/raw-connection.ts'
import { listening, type Stage, serving } from '../stage.ts'

const upgrade = 'Connection: Upgrade\r\nUpgrade: x\r\n'
const webSocket =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'

/** Requests as they go over the wire to one stage. */
function writerOf({ url }: Pick<Stage, 'url'>) {
  const { host } = new URL(url)
  const head = (line: string, headers = '') => `${line} HTTP/1.1\r\nHost: ${host}\r\n${headers}`
  const post = (path: string, body: string, headers = '') =>
    `${head(`POST ${path}`, headers)}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  return {
    get: (path: string, headers = '') => `${head(`GET ${path}`, headers)}\r\n`,
    post,
    add: (kind: string, headers = '') => post('/v1/jobs', JSON.stringify({ kind }), headers),
    chunkedAdd: (kind: string, headers = '') => {
      const body = JSON.stringify({ kind })
      return `${head('POST /v1/jobs', headers)}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    },
    claim: (waitMs: number) => post('/v1/jobs/claim', JSON.stringify({ queues: ['work'], waitMs })),
    connect: `${head('CONNECT elsewhere:443')}\r\n`,
  }
}

function connectTo({ url }: Pick<Stage, 'url'>): RawConnection {
  return new RawConnection(Number(new URL(url).port))
}

async function kindsOf({ ask }: Stage): Promise<readonly string[]> {
  const { body } = await ask('GET', '/v1/jobs?limit=100')
  return body.items.map(({ kind }: { kind: string }) => kind).sort()
}

/** Long enough for a packet to be read separately. */
const apart = () => sleep(40)

test('bytes behind a request with Upgrade are not executed, however they are split into packets', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  using connection = connectTo(stage)
  const hidden = write.add('hidden')
  connection.send(write.add('first', upgrade) + write.post('/v1/jobs', hidden).slice(0, -hidden.length))
  await apart()
  connection.send(hidden)
  const answers = await connection.closes()
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201],
  )
  assert.match(answers[0]!.head, /\r\nconnection: close(\r|$)/)
  assert.deepEqual(await kindsOf(stage), ['first'])
})

const offers: Readonly<Record<string, string>> = {
  'a made-up protocol': upgrade,
  'HTTP/2': 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n',
  'no Connection header': 'Upgrade: x\r\n',
  'a connection to keep': 'Connection: keep-alive, Upgrade\r\nUpgrade: x\r\n',
  'an empty value': 'Connection: Upgrade\r\nUpgrade:\r\n',
  'several values': 'Connection: Upgrade\r\nUpgrade: x\r\nUpgrade: websocket\r\n',
  'other cases': 'cONNECTION: uPGRADE\r\nuPGRADE: X\r\n',
  'an expectation': `${upgrade}Expect: 100-continue\r\n`,
  'a refused token': `${upgrade}Authorization: Bearer wrong\r\n`,
}

for (const [what, headers] of Object.entries(offers))
  test(`a request with Upgrade ends its connection: ${what}`, async () => {
    await using stage = await serving({ bootstrap: ['a-secret-of-thirty-two-characters!'] })
    const token = /Authorization/.test(headers)
      ? ''
      : 'Authorization: Bearer a-secret-of-thirty-two-characters!\r\n'
    const write = writerOf(stage)
    const requests = [
      write.get('/livez', headers),
      write.get('/nowhere', headers),
      write.add('taken', headers + token),
      write.chunkedAdd('taken', headers + token),
    ]
    const expected = token === '' ? [200, 404, 401, 401] : [200, 404, 201, 201]
    const behind = write.add('behind', token)
    // Behind it in the same packet, in the next one, and both.
    for (const [index, request] of requests.entries())
      for (const packets of [[request + behind], [request, behind], [request + behind, behind]]) {
        using connection = connectTo(stage)
        for (const packet of packets) {
          connection.send(packet)
          if (packets.length > 1) await apart()
        }
        const answers = await connection.closes()
        assert.deepEqual(
          [answers.map(({ status }) => status), connection.error],
          [[expected[index]], undefined],
        )
        assert.match(answers[0]!.head, /\r\nconnection: close(\r|$)/)
      }
    const jobs = await stage.ask('GET', '/v1/jobs?limit=100', {
      headers: { authorization: 'Bearer a-secret-of-thirty-two-characters!' },
    })
    const kinds = jobs.body.items.map(({ kind }: { kind: string }) => kind)
    assert.deepEqual(kinds, Array(token === '' ? 0 : 6).fill('taken'))
  })

test('a request with Upgrade is answered in order behind other requests', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  for (const separate of [false, true]) {
    using connection = connectTo(stage)
    const packets = [write.claim(150), write.get('/livez', upgrade) + write.get('/never')]
    if (separate) {
      connection.send(packets[0]!)
      await apart()
      connection.send(packets[1]!)
    } else connection.send(packets.join(''))
    const answers = await connection.closes()
    assert.deepEqual(
      answers.map(({ body }) => Object.keys(JSON.parse(body))[0]),
      ['items', 'status'],
    )
  }
})

test('a WebSocket or a CONNECT behind an unanswered request is refused after that answer', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  const refused = {
    'a WebSocket': [write.get('/v1/nodes/connect', webSocket), 400],
    'a WebSocket at no gateway': [write.get('/nowhere', webSocket), 400],
    CONNECT: [write.connect, 404],
  } as const
  for (const [what, [request, status]] of Object.entries(refused))
    for (const separate of [false, true])
      for (const before of [write.claim(150), write.claim(150) + write.get('/livez')]) {
        using connection = connectTo(stage)
        if (separate) {
          connection.send(before)
          await apart()
          connection.send(request + write.add('behind'))
        } else connection.send(before + request + write.add('behind'))
        const answers = await connection.closes()
        const expected = before.includes('/livez') ? [200, 200, status] : [200, status]
        assert.deepEqual(
          [answers.map((answer) => answer.status), connection.error],
          [expected, undefined],
          what,
        )
        assert.match(answers[0]!.body, /"items":\[\]/)
      }
  assert.deepEqual(await kindsOf(stage), [])
})

test('an early answer to an unfinished request neither overtakes nor cuts earlier answers', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  const cases = [upgrade, 'Connection: close\r\n', ''].flatMap((headers) =>
    // The second is longer than an answered client may go on sending.
    [300, 2_600].map((waitMs) => ({ headers, waitMs })),
  )
  const ask = async ({ headers, waitMs }: (typeof cases)[number]) => {
    using connection = connectTo(stage)
    const early = write.post('/nowhere', 'x'.repeat(100), headers)
    connection.send(write.claim(waitMs) + early.slice(0, -50))
    await sleep(waitMs - 200)
    connection.send(early.slice(-50))
    const answers = headers === '' ? await connection.comes(2) : await connection.closes()
    assert.deepEqual([answers.map(({ status }) => status), connection.error], [[200, 404], undefined])
  }
  await Promise.all(cases.map(ask))
})

test('a request that was answered early gets no second answer when the rest of its body is broken', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  const chunked = write.chunkedAdd('early').replace('/v1/jobs', '/nowhere')
  const middle = chunked.indexOf('\r\n\r\n') + 4
  for (const before of ['', write.get('/livez'), write.claim(150)]) {
    using connection = connectTo(stage)
    connection.send(`${before}${chunked.slice(0, middle)}5\r\nhello\r\n`)
    const earlier = before === '' ? [] : [200]
    await connection.comes(earlier.length + 1)
    connection.send(`no chunk\r\n${write.add('behind')}`)
    const answers = await connection.closes()
    assert.deepEqual(
      answers.map(({ status }) => status),
      [...earlier, 404],
    )
  }
  assert.deepEqual(await kindsOf(stage), [])
})

test('a connection that has answered requests may become a WebSocket', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  for (const before of [write.get('/livez'), write.claim(0)]) {
    using connection = connectTo(stage)
    connection.send(before)
    await connection.comes(1)
    connection.send(write.get('/v1/nodes/connect', webSocket))
    assert.equal((await connection.comes(2))[1]!.status, 101)
  }
})

test('the server does not wait for requests of a gone client although an upgrade is behind them', async () => {
  const stage = await serving({ graceMs: 30_000 })
  const write = writerOf(stage)
  {
    using connection = connectTo(stage)
    connection.send(write.claim(20_000) + write.claim(20_000) + write.claim(20_000) + write.connect)
    await apart()
  }
  await apart()
  const begunAt = performance.now()
  await stage[Symbol.asyncDispose]()
  assert.ok(performance.now() - begunAt < 10_000)
})

test('a large answer is complete although a CONNECT is behind it', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  const payload = 'x'.repeat(200_000)
  const jobs = Array.from({ length: 40 }, () =>
    stage.ask('POST', '/v1/jobs', { body: { kind: 'large', payload } }),
  )
  for (const { status } of await Promise.all(jobs)) assert.equal(status, 201)
  using connection = connectTo(stage)
  const claim = write.post('/v1/jobs/claim', JSON.stringify({ limit: 40 }))
  connection.send(claim + write.get('/livez') + write.connect)
  const answers = await connection.closes()
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 404],
  )
  assert.equal(JSON.parse(answers[0]!.body).items.length, 40)
})

test('a request with Connection: close is answered, also when the client continues to send', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  for (let count = 0; count < 20; count++) {
    using connection = connectTo(stage)
    connection.send(write.add('last', 'Connection: close\r\n') + write.add('behind').repeat(50))
    await sleep(count)
    connection.send(write.add('behind').repeat(50))
    const answers = await connection.closes()
    assert.deepEqual([answers.map(({ status }) => status), connection.error], [[201], undefined])
  }
  assert.deepEqual(await kindsOf(stage), Array(20).fill('last'))
})

test('two Host headers are refused, also for a WebSocket', async () => {
  await using stage = await serving()
  const write = writerOf(stage)
  const { host } = new URL(stage.url)
  for (const second of [`Host: ${host}\r\n`, 'hOST: elsewhere\r\n'])
    for (const request of [
      write.get('/livez', second),
      write.add('twice', second),
      write.get('/v1/nodes/connect', second + webSocket),
    ]) {
      using connection = connectTo(stage)
      connection.send(request)
      const [answer] = await connection.comes(1)
      assert.deepEqual(
        [answer!.status, JSON.parse(answer!.body).detail],
        [400, 'The request has more than one Host header. Send one.'],
      )
    }
  assert.deepEqual(await kindsOf(stage), [])
})

test('a server mounted in an app obeys the same rules', async () => {
  await using stage = await listening()
  const write = writerOf(stage)
  const cases: readonly (readonly [packets: readonly string[], statuses: readonly number[]])[] = [
    // Node hands every upgrade to the app here.
    [[write.add('upgraded', upgrade) + write.add('behind')], [404]],
    [[write.claim(150) + write.get('/v1/nodes/connect', webSocket)], [200, 400]],
    [
      [write.claim(150), write.get('/v1/nodes/connect', webSocket) + write.add('behind')],
      [200, 400],
    ],
    [[write.add('taken', 'Upgrade: x\r\n') + write.add('behind'), write.add('behind')], [201]],
    [[write.get('/livez', `Host: elsewhere\r\n`)], [400]],
  ]
  for (const [packets, statuses] of cases) {
    using connection = connectTo(stage)
    for (const packet of packets) {
      connection.send(packet)
      await apart()
    }
    const answers =
      statuses.includes(400) && statuses.length === 1 ? await connection.comes(1) : await connection.closes()
    assert.deepEqual(
      answers.map(({ status }) => status),
      statuses,
    )
  }
  assert.deepEqual(await kindsOf(stage), ['taken'])
})

test('a server mounted as a fetch function ends connections whose request has Upgrade', async () => {
  await using stage = await listening()
  // An app without WebSockets listens to no `upgrade`, so these are ordinary requests.
  const app = serve({ fetch: stage.handler, port: 0, hostname: '127.0.0.1' })
  try {
    if (!app.listening) await once(app, 'listening')
    const mounted = { ...stage, url: `http://127.0.0.1:${(app.address() as AddressInfo).port}` }
    const write = writerOf(mounted)
    const hidden = write.add('hidden')
    const outer = write.post('/v1/jobs', hidden).slice(0, -hidden.length)
    for (const [request, status] of [
      [write.add('first', upgrade), 201],
      [write.get('/livez', offers['HTTP/2']), 200],
      [write.get('/nowhere', upgrade), 404],
    ] as const) {
      using connection = connectTo(mounted)
      connection.send(request + outer)
      await connection.comes(1)
      connection.send(hidden)
      const answers = await connection.closes()
      assert.deepEqual(
        answers.map((answer) => answer.status),
        [status],
      )
      assert.match(answers[0]!.head, /\r\nconnection: close(\r|$)/)
    }
    assert.deepEqual(await kindsOf(stage), ['first'])
  } finally {
    app.close()
  }
})
