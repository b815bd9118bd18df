import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { createTokens, type TokenRecord } from '../../../../src/access/index.ts'
import { createSecret } from '../../../../src/access/secret.ts'
import { createId } from '../../../../src/core/ids.ts'
import { within } from '../../../support/deadline.ts'

const bootstrap = 'bootstrap-secret-of-32-characters'

/** A server whose calls of the store about tokens are counted. */
async function stage() {
  const box = await open('memory:')
  const { tokens: store } = box.backend
  const calls: (readonly string[])[] = []
  const find = async (ids: readonly string[]): Promise<readonly TokenRecord[]> => {
    calls.push(ids)
    // As far away as a database.
    await sleep(2)
    return store.find(ids)
  }
  const others = ['create', 'list', 'revoke', 'hasLive'] as const
  const tokens = { find, ...Object.fromEntries(others.map((name) => [name, store[name].bind(store)])) }
  const backend = Object.assign(Object.create(box.backend), { tokens })
  const server = createServer({ box: { backend }, port: 0, graceMs: 0, bootstrap: [bootstrap] })
  const { url } = await server.listen()
  return {
    url,
    calls,
    tokens: createTokens({ store }),
    ask: async (secret: string) => {
      const response = await fetch(`${url}/v1/me`, { headers: { authorization: `Bearer ${secret}` } })
      await response.text()
      return response.status
    },
    async [Symbol.asyncDispose]() {
      await server.close()
      await box.close()
    },
  }
}

/** Sends wrong tokens one behind the other over one connection, and counts how they were answered. */
async function guess(url: string, count: number, statuses: Map<string, number>): Promise<void> {
  const { port, host } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  const requests = Array.from(
    { length: count },
    () => `GET /v1/me HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${createSecret(createId())}\r\n\r\n`,
  )
  for (const request of requests) socket.write(request)
  let answered = 0
  let text = ''
  for await (const chunk of socket) {
    text += chunk
    for (const [, status] of text.matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
      statuses.set(status!, (statuses.get(status!) ?? 0) + 1)
      answered++
    }
    // Its end may be the beginning of the next answer, which is not counted yet.
    text = text.slice(-'HTTP/1.1 401'.length)
    if (answered === count) return
  }
}

test('10,000 wrong tokens from one address lock out no valid token, and cost the store few calls', async () => {
  await using it = await stage()
  const statuses = new Map<string, number>()
  const makeToken = () => it.tokens.create({ name: 'n', scope: 'read', namespace: 'default' })
  for (let round = 0; round < 10; round++) {
    const made = await Promise.all(Array.from({ length: 5 }, makeToken))
    const flood = Array.from({ length: 8 }, () => guess(it.url, 125, statuses))
    await sleep(1)
    const valid = await Promise.all(made.map(({ secret }) => it.ask(secret)))
    assert.deepEqual(valid, [200, 200, 200, 200, 200], 'valid tokens that this server has not seen')
    await Promise.all(flood)
  }
  assert.deepEqual([...statuses.entries()].sort(), [
    ['401', 300],
    ['429', 9_700],
  ])
  assert.ok(it.calls.length < 5_000, `${it.calls.length} calls of the store`)
})

test('a repeated wrong token is looked up once in five seconds', async () => {
  await using it = await stage()
  const wrong = createSecret(createId())
  for (let i = 0; i < 200; i++) assert.equal(await it.ask(wrong), 401)
  assert.ok(it.calls.length <= 3, `${it.calls.length} calls of the store`)
})

test('waiting requests cost the store five statements in two seconds, and an idle server none', async () => {
  await using it = await stage()
  const made = await Promise.all(
    Array.from({ length: 50 }, () => it.tokens.create({ name: 'n', scope: 'work', namespace: 'default' })),
  )
  const over = new AbortController()
  const waits = made.map(async ({ secret }) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    const claim = { method: 'POST', headers, body: '{"waitMs":30000}', signal: over.signal }
    return fetch(`${it.url}/v1/jobs/claim`, claim).catch(() => undefined)
  })
  await sleep(500)
  it.calls.length = 0
  const begunAt = performance.now()
  await sleep(2_000)
  const most = (performance.now() - begunAt) / 400 + 1
  assert.ok(it.calls.length >= 1 && it.calls.length <= most, `${it.calls.length} calls of the store`)
  for (const ids of it.calls) assert.equal(ids.length, 50)
  over.abort()
  await Promise.all(waits)
  await sleep(1_000)
  it.calls.length = 0
  await sleep(1_000)
  assert.deepEqual(it.calls, [])
})

test('a request whose body is sent slowly ends when its token is revoked', async () => {
  await using it = await stage()
  const { id, secret } = await it.tokens.create({ name: 'n', scope: 'work', namespace: 'default' })
  const { port, host } = new URL(it.url)
  const socket = connect(Number(port), '127.0.0.1')
  const answered = new Promise<string>((resolve) => socket.once('data', (data) => resolve(String(data))))
  socket.write(
    `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${secret}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"kind":`,
  )
  await sleep(200)
  await it.tokens.revoke(id)
  const answer = await within(2_000, 'the answer', answered)
  assert.match(answer, /^HTTP\/1\.1 401 [\s\S]*"code":"unauthorized"/)
  assert.match(answer, /revoked/)
  socket.destroy()
})
