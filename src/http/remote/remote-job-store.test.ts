import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'vitest'
import { fakeServer, json, problem, type Script, type Seen } from '../../../test/http/client/fake-server.ts'
import type { NewJob, Verdict } from '../../jobs/index.ts'
import { createClient } from '../client/index.ts'
import { RemoteJobStore } from './remote-job-store.ts'

async function aStore(script: Script, options?: { readonly dropsResults: boolean }) {
  const server = await fakeServer(script)
  const client = createClient(server.url, { backoff: { baseMs: 5, maxMs: 20 }, timeoutMs: 2_000, retries: 4 })
  return {
    store: new RemoteJobStore(client, options),
    seen: server.seen,
    async [Symbol.asyncDispose]() {
      client.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

function aJob(fields: Partial<NewJob> = {}): NewJob {
  return {
    id: 'ours',
    queue: 'mail',
    kind: 'greet',
    payload: '{"to":"Ada"}',
    priority: 0,
    uniqueKey: null,
    due: { delayMs: 0 },
    maxAttempts: 5,
    backoff: null,
    timeoutMs: null,
    meta: null,
    ...fields,
  }
}

function aVerdict(fields: Partial<Verdict> = {}): Verdict {
  return {
    jobId: 'job/1',
    token: '1.abc',
    state: 'completed',
    attempt: 1,
    handBackCount: 0,
    snoozeCount: 0,
    delayMs: 0,
    ranMs: null,
    result: null,
    error: null,
    ...fields,
  }
}

/** As much of a job as a store looks at. */
const aListedJob = (id: string) => ({ id, payload: null, backoff: {}, result: null, error: null })

const settled = (response: ServerResponse) => json(response, { id: 'job/1', state: 'completed' })

test('payload and back-off are sent as their text', async () => {
  await using place = await aStore((_, response) =>
    json(response, { items: [{ id: 'theirs', duplicate: false }] }, 201),
  )
  const payload = '{"n":1.50,"text":"\\u00e4"}'
  const backoff = '{"baseMs":10,"factor":2,"jitter":0,"maxMs":100}'
  const added = await place.store.add([aJob({ payload, backoff, uniqueKey: '"', due: { runAt: 5 } })])
  assert.deepEqual(added, [{ id: 'theirs', duplicate: false }])
  const { body } = place.seen[0]!
  assert.ok(body.includes(`"payload":${payload}`) && body.includes(`"backoff":${backoff}`), body)
  const [{ uniqueKey, runAt, delayMs, id }] = JSON.parse(body)
  assert.deepEqual([uniqueKey, runAt, delayMs, id], ['"', 5, undefined, undefined])
})

test('tags are sent and read; a server that shows none is of an older version', async () => {
  const shown = { ...aListedJob('a'), tags: ['x', 'ä'] }
  await using place = await aStore(({ method }, response) =>
    method === 'POST'
      ? json(response, { items: [{ id: 'a', duplicate: false }] }, 201)
      : json(response, { items: [shown, { ...shown, tags: [] }, aListedJob('b')], cursor: null }),
  )
  await place.store.add([aJob({ meta: '{"tags":["x","ä"]}' }), aJob()])
  const [first, second] = JSON.parse(place.seen[0]!.body)
  assert.deepEqual([first.tags, second.tags], [['x', 'ä'], undefined])
  const records = await place.store.list({ limit: 10 })
  assert.deepEqual(
    records.map(({ meta }) => meta),
    ['{"tags":["x","ä"]}', null, null],
  )
  assert.ok(records.every((record) => !('tags' in record)))
})

test('many jobs are one request, and more than a thousand are refused before anything is sent', async () => {
  await using place = await aStore((seen, response) => {
    const items = JSON.parse(seen.body).map((_: unknown, n: number) => ({ id: `${n}`, duplicate: n === 1 }))
    json(response, { items }, 201)
  })
  const added = await place.store.add([aJob(), aJob(), aJob()])
  assert.deepEqual(
    added.map(({ id, duplicate }) => [id, duplicate]),
    [
      ['0', false],
      ['1', true],
      ['2', false],
    ],
  )
  const many = Array.from({ length: 1_001 }, () => aJob())
  await assert.rejects(place.store.add(many), {
    code: 'too_large',
    message: /1000 jobs in one call, not 1001/,
  })
  assert.equal((await place.store.add(many.slice(1))).length, 1_000)
  assert.equal(place.seen.length, 2)
})

test('jobs are removed by the thousand, and all removed ones are returned', async () => {
  await using place = await aStore(({ body }, response) => {
    const { ids } = JSON.parse(body) as { ids: string[] }
    json(response, { removed: ids.slice(1) })
  })
  const ids = Array.from({ length: 1_500 }, (_, i) => `${i}`)
  const removed = await place.store.remove(ids)
  assert.deepEqual(
    removed,
    ids.filter((id) => id !== '0' && id !== '1000'),
  )
  assert.deepEqual(
    place.seen.map(({ path }) => path),
    ['/v1/jobs/remove', '/v1/jobs/remove'],
  )
  assert.deepEqual(await place.store.remove([]), [])
})

test('each verdict is sent as its call of the API', async () => {
  await using place = await aStore((_, response) => settled(response))
  const error = '{"name":"RangeError","message":"too much"}'
  await place.store.settle([
    aVerdict({ result: '{"ok":1.0}', ranMs: 12 }),
    aVerdict({ state: 'dead', error }),
    aVerdict({ state: 'scheduled', error, delayMs: 250, ranMs: 3 }),
    aVerdict({ state: 'ready', attempt: 0, handBackCount: 1 }),
    aVerdict({ state: 'cancelled', error }),
  ])
  const said = place.seen.map(({ path, body }) => [path.replace('/v1/jobs/job%2F1/', ''), body] as const)
  assert.deepEqual(said.sort(), [
    ['ack', '{"token":"1.abc","ranMs":12,"result":{"ok":1.0}}'],
    ['nack', `{"token":"1.abc","dead":true,"error":${error}}`],
    ['nack', `{"token":"1.abc","error":${error}}`],
    ['nack', '{"token":"1.abc","handBack":true}'],
    ['nack', `{"token":"1.abc","ranMs":3,"retryInMs":250,"error":${error}}`],
  ])
})

test('a verdict whose lease is lost is refused, and other verdicts are unaffected', async () => {
  await using place = await aStore((seen, response) =>
    seen.path.includes('lost') ? problem(response, 409, 'lease_lost') : settled(response),
  )
  const verdicts = ['a', 'lost', 'b'].map((jobId) => aVerdict({ jobId }))
  assert.deepEqual(await place.store.settle(verdicts), [true, false, true])
})

test('a verdict whose answer was lost is sent again with the same key, over all tries', async () => {
  const keyOf = ({ headers }: Seen) => headers['idempotency-key']
  await using place = await aStore((_, response, nth) => {
    if (nth < 5) response.destroy()
    else settled(response)
  })
  const verdict = aVerdict()
  await assert.rejects(place.store.settle([verdict]), { code: 'store_unavailable' })
  assert.deepEqual(await place.store.settle([verdict]), [true])
  assert.equal(new Set(place.seen.map(keyOf)).size, 1)
  assert.deepEqual(await place.store.settle([aVerdict()]), [true])
  assert.notEqual(keyOf(place.seen.at(-1)!), keyOf(place.seen[0]!))
})

test('while the server is away, a thousand verdicts are not each retried to the end', async () => {
  await using place = await aStore((_, response) => void response.destroy())
  const verdicts = Array.from({ length: 1_000 }, (_, n) => aVerdict({ jobId: `${n}` }))
  await assert.rejects(place.store.settle(verdicts), { code: 'store_unavailable' })
  assert.ok(place.seen.length <= 32 * 5, `${place.seen.length} requests`)
})

test('a worker drops a result that the server refuses, and other callers get the refusal', async () => {
  const script: Script = (seen, response) =>
    seen.body.includes('result') ? problem(response, 413, 'too_large') : settled(response)
  await using worker = await aStore(script, { dropsResults: true })
  assert.deepEqual(await worker.store.settle([aVerdict({ result: '{"huge":1}' })]), [true])
  const keys = worker.seen.map(({ headers }) => headers['idempotency-key'])
  assert.equal(new Set(keys).size, 2)
  await using other = await aStore(script)
  await assert.rejects(other.store.settle([aVerdict({ result: '{"huge":1}' })]), { code: 'too_large' })
})

test('renewing many leases sends a few requests at a time, and leaves out lost leases', async () => {
  let asking = 0
  let most = 0
  await using place = await aStore(async (seen, response) => {
    most = Math.max(most, ++asking)
    await new Promise((resolve) => setTimeout(resolve, 5))
    asking--
    if (seen.path.includes('/7/')) problem(response, 409, 'lease_lost')
    else json(response, { leaseEndsAt: 9, cancelRequested: seen.path.includes('/3/') })
  })
  const leases = Array.from({ length: 100 }, (_, n) => ({ jobId: `${n}`, token: 't' }))
  const renewals = await place.store.renew(leases, 5_000)
  assert.equal(renewals.length, 99)
  assert.deepEqual(
    renewals.filter(({ cancelRequested }) => cancelRequested),
    [{ jobId: '3', token: 't', leaseEndsAt: 9, cancelRequested: true }],
  )
  assert.ok(most > 1 && most <= 16, `${most} at once`)
  assert.deepEqual(JSON.parse(place.seen[0]!.body), { token: 't', leaseMs: 5_000 })
})

test('a failed renewal is an error, not a lost lease', async () => {
  await using place = await aStore((seen, response) =>
    seen.path.includes('/1/')
      ? problem(response, 500, 'internal')
      : json(response, { leaseEndsAt: 9, cancelRequested: false }),
  )
  const leases = Array.from({ length: 3 }, (_, n) => ({ jobId: `${n}`, token: 't' }))
  await assert.rejects(place.store.renew(leases, 5_000), { code: 'internal' })
})

test('a verdict on which the server fails does not keep others from being written', async () => {
  await using place = await aStore((seen, response) =>
    seen.path.includes('/0/') ? problem(response, 500, 'internal') : settled(response),
  )
  const verdicts = Array.from({ length: 100 }, (_, n) => aVerdict({ jobId: `${n}` }))
  await assert.rejects(place.store.settle(verdicts), { code: 'internal' })
  assert.equal(new Set(place.seen.map(({ path }) => path)).size, 100)
})

test('outcomes of attempts, and cancellation requests, are read a thousand at a time', async () => {
  await using place = await aStore((seen, response) => {
    const { items } = JSON.parse(seen.body) as { items: { id: string }[] }
    assert.ok(items.length <= 1_000)
    json(response, {
      items: items.map(({ id }) => ({
        id,
        outcome: id === '3' ? 'settled' : 'held',
        cancelRequested: id === '1200',
      })),
    })
  })
  const leases = Array.from({ length: 1_500 }, (_, n) => ({ jobId: `${n}`, token: 't' }))
  const outcomes = await place.store.outcomes(leases)
  assert.deepEqual([outcomes.length, outcomes[3], outcomes[4]], [1_500, 'settled', 'held'])
  assert.deepEqual(await place.store.cancelRequests(leases), ['1200'])
  assert.equal(place.seen.length, 4)
})

test('a transaction over HTTP is refused, and nothing is sent for it', async () => {
  await using place = await aStore((_, response) => settled(response))
  for (const ask of [
    () => place.store.add([aJob()], {}),
    () => place.store.settleIn(),
    () => place.store.transact(),
    () => place.store.transactAll(),
  ])
    await assert.rejects(ask, { code: 'transaction_unsupported', message: /over HTTP/ })
  assert.equal(place.seen.length, 0)
})

test('an unknown job is undefined, and a job that cannot be retried is a conflict with the server’s message', async () => {
  await using place = await aStore((seen, response) => {
    if (seen.path.includes('busy')) problem(response, 409, 'conflict')
    else problem(response, 404, 'not_found')
  })
  assert.deepEqual(
    [await place.store.find('x'), await place.store.cancel('x'), await place.store.retry('x')],
    [undefined, undefined, undefined],
  )
  await assert.rejects(place.store.retry('busy'), { code: 'conflict', message: 'It is conflict.' })
})

test('a page that the server ended early is continued until it is full', async () => {
  const all = ['e', 'd', 'c', 'b', 'a'].map((id) => aListedJob(id))
  await using place = await aStore((seen, response) => {
    const { searchParams } = new URL(seen.path, 'http://server')
    const from = all.findIndex(({ id }) => id === searchParams.get('cursor')) + 1
    // Never more than two, whatever the limit.
    const items = all.slice(from, from + Math.min(2, Number(searchParams.get('limit'))))
    json(response, { items, cursor: from + items.length < all.length ? items.at(-1)!.id : null })
  })
  const ids = async (limit: number) => (await place.store.list({ limit })).map(({ id }) => id)
  assert.deepEqual(await ids(500), ['e', 'd', 'c', 'b', 'a'])
  assert.deepEqual(await ids(3), ['e', 'd', 'c'])
})
