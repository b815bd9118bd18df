import assert from 'node:assert/strict'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { routes } from '../../../../src/http/contract/index.ts'
import { createHandlers } from '../../../../src/http/server/handlers/index.ts'
import { openMemory } from '../../../../src/storage/memory/index.ts'
import { type Asked, serving } from '../stage.ts'

const secret = 'a-secret-of-thirty-two-characters!'
const admin = { authorization: `Bearer ${secret}` }
/** Wrong in every way that a body can be. */
const awful: Asked = {
  body: `{"__proto__":${'['.repeat(10_000)}`,
  headers: { 'content-encoding': 'gzip', 'idempotency-key': 'a b' },
}

test('a caller without a token learns that before anything about the request', async () => {
  await using stage = await serving({ bootstrap: [secret] })
  for (const { method, path, scope } of routes.filter((route) => route.method === 'POST')) {
    assert.notEqual(scope, 'none')
    const { status, body, headers } = await stage.ask(method, `${path.replace(/\{\w+\}/, 'x')}?y=%zz`, awful)
    assert.deepEqual([status, body.code], [401, 'unauthorized'], path)
    assert.match(headers.get('www-authenticate') ?? '', /^Bearer/)
  }
})

test('a caller with a too small scope learns the needed scope before anything about the request', async () => {
  await using stage = await serving({ bootstrap: [secret] })
  const made = await stage.ask('POST', '/v1/tokens', {
    body: { name: 'reader', scope: 'read' },
    headers: admin,
  })
  const reader = { authorization: `Bearer ${made.body.secret}` }
  for (const { method, path, scope } of routes) {
    if (scope === 'none' || scope === 'read') continue
    const asked =
      method === 'POST' ? { ...awful, headers: { ...awful.headers, ...reader } } : { headers: reader }
    const { status, body } = await stage.ask(method, path.replace(/\{\w+\}/, 'x'), asked)
    assert.deepEqual([status, body.code], [403, 'forbidden'], path)
    assert.match(body.detail, new RegExp(`^This route needs the scope "${scope}", and the token has "read"`))
  }
})

test('a token above its request cap learns when to come again', async () => {
  await using stage = await serving({ maxRequestsPerPrincipal: 1 })
  const waiting = new AbortController()
  const first = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 30_000 }, signal: waiting.signal })
  let refused = await stage.ask('GET', '/v1/jobs')
  while (refused.status !== 429) refused = await stage.ask('GET', '/v1/jobs')
  assert.equal(refused.body.code, 'too_many')
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  assert.equal((await stage.ask('GET', '/livez')).status, 200)
  waiting.abort()
  await assert.rejects(first)
})

test('a failing store has its own response, with details in the log and not for the client', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  const thrown = new Error('password=hunter2 at /var/lib')
  const within = (namespace: string) => {
    const stores = backend.within(namespace)
    return { ...stores, jobs: new Proxy(stores.jobs, { get: () => () => Promise.reject(thrown) }) }
  }
  const errors: unknown[] = []
  const onError = (error: unknown) => errors.push(error)
  await using server = createServer({ box: { backend: { ...backend, within } }, port: 0, onError })
  const { url } = await server.listen()
  const reply = await fetch(`${url}/v1/jobs`)
  const text = await reply.text()
  assert.equal(reply.status, 500)
  assert.equal(JSON.parse(text).code, 'internal')
  assert.doesNotMatch(text, /hunter2|var/)
  assert.deepEqual(errors, [thrown])
  assert.equal((await fetch(`${url}/livez`)).status, 200)
})

test('every route of the table has a handler', () => {
  const handlers = createHandlers({ tokens: {}, meter: {}, system: {} } as never)
  for (const { id } of routes) assert.equal(typeof handlers[id], 'function', id)
})

test('every answer names its request, by the sender’s own id where that is harmless', async () => {
  await using stage = await serving()
  const own = await stage.ask('GET', '/livez', { headers: { 'x-request-id': 'abc-1' } })
  assert.equal(own.headers.get('x-request-id'), 'abc-1')
  const odd = await stage.ask('GET', '/nope', { headers: { 'x-request-id': 'a<script>' } })
  assert.match(odd.headers.get('x-request-id') ?? '', /^\w{10,}$/)
})
