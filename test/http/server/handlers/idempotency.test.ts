import assert from 'node:assert/strict'
import { SignalboxError } from 'signalbox'
import type { JobStore } from 'signalbox/jobs'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { openMemory } from '../../../../src/storage/memory/index.ts'
import { type Stage, serving } from '../stage.ts'

const engines = {
  memory: () => serving(),
  sqlite: () => serving({}, (folder) => `sqlite:${folder}/box.db`),
}

function testTwice(name: string, story: (stage: Stage) => Promise<void>): void {
  for (const [engine, open] of Object.entries(engines)) {
    test(`${name} (${engine})`, async () => {
      await using stage = await open()
      await story(stage)
    })
  }
}

const withKey = (key: string) => ({ 'idempotency-key': key })

testTwice('the same request with the same key is executed once and gets the same answer', async ({ ask }) => {
  const request = { body: { kind: 'mail', payload: 1 }, headers: withKey('a') }
  const first = await ask('POST', '/v1/jobs', request)
  const second = await ask('POST', '/v1/jobs', request)
  assert.deepEqual([first.status, second.status], [201, 201])
  assert.deepEqual(second.body, first.body)
  assert.equal((await ask('GET', '/v1/jobs')).body.items.length, 1)
})

testTwice('concurrent requests with one key are executed once', async ({ ask }) => {
  const request = { body: [{ kind: 'mail' }, { kind: 'mail' }], headers: withKey('a') }
  const replies = await Promise.all(Array.from({ length: 10 }, () => ask('POST', '/v1/jobs', request)))
  const done = replies.filter(({ status }) => status === 201)
  for (const { status, body } of replies) {
    if (status !== 201) assert.deepEqual([status, body.code], [409, 'in_progress'])
  }
  for (const { body } of done) assert.deepEqual(body, done[0]?.body)
  assert.equal((await ask('GET', '/v1/jobs')).body.items.length, 2)
})

testTwice('a key belongs to its route and body: another request with it is refused', async ({ ask }) => {
  await ask('POST', '/v1/jobs', { body: { kind: 'mail' }, headers: withKey('a') })
  for (const [path, body] of [
    ['/v1/jobs', { kind: 'post' }],
    ['/v1/jobs', { kind: 'mail', queue: 'default' }],
    ['/v1/jobs/claim', {}],
    ['/v1/queues/default/pause', undefined],
  ] as const) {
    const reply = await ask('POST', path, { body, headers: withKey('a') })
    assert.deepEqual([reply.status, reply.body.code], [422, 'idempotency_mismatch'], path)
  }
  assert.equal((await ask('GET', '/v1/jobs')).body.items.length, 1)
  assert.equal((await ask('GET', '/v1/queues')).body.items[0].paused, false)
})

testTwice('a repeated claim, ack or nack gets its first answer', async ({ ask }) => {
  await ask('POST', '/v1/jobs', { body: [{ kind: 'mail' }, { kind: 'mail' }] })
  const claim = { body: { limit: 1 }, headers: withKey('claim') }
  const [first, again] = [
    await ask('POST', '/v1/jobs/claim', claim),
    await ask('POST', '/v1/jobs/claim', claim),
  ]
  assert.deepEqual(again.body, first.body)
  const [{ id, token }] = first.body.items

  const ack = { body: { token }, headers: withKey('ack') }
  const acked = await ask('POST', `/v1/jobs/${id}/ack`, ack)
  assert.deepEqual([acked.status, acked.body], [200, { id, state: 'completed' }])
  assert.deepEqual((await ask('POST', `/v1/jobs/${id}/ack`, ack)).body, acked.body)
  const without = await ask('POST', `/v1/jobs/${id}/ack`, { body: { token } })
  assert.equal(without.body.code, 'lease_lost')

  const [other] = (await ask('POST', '/v1/jobs/claim')).body.items
  const nack = { body: { token: other.token, error: 'x' }, headers: withKey('nack') }
  const nacked = await ask('POST', `/v1/jobs/${other.id}/nack`, nack)
  assert.deepEqual((await ask('POST', `/v1/jobs/${other.id}/nack`, nack)).body, nacked.body)
})

testTwice('a claim that found nothing may be repeated with its key', async ({ ask }) => {
  const claim = { headers: withKey('a') }
  assert.deepEqual((await ask('POST', '/v1/jobs/claim', claim)).body.items, [])
  const { id } = (await ask('POST', '/v1/jobs', { body: { kind: 'mail' } })).body
  assert.equal((await ask('POST', '/v1/jobs/claim', claim)).body.items[0].id, id)
})

testTwice('a refused request leaves its key free', async ({ ask }) => {
  const headers = withKey('a')
  assert.equal((await ask('POST', '/v1/jobs', { body: { kind: 5 }, headers })).status, 400)
  const large = { kind: 'mail', payload: 'x'.repeat(300_000) }
  assert.equal((await ask('POST', '/v1/jobs', { body: large, headers })).status, 413)
  assert.equal((await ask('POST', '/v1/jobs', { body: { kind: 'mail' }, headers })).status, 201)
})

test('each caller and each namespace has its own keys', async () => {
  await using stage = await serving()
  const ask = (headers: Record<string, string>) =>
    stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' }, headers: { ...withKey('a'), ...headers } })
  const here = await ask({})
  const there = await ask({ 'signalbox-namespace': 'other' })
  assert.notEqual(here.body.id, there.body.id)
  const made = await stage.ask('POST', '/v1/tokens', { body: { name: 'ada', scope: 'work' } })
  const other = await ask({ authorization: `Bearer ${made.body.secret}` })
  assert.equal(other.status, 201)
  assert.notEqual(other.body.id, here.body.id)
})

test('a key is 1 to 255 visible characters, and reads ignore it', async () => {
  await using stage = await serving()
  for (const key of ['', 'a b', 'x'.repeat(256), 'a\tb', '\u00e9']) {
    const reply = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' }, headers: withKey(key) })
    assert.deepEqual([reply.status, reply.body.code], [400, 'invalid_argument'], JSON.stringify(key))
    assert.equal((await stage.ask('GET', '/v1/jobs', { headers: withKey(key) })).status, 200)
  }
  const longest = await stage.ask('POST', '/v1/jobs', {
    body: { kind: 'mail' },
    headers: withKey('x'.repeat(255)),
  })
  assert.equal(longest.status, 201)
})

test('creating a token ignores the key, because its secret is not stored', async () => {
  await using stage = await serving()
  const reply = await stage.ask('POST', '/v1/tokens', {
    body: { name: 'ada', scope: 'read' },
    headers: withKey('a'),
  })
  assert.deepEqual([reply.status, reply.body.code], [400, 'invalid_argument'])
  assert.deepEqual((await stage.ask('GET', '/v1/tokens')).body.items, [])
})

test('a repeated request whose first run has not ended gets an answer that says so', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  const busy = new SignalboxError('in_progress', 'A request with this key has begun.')
  const jobs = new Proxy({} as JobStore, { get: () => () => Promise.reject(busy) })
  const within = (namespace: string) => ({ ...backend.within(namespace), keyed: () => ({ jobs }) })
  await using server = createServer({ box: { backend: { ...backend, within } }, port: 0 })
  const { url } = await server.listen()
  const reply = await fetch(`${url}/v1/jobs`, {
    method: 'POST',
    body: '{"kind":"mail"}',
    headers: { 'content-type': 'application/json', ...withKey('a') },
  })
  assert.equal(reply.status, 409)
  assert.equal(((await reply.json()) as { code: string }).code, 'in_progress')
})

/** Requests whose key no store keeps with the effect: each, and another that must not be taken for it. */
const beside: readonly (readonly [method: string, path: string, body: object, other: object])[] = [
  [
    'POST',
    '/v1/locks/acquire',
    { operation: 'o', resource: 'a', node: 'n' },
    { operation: 'o', resource: 'b', node: 'n' },
  ],
  ['POST', '/v1/once/claim', { key: 'a' }, { key: 'b' }],
  ['POST', '/v1/once/claim', { keys: ['c', 'd'] }, { keys: ['e'] }],
  ['POST', '/v1/once/seen', { subject: ['a'], state: 1 }, { subject: ['b'], state: 1 }],
  ['POST', '/v1/once/forget', { key: 'a' }, { key: 'b' }],
  ['POST', '/v1/monitor/report', aReport('a'), aReport('b')],
  ['POST', '/v1/monitor/silences', { forMs: '1h' }, { forMs: '2h' }],
  [
    'POST',
    '/v1/pools',
    { name: 'a', requires: [{ service: 'x' }] },
    { name: 'b', requires: [{ service: 'x' }] },
  ],
  ['POST', '/v1/schedules', aSchedule('a'), aSchedule('b')],
]

function aReport(taskId: string): object {
  return { taskId, source: 's', timeSlot: 't', observedAt: 1, venues: [{ venueId: taskId, state: 1 }] }
}

function aSchedule(name: string): object {
  return { name, everyMs: 60_000, job: { kind: 'mail' } }
}

testTwice('in every module a key repeats the first answer, and refuses another request', async ({ ask }) => {
  for (const [index, [method, path, body, other]] of beside.entries()) {
    const headers = withKey(`module-${index}`)
    const first = await ask(method, path, { body, headers })
    assert.ok(first.status < 300, `${path} ${JSON.stringify(first.body)}`)
    const again = await ask(method, path, { body, headers })
    assert.deepEqual([again.status, again.body], [first.status, first.body], path)
    const mistaken = await ask(method, path, { body: other, headers })
    assert.deepEqual([mistaken.status, mistaken.body.code], [422, 'idempotency_mismatch'], path)
  }
  assert.equal((await ask('GET', '/v1/monitor/silences')).body.items.length, 1)
})

testTwice(
  'a lock released twice with a key is released once; without a key the second gets lease_lost',
  async ({ ask }) => {
    const line = { operation: 'pull', resource: 'r', node: 'a' }
    const { body: granted } = await ask('POST', '/v1/locks/acquire', { body: line })
    const body = { ...line, token: granted.token, outcome: 'success' }
    const first = await ask('POST', '/v1/locks/release', { body, headers: withKey('end') })
    assert.deepEqual([first.status, first.body], [200, { next: null }])
    assert.deepEqual(
      (await ask('POST', '/v1/locks/release', { body, headers: withKey('end') })).body,
      first.body,
    )
    assert.equal((await ask('POST', '/v1/locks/release', { body })).body.code, 'lease_lost')
  },
)

testTwice(
  'a waiting or refused request that is repeated with its key gets the present answer',
  async ({ ask }) => {
    const line = { operation: 'pull', resource: 'r' }
    const { body: held } = await ask('POST', '/v1/locks/acquire', { body: { ...line, node: 'a' } })
    const waiting = { body: { ...line, node: 'b' }, headers: withKey('b') }
    assert.equal((await ask('POST', '/v1/locks/acquire', waiting)).status, 202)
    const end = { ...line, node: 'a', token: held.token, outcome: 'failure' }
    await ask('POST', '/v1/locks/release', { body: end })
    assert.equal((await ask('POST', '/v1/locks/acquire', waiting)).body.status, 'granted')

    const lost = { body: { ...end, token: 1 }, headers: withKey('lost') }
    for (let i = 0; i < 2; i++) {
      assert.equal(
        (await ask('POST', '/v1/locks/release', lost)).body.code,
        'lease_lost',
        'errors are not kept',
      )
    }
  },
)

test('concurrent requests with one key are executed once in every module', async () => {
  await using stage = await serving()
  const request = { body: { subject: ['a'], state: 1 }, headers: withKey('a') }
  const replies = await Promise.all(
    Array.from({ length: 10 }, () => stage.ask('POST', '/v1/once/seen', request)),
  )
  for (const { status, body } of replies) {
    if (status === 200) assert.deepEqual(body, { seen: false })
    else assert.deepEqual([status, body.code], [409, 'in_progress'])
  }
  assert.deepEqual((await stage.ask('POST', '/v1/once/seen', request)).body, { seen: false })
})
