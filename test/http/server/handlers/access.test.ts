import assert from 'node:assert/strict'
import { join } from 'node:path'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import {
  createTokens,
  includesScope,
  type Scope,
  scopes,
  type TokenWithSecret,
} from '../../../../src/access/index.ts'
import { type Route, routes } from '../../../../src/http/contract/index.ts'
import { within } from '../../../support/deadline.ts'
import { type Asked, type Reply, type Stage, serving } from '../stage.ts'

// Access through a running server. A test of one store holds for the others: the server does not know its store.

const stores = {
  memory: 'memory:',
  sqlite: (folder: string) => `sqlite:${join(folder, 'signalbox.db')}`,
} as const
const bootstrap = 'bootstrap-secret-of-32-characters'

const as = (secret: string, more: Readonly<Record<string, string>> = {}) => ({
  headers: { authorization: `Bearer ${secret}`, ...more },
})

function assertUnauthorized({ status, headers, body }: Reply, what: string): void {
  assert.deepEqual([status, body.code], [401, 'unauthorized'], what)
  assert.match(headers.get('content-type')!, /^application\/problem\+json/)
  assert.match(headers.get('www-authenticate')!, /^Bearer/)
}

/** Makes a token as `signalbox token create` does: in the store, past the server. */
function makeToken(
  { box }: Stage,
  scope: Scope,
  options: { namespace?: string; expiresInMs?: number; nodes?: readonly string[] } = {},
): Promise<TokenWithSecret> {
  const { namespace = 'default', expiresInMs, nodes } = options
  const tokens = createTokens({ store: box.backend.tokens })
  return tokens.create({ name: 'test', scope, nodes, namespace, expiresInMs })
}

/** Asks a route of the table for nothing in particular; of a stream, the head is enough. */
async function tryRoute(stage: Stage, route: Route, asked: Asked): Promise<Reply> {
  const path = route.path.replaceAll(/\{\w+\}/g, 'nope')
  const request = route.method === 'POST' ? { ...asked, body: {} } : asked
  if (route.replyType !== 'events') return stage.ask(route.method, path, request)
  const { headers = {} } = asked
  const response = await fetch(stage.url + path, { headers })
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  const body = isStream ? '' : await response.json()
  if (isStream) await response.body?.cancel()
  return { status: response.status, headers: response.headers, body }
}

for (const [name, url] of Object.entries(stores)) {
  test(`the first token closes open access, and the last one's end reopens it for this machine (${name})`, async () => {
    await using stage = await serving({}, url)
    assert.equal((await stage.ask('GET', '/v1/queues')).status, 200)
    const made = await stage.ask('POST', '/v1/tokens', { body: { name: 'ops', scope: 'admin' } })
    assert.equal(made.status, 201)
    const { secret, id } = made.body
    assertUnauthorized(await stage.ask('GET', '/v1/queues'), 'at once')
    assert.equal((await stage.ask('GET', '/livez')).status, 200)

    const listed = await stage.ask('GET', '/v1/tokens', as(secret))
    assert.deepEqual(
      listed.body.items.map((token: object) => Object.keys(token).sort()),
      [['createdAt', 'expiresAt', 'id', 'name', 'namespace', 'nodes', 'revokedAt', 'scope']],
    )
    assert.equal((await stage.ask('DELETE', `/v1/tokens/${id}`, as(secret))).status, 200)
    assertUnauthorized(await stage.ask('GET', '/v1/queues', as(secret)), 'revoked')
    assert.equal((await stage.ask('GET', '/v1/queues')).status, 200)
  })

  test(`every route requires its scope, and refuses a missing, wrong, revoked or expired token (${name})`, async () => {
    // More wrong tokens than one address may show in a minute.
    await using stage = await serving({ maxFailuresPerAddress: 5_000 }, url)
    const held = new Map<Scope, string>()
    for (const scope of scopes) held.set(scope, (await makeToken(stage, scope)).secret)
    const revoked = await makeToken(stage, 'admin')
    await stage.box.backend.tokens.revoke(revoked.id)
    const expired = await makeToken(stage, 'admin', { expiresInMs: 1 })
    const wrong = `${revoked.secret.slice(0, -4)}AAAA`
    const bound = await makeToken(stage, 'work', { nodes: ['gpu-7'] })
    for (const route of routes) {
      const what = `${route.method} ${route.path}`
      const anonymous = await tryRoute(stage, route, {})
      if (route.scope === 'none') {
        assert.ok(anonymous.status < 400, what)
        continue
      }
      assertUnauthorized(anonymous, what)
      for (const { secret } of [revoked, expired, { secret: wrong }])
        assertUnauthorized(await tryRoute(stage, route, as(secret)), what)
      for (const [scope, secret] of held) {
        const { status, body } = await tryRoute(stage, route, as(secret))
        if (includesScope(scope, route.scope))
          assert.ok(![401, 403, 500].includes(status), `${what}: ${status}`)
        else assert.deepEqual([status, body.code], [403, 'forbidden'], `${what} with ${scope}`)
      }
      const { status, body } = await tryRoute(stage, route, as(bound.secret))
      if (route.id === 'nodeInfo') assert.equal(status, 200, 'a node may ask why it is not let in')
      else assert.deepEqual([status, body.code], [403, 'forbidden'], `${what} with a token for nodes`)
      if (status === 403) assert.match(body.detail, /bound to nodes/)
    }
  })

  test(`a token acts in its own namespace, whatever the request asks for (${name})`, async () => {
    await using stage = await serving({}, url)
    const shop = await makeToken(stage, 'admin', { namespace: 'shop' })
    const other = await makeToken(stage, 'admin', { namespace: 'other' })
    const every = await makeToken(stage, 'admin', { namespace: '*' })
    const job = { body: { kind: 'mail' } }
    const { id } = (await stage.ask('POST', '/v1/jobs', { ...job, ...as(shop.secret) })).body
    const look = async (asked: Asked) => (await stage.ask('GET', `/v1/jobs/${id}`, asked)).status
    assert.equal(await look(as(shop.secret)), 200)
    assert.equal(await look(as(other.secret)), 404)
    assert.equal(await look(as(other.secret, { 'signalbox-namespace': 'shop' })), 403)
    assert.equal(await look(as(every.secret)), 404)
    assert.equal(await look(as(every.secret, { 'signalbox-namespace': 'shop' })), 200)

    const claimed = await stage.ask('POST', '/v1/jobs/claim', as(shop.secret))
    const { token } = claimed.body.items[0]
    const ack = { body: { token }, ...as(other.secret) }
    assert.notEqual((await stage.ask('POST', `/v1/jobs/${id}/ack`, ack)).status, 200)
    assert.equal((await stage.ask('GET', `/v1/jobs/${id}`, as(shop.secret))).body.state, 'running')

    assert.equal((await stage.ask('DELETE', `/v1/tokens/${other.id}`, as(shop.secret))).status, 404)
    const { items } = (await stage.ask('GET', '/v1/tokens', as(shop.secret))).body
    assert.deepEqual(
      items.map((one: { id: string }) => one.id),
      [shop.id],
    )
    for (const namespace of ['other', '*']) {
      const body = { name: 'more', scope: 'read', namespace }
      assert.equal((await stage.ask('POST', '/v1/tokens', { body, ...as(shop.secret) })).status, 403)
      assert.equal((await stage.ask('POST', '/v1/tokens', { body, ...as(every.secret) })).status, 201)
    }
  })
}

test('a token revoked on one server ends requests and open streams of another', async () => {
  const place = { file: '' }
  await using one = await serving({ bootstrap: [bootstrap] }, (folder) => {
    place.file = stores.sqlite(folder)
    return place.file
  })
  await using box = await open(place.file)
  await using second = createServer({ box, port: 0 })
  const { url } = await second.listen()
  const { id, secret } = await makeToken(one, 'read')
  const ask = () => fetch(`${url}/v1/queues`, as(secret))
  assert.equal((await ask()).status, 200)
  const stream = await fetch(`${url}/v1/events`, as(secret))
  assert.equal(stream.status, 200)
  const ended = stream.text()

  const revoked = await one.ask('DELETE', `/v1/tokens/${id}`, as(bootstrap))
  assert.equal(revoked.status, 200)
  const reported = await within(5_000, 'the end of the stream', ended)
  assert.match(reported, /^event: error\ndata: \{"code":"unauthorized"/m)
  // The last event is final: later events are not sent.
  assert.match(reported.trimEnd().split('\n\n').at(-1)!, /unauthorized/)
  const status = async () => {
    for (;;) {
      const reply = await ask()
      await reply.text()
      if (reply.status !== 200) return reply.status
    }
  }
  assert.equal(await within(5_000, 'the end of requests', status()), 401)
})

test('a server on a public address refuses to start before a token exists', async () => {
  await using box = await open('memory:')
  const options = { box, port: 0, host: '0.0.0.0', allowedHosts: ['localhost'] }
  await assert.rejects(createServer(options).listen(), { code: 'invalid_argument', message: /token/ })
  await using server = createServer({ ...options, bootstrap: [bootstrap] })
  const { url } = await server.listen()
  const local = url.replace('0.0.0.0', 'localhost')
  assert.equal((await fetch(`${local}/v1/queues`)).status, 401)
  assert.equal((await fetch(`${local}/v1/queues`, as(bootstrap))).status, 200)
})

test('a token in the address, a cookie or another scheme is ignored, and no answer repeats one', async () => {
  await using stage = await serving({ bootstrap: [bootstrap] })
  for (const [path, headers] of [
    [`/v1/queues?token=${bootstrap}`, {}],
    [`/v1/queues?access_token=${bootstrap}`, {}],
    ['/v1/queues', { cookie: `token=${bootstrap}` }],
    ['/v1/queues', { authorization: `Basic ${bootstrap}` }],
    ['/v1/queues', { authorization: bootstrap }],
    ['/v1/queues', { authorization: `Bearer ${bootstrap}x` }],
  ] as const) {
    const reply = await stage.ask('GET', path, { headers })
    assertUnauthorized(reply, path)
    assert.equal(JSON.stringify([reply.body, ...reply.headers]).includes(bootstrap), false)
  }
})

test('when the store cannot check tokens, every caller is refused', async () => {
  await using box = await open('memory:')
  const broken = {
    find: async () => Promise.reject(new Error('hunter2')),
    hasLive: async () => Promise.reject(new Error('hunter2')),
  }
  const tokens = Object.assign(Object.create(box.backend.tokens), broken)
  const backend = Object.assign(Object.create(box.backend), { tokens })
  await using server = createServer({ box: { backend }, port: 0, onError: () => {} })
  const { url } = await server.listen()
  for (const asked of [{}, as(`sbx_01k9z3v8qe0m4t9wq3rb5c7xkd_${'a'.repeat(43)}`)]) {
    const reply = await fetch(`${url}/v1/queues`, asked)
    const text = await reply.text()
    assert.deepEqual([reply.status, JSON.parse(text).code], [503, 'store_unavailable'])
    assert.doesNotMatch(text, /hunter2/)
  }
})

test('one stream, request or wrong token above its cap gets 429, and valid tokens do not', async () => {
  await using stage = await serving({
    bootstrap: [bootstrap],
    maxStreamsPerPrincipal: 1,
    maxRequestsPerPrincipal: 1,
    maxFailuresPerAddress: 2,
  })
  const assertTooMany = ({ status, headers, body }: Reply) => {
    assert.deepEqual([status, body.code], [429, 'too_many'])
    assert.match(headers.get('retry-after')!, /^[1-9]\d*$/)
  }
  const { secret } = await makeToken(stage, 'work')
  const other = await makeToken(stage, 'work')
  const events = async (token: string) => fetch(`${stage.url}/v1/events`, as(token))
  const stream = await events(secret)
  assert.equal(stream.status, 200)
  assertTooMany(await stage.ask('GET', '/v1/events', as(secret)))
  const others = await events(other.secret)
  assert.equal(others.status, 200)
  await Promise.all([stream.body!.cancel(), others.body!.cancel()])

  const over = new AbortController()
  const waiting = stage
    .ask('POST', '/v1/jobs/claim', { body: { waitMs: 20_000 }, signal: over.signal, ...as(secret) })
    .catch(() => 'gone')
  const refused = async () => {
    for (;;) {
      const reply = await stage.ask('GET', '/v1/queues', as(secret))
      if (reply.status !== 200) return reply
    }
  }
  assertTooMany(await within(5_000, 'a request that is one too many', refused()))
  assert.equal((await stage.ask('GET', '/v1/queues', as(other.secret))).status, 200)
  over.abort()
  assert.equal(await waiting, 'gone')

  for (const _ of [1, 2]) assertUnauthorized(await stage.ask('GET', '/v1/queues', as('wrong')), 'wrong')
  assertTooMany(await stage.ask('GET', '/v1/queues', as('wrong')))
  const unseen = await makeToken(stage, 'read')
  assert.equal((await stage.ask('GET', '/v1/queues', as(unseen.secret))).status, 200)
  assert.equal((await stage.ask('GET', '/v1/queues', as(other.secret))).status, 200)
  assert.equal((await stage.ask('GET', '/v1/queues', as(bootstrap))).status, 200)
})
