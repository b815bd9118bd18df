import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { type Asked, type Stage, serving } from '../stage.ts'

/** The request is refused so, and nothing came of it. */
async function refuses(stage: Stage, path: string, asked: Asked, expected: Expected): Promise<void> {
  const [status, code, detail] = expected
  const reply = await stage.ask(expected[3] ?? 'POST', path, asked)
  const story = `${path} ${String(JSON.stringify(asked.body)).slice(0, 100)}: ${JSON.stringify(reply.body)}`
  assert.deepEqual([reply.status, reply.body.status, reply.body.code], [status, status, code], story)
  assert.match(reply.headers.get('content-type') ?? '', /^application\/problem\+json/, story)
  assert.match(reply.body.detail, detail, story)
}

type Expected = readonly [status: number, code: string, detail: RegExp, method?: string]
const bad = (detail: RegExp, method?: string): Expected =>
  method === undefined ? [400, 'invalid_argument', detail] : [400, 'invalid_argument', detail, method]

async function isUnharmed({ ask }: Stage): Promise<void> {
  assert.deepEqual((await ask('GET', '/v1/jobs')).body.items, [])
  assert.equal((await ask('GET', '/readyz')).status, 200)
  assert.equal(({} as { x?: unknown }).x, undefined)
}

test('a wrong type is refused with the field name, the allowed types and the received type', async () => {
  await using stage = await serving()
  const jobs: readonly (readonly [unknown, RegExp])[] = [
    [5, /^The body must be an object, or a list of at most 1000, not 5\.$/],
    [null, /^The body must be an object, or a list/],
    ['"mail"', /^The body must be an object, or a list of at most 1000, not "mail"\.$/],
    [{}, /^kind is missing; it must be text of 1 to 191 characters/],
    [{ kind: 5 }, /^kind must be text of 1 to 191 characters without control characters, not 5\.$/],
    [{ kind: '' }, /^kind must be text/],
    [{ kind: 'a\u0000' }, /^kind must be text/],
    [{ kind: 'x'.repeat(192) }, /^kind must be text/],
    [{ kind: '\ud800' }, /^add\.kind must be text/],
    [{ kind: 'a', queue: 'signalbox.x' }, /belong to Signalbox itself/],
    [
      { kind: 'a', priority: 1.5 },
      /^priority must be a whole number from -2147483648 to 2147483647, not 1\.5/,
    ],
    [{ kind: 'a', priority: '1' }, /^priority must be a whole number/],
    [{ kind: 'a', maxAttempts: 0 }, /^maxAttempts must be a whole number from 1 to 1000, not 0/],
    [{ kind: 'a', delayMs: 'soon' }, /^delayMs must be a whole number of 0 or more, or text like '250ms'/],
    [{ kind: 'a', delayMs: -1 }, /^delayMs must be/],
    [{ kind: 'a', runAt: 1, delayMs: 1 }, /both runAt and delayMs/],
    [{ kind: 'a', backoff: { factor: 0 } }, /^backoff\.factor must be a number from 1 to 1000, not 0/],
    [{ kind: 'a', backoff: [] }, /^backoff must be an object, not an array/],
    [{ kind: 'a', payload: { a: '\u0000' } }, /^add\.payload\.a is text with a NUL/],
    [[{ kind: 'a' }, { kind: 'b', queue: 7 }], /^\[1\]\.queue must be text/],
  ]
  for (const [body, detail] of jobs) {
    await refuses(
      stage,
      '/v1/jobs',
      { body: typeof body === 'string' ? body : JSON.stringify(body) },
      bad(detail),
    )
  }
  await refuses(
    stage,
    '/v1/jobs/claim',
    { body: { queues: [] } },
    bad(/^queues must be a list of 1 to 100, not of 0/),
  )
  await refuses(stage, '/v1/jobs/claim', { body: { leaseMs: 5 } }, bad(/^claim\.leaseMs must be/))
  await refuses(stage, '/v1/jobs/claim', { body: { waitMs: '2m' } }, bad(/^waitMs must be/))
  await refuses(stage, '/v1/jobs/a/ack', { body: {} }, bad(/^token is missing/))
  await refuses(stage, '/v1/jobs/a/ack', {}, bad(/has no body/))
  await refuses(
    stage,
    '/v1/jobs/a/nack',
    { body: { token: 'a', dead: 'yes' } },
    bad(/^dead must be true or false, not "yes"/),
  )
  await isUnharmed(stage)
})

test('a thousand and one jobs, or a body of too many bytes, are refused, and no job is added', async () => {
  await using stage = await serving()
  const body = Array.from({ length: 1_001 }, () => ({ kind: 'a' }))
  const expected = [413, 'too_large', /^The body must be a list of at most 1000, not of 1001/] as const
  await refuses(stage, '/v1/jobs', { body: JSON.stringify(body) }, expected)
  await isUnharmed(stage)
})

test('an unknown field is named in the refusal, with the allowed fields', async () => {
  await using stage = await serving()
  await refuses(
    stage,
    '/v1/jobs',
    { body: { kind: 'a', delay: 5 } },
    bad(/^The body has no field "delay"; it has kind, payload, queue, .*timeoutMs, tags, .*trace\.$/),
  )
  await refuses(
    stage,
    '/v1/jobs',
    { body: { kind: 'a', backoff: { base: 1 } } },
    bad(/^backoff has no field "base"; it has baseMs, factor, jitter, maxMs\.$/),
  )
  await refuses(stage, '/v1/jobs', { body: '{"kind":"a","toString":1}' }, bad(/no field "toString"/))
  await refuses(stage, '/v1/jobs/a/cancel', { body: { force: true } }, bad(/takes no body/))
  await refuses(stage, '/v1/jobs/a/cancel', { body: 'x'.repeat(100) }, bad(/takes no body/))
  await isUnharmed(stage)
})

test('a query may contain only parameters of its route, once each, and within their bounds', async () => {
  await using stage = await serving()
  for (const [query, detail] of [
    ['limit=1000000000', /^limit must be a whole number from 1 to 500, not 1000000000/],
    ['limit=0', /^limit must be/],
    ['limit=-1', /^limit must be/],
    ['limit=NaN', /^limit must be a whole number from 1 to 500, not "NaN"/],
    ['limit=1e2', /^limit must be/],
    ['limit=99999999999999999999', /^limit must be/],
    ['limit=', /^limit must be/],
    ['limit=5&limit=5', /limit more than once/],
    ['state=done', /^state must be one of "scheduled", "ready"/],
    ['sort=id', /has no parameter "sort"; it has queue, kind, state, search, limit, cursor/],
    ['__proto__=1', /has no parameter "__proto__"/],
    ['constructor=1', /has no parameter "constructor"/],
    ['queue=%zz', /percent-encoded/],
    ['queue=%ff', /percent-encoded/],
    [`queue=${'x'.repeat(192)}`, /^queue must be text/],
  ] as const) {
    await refuses(stage, `/v1/jobs?${query}`, {}, bad(detail, 'GET'))
  }
  await refuses(stage, '/v1/me?x=1', {}, bad(/this route takes none/, 'GET'))
  await refuses(stage, '/livez?x=1', {}, bad(/this route takes none/, 'GET'))
  assert.equal((await stage.ask('GET', '/v1/jobs?queue=a%20b+c&limit=5&&')).status, 200)
})

test('a body that is not JSON is refused without being quoted', async () => {
  await using stage = await serving()
  for (const body of [
    '{"kind":hunter2}',
    'hunter2',
    '{"a":1}}',
    '{"kind":"hunter2"',
    '\ufeff{}',
    "{'a':1}",
  ]) {
    const { status, body: problem } = await stage.ask('POST', '/v1/jobs', { body })
    assert.deepEqual([status, problem.code], [400, 'invalid_argument'], body)
    assert.match(problem.detail, /^The body is not JSON/)
    assert.doesNotMatch(JSON.stringify(problem), /hunter2/)
  }
  const badUtf8 = Uint8Array.from([...Buffer.from('{"kind":"'), 0xc3, 0x28, ...Buffer.from('"}')])
  await refuses(stage, '/v1/jobs', { body: badUtf8 }, bad(/^The body is not valid UTF-8/))
  await refuses(stage, '/v1/jobs', { body: '' }, bad(/has no body/))
  await isUnharmed(stage)
})

test('bodies made to be expensive are refused before they are parsed', async () => {
  await using stage = await serving()
  const keys = (count: number) => Array.from({ length: count }, (_, n) => `"${n}":1`).join()
  const large = (detail: RegExp): Expected => [413, 'too_large', detail]
  for (const [body, expected] of [
    [`{"kind":"a","payload":${'['.repeat(100_000)}`, bad(/more than 40 levels/)],
    [`${'{"a":'.repeat(100_000)}1`, bad(/more than 40 levels/)],
    [`{"kind":"a","payload":{${keys(1_000_000)}}}`, large(/larger than/)],
    [`[{"kind":"a","payload":{${keys(700_000)}}}]`, large(/more than 80000 keys/)],
    [`{"kind":"a","payload":{${keys(10_001)}}}`, large(/more than 10000 keys/)],
    [`{"kind":"a","payload":"${'x'.repeat(1_048_576)}"}`, large(/larger than 1048576 bytes/)],
    [`[{"kind":"a","payload":"${'x'.repeat(8 * 1_048_576)}"}]`, large(/larger than 8388608 bytes/)],
    ['x'.repeat(10_000_000), large(/larger than/)],
    [`{"kind":"a","payload":${'9'.repeat(1_000_000)}}`, bad(/payload is Infinity/)],
    [`[${'[],'.repeat(400_000)}0]`, large(/lists and objects/)],
    [`{"kind":"a","payload":"${'x'.repeat(262_144)}"}`, large(/262144/)],
  ] as const) {
    const beganAt = performance.now()
    await refuses(stage, '/v1/jobs', { body }, expected)
    // The scan's own test measures the cost; this only checks that none is out of all proportion on a busy machine.
    assert.ok(performance.now() - beganAt < 2_000)
  }
  await isUnharmed(stage)
})

test('a list of jobs may be larger than one job may', async () => {
  await using stage = await serving()
  const job = { kind: 'a', payload: 'x'.repeat(200_000) }
  const { status, body } = await stage.ask('POST', '/v1/jobs', {
    body: Array.from({ length: 30 }, () => job),
  })
  assert.deepEqual([status, body.items.length], [201, 30])
})

test('a body that reaches for a prototype is refused at any depth, however it is written', async () => {
  await using stage = await serving()
  for (const body of [
    '{"__proto__":{"x":1}}',
    '{"kind":"a","payload":{"a":[[{"__proto__":{"x":1}}]]}}',
    '{"kind":"a","payload":{"\\u005f\\u005fproto__":{"x":1}}}',
    '{"kind":"a","payload":{"\\u005f\\u005f\\u0070\\u0072\\u006f\\u0074\\u006f\\u005f\\u005f" : 1}}',
    '{"kind":"a","payload":{"constructor":{"prototype":{"x":1}}}}',
    '{"kind":"a","payload":{"constructor" : {"a":{},"prototype":{"x":1}}}}',
    '{"kind":"a","payload":{"\\u0063onstructor":{"\\u0070rototype":1}}}',
  ]) {
    await refuses(stage, '/v1/jobs', { body }, bad(/"__proto__" or "constructor\.prototype"/))
  }
  await isUnharmed(stage)
  const harmless =
    '{"kind":"a","payload":{"constructor":"x","prototype":{},"proto":{"constructor":[{"prototype":1}]}}}'
  assert.equal((await stage.ask('POST', '/v1/jobs', { body: harmless })).status, 201)
})

test('a compressed body, or one of another type, is refused', async () => {
  await using stage = await serving()
  const body = '{"kind":"a"}'
  for (const encoding of ['gzip', 'br', 'deflate', 'gzip, gzip'])
    await refuses(
      stage,
      '/v1/jobs',
      { body, headers: { 'content-encoding': encoding } },
      bad(/Content-Encoding/),
    )
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'])
    await refuses(stage, '/v1/jobs', { body, headers: { 'content-type': type } }, [
      403,
      'forbidden',
      /application\/json/,
    ])
  await isUnharmed(stage)
})

test('a known path with another method is refused, and the answer lists the allowed methods', async () => {
  await using stage = await serving()
  for (const [method, path, allow] of [
    ['DELETE', '/v1/jobs', 'POST, GET, HEAD'],
    ['PUT', '/v1/jobs/7', 'GET, HEAD'],
    ['GET', '/v1/jobs/7/ack', 'POST'],
    ['POST', '/livez', 'GET, HEAD'],
    ['PATCH', '/v1/tokens/7', 'DELETE'],
    ['OPTIONS', '/v1/queues', 'GET, HEAD'],
    ['PROPFIND', '/v1/jobs/claim', 'POST, GET, HEAD'],
  ] as const) {
    const { status, headers, body } = await stage.ask(method, path)
    assert.deepEqual([status, body.code, headers.get('allow')], [405, 'method_not_allowed', allow], path)
  }
})

test('an unknown path is not found, whatever it looks like', async () => {
  await using stage = await serving()
  for (const path of [
    '/v1',
    '/v1/',
    '/v1/jobs/',
    '/v1/jobs//ack',
    '/V1/jobs',
    '/v1/jobs/a/b/c',
    '//v1/jobs',
    '/v1%2Fjobs',
    '/index.php',
  ]) {
    const { status, body } = await stage.ask('POST', path)
    assert.deepEqual([status, body.code], [404, 'not_found'], path)
  }
  for (const path of ['/%zz', '/v1/jobs/%', '/v1/jobs/%ff'])
    await refuses(stage, path, {}, bad(/percent-encoded/, 'GET'))
  await refuses(stage, '/v1/jobs/a%0Ab', {}, bad(/^id must be text/, 'GET'))
  await refuses(stage, `/v1/jobs/${'x'.repeat(192)}`, {}, bad(/^id must be text/, 'GET'))
  const widest = encodeURIComponent('\u{1f600}'.repeat(191))
  assert.equal((await stage.ask('GET', `/v1/jobs/${widest}`)).status, 404)
})

test('HEAD answers like GET, without the body', async () => {
  await using stage = await serving()
  for (const path of ['/livez', '/v1/jobs', '/openapi.json', '/v1/jobs/unknown']) {
    const [head, get] = [await stage.ask('HEAD', path), await stage.ask('GET', path)]
    assert.deepEqual([head.status, head.body], [get.status, ''], path)
    assert.equal(head.headers.get('content-type'), get.headers.get('content-type'))
    assert.equal(head.headers.get('content-length'), get.headers.get('content-length'))
  }
  // A stream is looked at without being opened.
  const stream = await within(5_000, 'the head of a stream', stage.ask('HEAD', '/v1/events'))
  assert.equal(stream.headers.get('content-type'), 'text/event-stream; charset=utf-8')
})

test('a client that sends a huge body gets the reason, whatever it continues to send', async () => {
  await using stage = await serving()
  const { port, host } = new URL(stage.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(
    `POST /v1/jobs/claim HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: 20000000\r\n\r\n`,
  )
  const chunk = 'x'.repeat(65_536)
  const sending = setInterval(() => socket.write(chunk), 1)
  const answer = await within(10_000, 'the cut', text(socket))
  clearInterval(sending)
  assert.match(answer, /^HTTP\/1\.1 413 /)
  await isUnharmed(stage)
})

test('half a request followed by silence has no effect', async () => {
  await using stage = await serving()
  const { port, host } = new URL(stage.url)
  for (const half of [
    'POST /v1/jobs HT',
    `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\n`,
    `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"kind":"a"}`,
  ]) {
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    await new Promise<void>((resolve) => socket.write(half, () => resolve()))
    socket.destroy()
  }
  await isUnharmed(stage)
})
