import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { type Stage, serving } from '../stage.ts'

async function claimOne({ ask }: Stage): Promise<{ id: string; token: string; attempt: number }> {
  const { status, body } = await ask('POST', '/v1/jobs/claim')
  assert.equal(status, 200)
  assert.equal(body.items.length, 1)
  return body.items[0]
}

/** Until this many claims wait, as the server itself counts them. */
async function claimsWaiting({ ask }: Stage, count: number): Promise<void> {
  const look = async () => {
    for (;;) {
      const { body } = await ask('GET', '/metrics')
      if (new RegExp(`^signalbox_claims_waiting ${count}$`, 'm').test(body)) return
    }
  }
  await within(5_000, `${count} claims in line`, look())
}

test('a job goes from add to ack over HTTP', async () => {
  await using stage = await serving()
  const added = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', payload: { to: 'ada' } } })
  assert.equal(added.status, 201)
  assert.equal(added.headers.get('content-type'), 'application/json; charset=utf-8')
  assert.deepEqual(Object.keys(added.body), ['id', 'duplicate'])
  const { id } = added.body

  assert.equal((await stage.ask('GET', `/v1/jobs/${id}`)).body.state, 'ready')
  const job = await claimOne(stage)
  assert.deepEqual([job.id, job.attempt], [id, 1])

  const renewed = await stage.ask('POST', `/v1/jobs/${id}/renew`, {
    body: { token: job.token, leaseMs: '1m' },
  })
  assert.equal(renewed.body.cancelRequested, false)
  const done = await stage.ask('POST', `/v1/jobs/${id}/ack`, {
    body: { token: job.token, result: { sent: true }, ranMs: 5 },
  })
  assert.deepEqual([done.status, done.body], [200, { id, state: 'completed' }])
  const found = await stage.ask('GET', `/v1/jobs/${id}`)
  assert.deepEqual([found.body.state, found.body.result], ['completed', { sent: true }])

  const again = await stage.ask('POST', `/v1/jobs/${id}/ack`, { body: { token: job.token } })
  assert.deepEqual([again.status, again.body.code], [409, 'lease_lost'])
})

test('many jobs are added at once, all or none, and answered in order', async () => {
  await using stage = await serving()
  const bad = await stage.ask('POST', '/v1/jobs', {
    body: [{ kind: 'mail' }, { kind: 'mail', payload: 'x'.repeat(300_000) }],
  })
  assert.deepEqual([bad.status, bad.body.code], [413, 'too_large'])
  assert.deepEqual((await stage.ask('GET', '/v1/jobs')).body.items, [])

  const { status, body } = await stage.ask('POST', '/v1/jobs', {
    body: [
      { kind: 'mail', uniqueKey: 'ada' },
      { kind: 'mail', uniqueKey: 'ada' },
    ],
  })
  assert.equal(status, 201)
  const [first, second] = body.items
  assert.deepEqual([first.duplicate, second.duplicate, first.id === second.id], [false, true, true])
  const repeated = await stage.ask('POST', '/v1/jobs', { body: [{ kind: 'mail', uniqueKey: 'ada' }] })
  assert.deepEqual([repeated.status, repeated.body.items[0].duplicate], [200, true])
  const single = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', uniqueKey: 'ada' } })
  assert.deepEqual([single.status, single.body], [200, { id: first.id, duplicate: true }])
  const none = await stage.ask('POST', '/v1/jobs', { body: [] })
  assert.deepEqual([none.status, none.body], [200, { items: [] }])
})

test('a nack decides the next state of the job', async () => {
  await using stage = await serving()
  const nack = async (body: object, options: object = {}) => {
    await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', ...options } })
    const { id, token } = await claimOne(stage)
    const reply = await stage.ask('POST', `/v1/jobs/${id}/nack`, { body: { token, ...body } })
    const { body: job } = await stage.ask('GET', `/v1/jobs/${id}`)
    await stage.ask('POST', `/v1/jobs/${id}/cancel`)
    return [reply.status, reply.body.state, job.state, job.error?.message]
  }
  assert.deepEqual(await nack({ error: 'no', retryInMs: '1h' }), [200, 'scheduled', 'scheduled', 'no'])
  assert.deepEqual(await nack({ error: { message: 'why', code: 'E' }, dead: true }), [
    200,
    'dead',
    'dead',
    'why',
  ])
  assert.deepEqual(await nack({}, { maxAttempts: 1 }), [200, 'dead', 'dead', 'nack'])
  assert.deepEqual(await nack({ handBack: true }), [200, 'ready', 'ready', undefined])
  const [status] = await nack({ handBack: true, dead: true })
  assert.equal(status, 400)
})

test('a cancelled running job learns it from held and renew, and ends cancelled when nacked', async () => {
  await using stage = await serving()
  await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', maxAttempts: 1 } })
  const { id, token } = await claimOne(stage)
  const held = () =>
    stage.ask('POST', '/v1/jobs/held', {
      body: {
        items: [
          { id, token },
          { id: 'unknown', token },
        ],
      },
    })
  assert.deepEqual((await held()).body.items, [
    { id, outcome: 'held', cancelRequested: false },
    { id: 'unknown', outcome: 'lost', cancelRequested: false },
  ])
  const cancelled = await stage.ask('POST', `/v1/jobs/${id}/cancel`, { body: {} })
  assert.deepEqual(cancelled.body, { state: 'running', cancelRequested: true })
  assert.equal((await held()).body.items[0].cancelRequested, true)
  const renewed = await stage.ask('POST', `/v1/jobs/${id}/renew`, { body: { token } })
  assert.equal(renewed.body.cancelRequested, true)
  const nacked = await stage.ask('POST', `/v1/jobs/${id}/nack`, { body: { token, error: 'stopped' } })
  assert.deepEqual(nacked.body, { id, state: 'cancelled' })
  assert.equal((await held()).body.items[0].outcome, 'settled')
})

test('operators retry, pause, resume, wake and prune', async () => {
  await using stage = await serving()
  const { ask } = stage
  await ask('POST', '/v1/jobs', { body: [{ kind: 'a' }, { kind: 'b' }] })
  for (let round = 0; round < 2; round++) {
    const { id, token } = await claimOne(stage)
    await ask('POST', `/v1/jobs/${id}/nack`, { body: { token, dead: true } })
  }
  assert.deepEqual((await ask('POST', '/v1/jobs/retry-dead', { body: { kind: 'a' } })).body, { retried: 1 })
  const [dead] = (await ask('GET', '/v1/jobs?state=dead')).body.items
  assert.deepEqual((await ask('POST', `/v1/jobs/${dead.id}/retry`)).body, { id: dead.id, state: 'ready' })
  assert.equal((await ask('POST', '/v1/jobs/unknown/retry')).status, 404)

  assert.deepEqual((await ask('POST', '/v1/queues/default/pause')).body, { queue: 'default', paused: true })
  assert.deepEqual((await ask('POST', '/v1/jobs/claim')).body, { items: [], cursor: null })
  const [queue] = (await ask('GET', '/v1/queues')).body.items
  assert.deepEqual([queue.queue, queue.paused, queue.ready], ['default', true, 2])
  assert.deepEqual((await ask('POST', '/v1/queues/default/resume')).body, { queue: 'default', paused: false })
  assert.deepEqual((await ask('POST', '/v1/queues/default/wake')).body, { queue: 'default' })
  const slashed = encodeURIComponent('a/b c')
  assert.equal((await ask('POST', `/v1/queues/${slashed}/pause`)).body.queue, 'a/b c')

  const { id, token } = await claimOne(stage)
  assert.equal((await ask('POST', `/v1/jobs/${id}/retry`)).status, 409)
  await ask('POST', `/v1/jobs/${id}/ack`, { body: { token } })
  assert.deepEqual((await ask('POST', '/v1/jobs/prune', { body: { olderThanMs: '1h' } })).body, { pruned: 0 })
})

test('a job shows the tags it was added with, and invalid tags are refused', async () => {
  await using stage = await serving()
  const { ask } = stage
  const { body: added } = await ask('POST', '/v1/jobs', { body: { kind: 'mail', tags: ['ada', 'ä 🚂'] } })
  assert.deepEqual((await ask('GET', `/v1/jobs/${added.id}`)).body.tags, ['ada', 'ä 🚂'])
  const { body } = await ask('POST', '/v1/jobs/claim')
  assert.deepEqual(body.items[0].tags, ['ada', 'ä 🚂'])
  await ask('POST', '/v1/jobs', { body: [{ kind: 'mail' }] })
  assert.deepEqual((await ask('GET', '/v1/jobs?state=ready')).body.items[0].tags, [])
  const tooMany = Array.from({ length: 21 }, (_, i) => `${i}`)
  for (const tags of ['ada', [''], ['a\n'], ['x'.repeat(65)], tooMany, [7]]) {
    const refused = await ask('POST', '/v1/jobs', { body: { kind: 'mail', tags } })
    assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_argument'], JSON.stringify(tags))
  }
})

test('operators remove jobs that do not run, and learn which ones are gone', async () => {
  await using stage = await serving()
  const { ask } = stage
  const { body } = await ask('POST', '/v1/jobs', { body: [{ kind: 'a' }, { kind: 'a' }] })
  const ids = body.items.map(({ id }: { id: string }) => id)
  const running = await claimOne(stage)
  const waiting = ids.filter((id: string) => id !== running.id)
  const removed = await ask('POST', '/v1/jobs/remove', { body: { ids: [...ids, 'unknown'] } })
  assert.deepEqual([removed.status, removed.body], [200, { removed: waiting }])
  assert.equal((await ask('GET', `/v1/jobs/${waiting[0]}`)).status, 404)
  assert.equal((await ask('GET', `/v1/jobs/${running.id}`)).body.state, 'running')
  const tooMany = Array.from({ length: 1_001 }, (_, i) => `${i}`)
  for (const bad of [{}, { ids: 'a' }, { ids: [''] }, { ids: tooMany }]) {
    assert.equal((await ask('POST', '/v1/jobs/remove', { body: bad })).status, 400)
  }
})

test('a list is read page by page to its end', async () => {
  await using stage = await serving()
  await stage.ask('POST', '/v1/jobs', { body: Array.from({ length: 7 }, (_, n) => ({ kind: `k${n}` })) })
  const seen: string[] = []
  let cursor: string | null = ''
  let pages = 0
  while (cursor !== null) {
    const { body } = await stage.ask('GET', `/v1/jobs?limit=3${cursor && `&cursor=${cursor}`}`)
    seen.push(...body.items.map(({ kind }: { kind: string }) => kind))
    cursor = body.cursor
    pages++
  }
  assert.deepEqual(seen, ['k6', 'k5', 'k4', 'k3', 'k2', 'k1', 'k0'])
  assert.equal(pages, 3)
})

test('a waiting claim gets a job as soon as there is one', async () => {
  await using stage = await serving()
  const waiting = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 30_000 } })
  await claimsWaiting(stage, 1)
  const added = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' } })
  const { body } = await within(5_000, 'the claim', waiting)
  assert.equal(body.items[0].id, added.body.id)
})

test('a waiting claim answers without a job when its time is over', async () => {
  await using stage = await serving()
  const { status, body } = await stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 50 } })
  assert.deepEqual([status, body], [200, { items: [], cursor: null }])
  const tooLong = await stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 60_001 } })
  assert.deepEqual([tooLong.status, tooLong.body.code], [400, 'invalid_argument'])
})

test('a waiting client that leaves takes no job with it', async () => {
  await using stage = await serving()
  const gone = new AbortController()
  const waiting = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 30_000 }, signal: gone.signal })
  await claimsWaiting(stage, 1)
  const next = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 30_000 } })
  await claimsWaiting(stage, 2)
  gone.abort()
  await assert.rejects(waiting)
  await claimsWaiting(stage, 1)
  const added = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' } })
  const { body } = await within(5_000, 'the other claim', next)
  assert.equal(body.items[0].id, added.body.id)
})

test('closing ends waiting claims at once', async () => {
  const stage = await serving({ graceMs: 60_000 })
  const waiting = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 60_000 } })
  await claimsWaiting(stage, 1)
  await within(5_000, 'closing', Promise.resolve(stage[Symbol.asyncDispose]()))
  assert.deepEqual((await waiting).body, { items: [], cursor: null })
})

test('namespaces do not see each other', async () => {
  await using stage = await serving()
  const other = { 'signalbox-namespace': 'other' }
  const { id } = (await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' }, headers: other })).body
  assert.equal((await stage.ask('GET', `/v1/jobs/${id}`)).status, 404)
  assert.equal((await stage.ask('GET', `/v1/jobs/${id}`, { headers: other })).status, 200)
  assert.equal(await stage.box.jobs.find(id), undefined)
})

test('on SQLite an added job survives the end of its server', async () => {
  await using stage = await serving({}, (folder) => `sqlite:${folder}/box.db`)
  const ids = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const { status, body } = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', payload: n } })
      assert.equal(status, 201)
      return body.id as string
    }),
  )
  for (const id of ids) assert.equal((await stage.box.jobs.find(id))?.state, 'ready')
})
