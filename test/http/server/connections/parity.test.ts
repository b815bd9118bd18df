import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createHandler } from 'signalbox/server'
import { test } from 'vitest'
import { EventParser } from '../../../../src/http/contract/index.ts'
import { type Asked, listening, mounted, type Reply, type Stage, serving } from '../stage.ts'

/** Requests whose answers follow from the request alone, but for ids and instants. */
const requests: readonly (readonly [method: string, path: string, asked?: Asked])[] = [
  ['GET', '/'],
  ['GET', '/livez'],
  ['HEAD', '/livez'],
  ['GET', '/readyz'],
  ['GET', '/openapi.json'],
  ['GET', '/nope'],
  ['GET', '/%zz'],
  ['GET', '/v1/jobs/'],
  ['POST', '/livez'],
  ['PUT', '/v1/jobs/7'],
  ['GET', '/v1/jobs'],
  ['GET', '/v1/jobs?limit=0'],
  ['GET', '/v1/jobs?limit=5&limit=5'],
  ['GET', '/v1/jobs?x=1'],
  ['GET', '/v1/jobs?queue=%zz'],
  ['GET', '/v1/jobs/unknown'],
  ['GET', '/v1/jobs/a%2Fb%20c'],
  ['GET', `/v1/jobs/${'x'.repeat(192)}`],
  ['GET', '/v1/queues?x=1'],
  ['POST', '/v1/jobs'],
  ['POST', '/v1/jobs', { body: '' }],
  ['POST', '/v1/jobs', { body: '{' }],
  ['POST', '/v1/jobs', { body: 'null' }],
  ['POST', '/v1/jobs', { body: { kind: 5 } }],
  ['POST', '/v1/jobs', { body: { kind: 'a', nope: 1 } }],
  ['POST', '/v1/jobs', { body: '{"__proto__":1}' }],
  ['POST', '/v1/jobs', { body: '['.repeat(100_000) }],
  ['POST', '/v1/jobs', { body: `{"a":"${'x'.repeat(1_048_576)}"}` }],
  ['POST', '/v1/jobs', { body: 'x'.repeat(9_000_000) }],
  ['POST', '/v1/jobs', { body: Uint8Array.from([0x22, 0xff, 0x22]) }],
  ['POST', '/v1/jobs', { body: '{"kind":"a"}', headers: { 'content-type': 'text/plain' } }],
  ['POST', '/v1/jobs', { body: '{"kind":"a"}', headers: { 'content-encoding': 'gzip' } }],
  ['POST', '/v1/jobs', { body: { kind: 'a' }, headers: { 'idempotency-key': 'a b' } }],
  ['POST', '/v1/jobs', { body: { kind: 'a' }, headers: { 'idempotency-key': 'k' } }],
  ['POST', '/v1/jobs', { body: { kind: 'a' }, headers: { 'idempotency-key': 'k' } }],
  ['POST', '/v1/jobs', { body: { kind: 'b' }, headers: { 'idempotency-key': 'k' } }],
  ['POST', '/v1/jobs', { body: { kind: 'a' }, headers: { 'sec-fetch-site': 'cross-site' } }],
  ['POST', '/v1/jobs', { body: { kind: 'a' }, headers: { origin: 'http://evil.example' } }],
  [
    'POST',
    '/v1/jobs',
    {
      body: [
        { kind: 'a', uniqueKey: 'u' },
        { kind: 'a', uniqueKey: 'u' },
      ],
    },
  ],
  ['POST', '/v1/jobs/claim', { body: { limit: 0 } }],
  ['POST', '/v1/jobs/claim', { body: { queues: ['empty'], waitMs: 20 } }],
  ['POST', '/v1/jobs/claim', { body: { limit: 10, leaseMs: '1h' } }],
  ['POST', '/v1/jobs/unknown/ack', { body: { token: 'x' } }],
  ['POST', '/v1/jobs/unknown/cancel'],
  ['POST', '/v1/jobs/unknown/cancel', { body: { a: 1 } }],
  ['POST', '/v1/queues/default/pause', { body: {} }],
  ['GET', '/v1/queues'],
  ['POST', '/v1/jobs/prune', { body: { olderThanMs: 0 } }],
  ['POST', '/v1/tokens', { body: { name: 'a', scope: 'root' } }],
  ['DELETE', '/v1/tokens/unknown'],
  ['GET', '/v1/jobs', { headers: { 'signalbox-namespace': 'other' } }],
  ['GET', '/v1/jobs', { headers: { 'signalbox-namespace': '*' } }],
  ['GET', '/v1/jobs', { headers: { authorization: 'Bearer wrong' } }],
  ['GET', '/v1/jobs', { headers: { authorization: 'Basic eDp5' } }],
]

function comparable({ status, headers, body }: Reply): unknown {
  const own = ['content-type', 'allow', 'retry-after', 'www-authenticate', 'cache-control']
  const text = JSON.stringify(body)
    .replace(/"(id|token|cursor)":"[^"]*"/g, '"$1":"…"')
    .replace(/"(\w+At)":\d+/g, '"$1":0')
  return { status, headers: own.map((name) => headers.get(name)), body: JSON.parse(text) as unknown }
}

test('a mounted server answers every request as one with a port does', async () => {
  await using withPort = await serving()
  await using without = await mounted()
  await using inApp = await listening()
  for (const [method, path, asked] of requests) {
    const expected = comparable(await withPort.ask(method, path, asked))
    for (const stage of [without, inApp])
      assert.deepEqual(comparable(await stage.ask(method, path, asked)), expected, `${method} ${path}`)
  }
})

test('a mounted server needs a token unless it trusts the app to authenticate', async () => {
  const secret = 'a-secret-of-thirty-two-characters!'
  await using stage = await mounted({ bootstrap: [secret] })
  assert.equal((await stage.ask('GET', '/livez')).status, 200)
  const refused = await stage.ask('GET', '/v1/jobs')
  assert.deepEqual([refused.status, refused.body.code], [401, 'unauthorized'])
  const headers = { authorization: `Bearer ${secret}` }
  assert.equal((await stage.ask('GET', '/v1/jobs', { headers })).status, 200)
  await using bare = await mounted({})
  assert.equal((await bare.ask('GET', '/v1/jobs')).status, 401)
})

test('a mounted server answers below its base path and nowhere else', async () => {
  await using without = await mounted({ basePath: '/box', trust: true })
  await using inApp = await listening({ basePath: '/box', trust: true })
  for (const [path, status] of [
    ['/box/livez', 200],
    ['/box', 200],
    ['/box?a=1', 400],
    ['/box/', 200],
    ['/box/v1/jobs', 200],
    ['/box/v1/jobs?limit=0', 400],
    ['/livez', 404],
    ['/boxer/livez', 404],
    ['/box/box/livez', 404],
  ] as const) {
    for (const stage of [without, inApp]) assert.equal((await stage.ask('GET', path)).status, status, path)
  }
  for (const basePath of ['box', '/box/', '//', '/b x'])
    await assert.rejects(mounted({ basePath }), { code: 'invalid_argument', message: /^basePath must be/ })
})

test('a long poll ends when the mounted request is aborted', async () => {
  await using stage = await mounted()
  const gone = new AbortController()
  const waiting = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 30_000 }, signal: gone.signal })
  await waitsInLine(stage)
  gone.abort()
  assert.deepEqual((await waiting).body.items, [])
})

async function waitsInLine({ ask }: Stage): Promise<void> {
  while (!/^signalbox_claims_waiting 1$/m.test((await ask('GET', '/metrics')).body));
}

test('a mounted stream sends the present state first and ends when the server closes', async () => {
  await using box = await open('memory:')
  await box.jobs.add('mail')
  const handler = createHandler({ box, trust: true })
  const { body, headers } = await handler(new Request('http://signalbox.example/v1/events'))
  assert.equal(headers.get('content-type'), 'text/event-stream; charset=utf-8')
  const types: string[] = []
  const parser = new EventParser(({ type }) => types.push(type))
  for await (const chunk of body!) {
    parser.push(chunk)
    if (types.length === 1) void handler.close()
  }
  assert.deepEqual(types, ['queues'])
  const late = await handler(new Request('http://signalbox.example/v1/jobs'))
  assert.equal(late.status, 503)
})
