import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { dataOf, readEvents } from '../event-reader.ts'
import { type Reply, type Stage, serving } from '../stage.ts'

/** One wait queue and its requesters. */
const queue = { operation: 'pull', resource: 'app:1.2' }
const query = 'operation=pull&resource=app%3A1.2'

function acquire({ ask }: Stage, node: string, more: object = {}): Promise<Reply> {
  return ask('POST', '/v1/locks/acquire', { body: { ...queue, node, ...more } })
}

function release({ ask }: Stage, node: string, token: number, more: object): Promise<Reply> {
  return ask('POST', '/v1/locks/release', { body: { ...queue, node, token, ...more } })
}

test('a free lock is granted with a token, a busy one gives a position in the wait queue', async () => {
  await using stage = await serving()
  const first = await acquire(stage, 'a')
  assert.equal(first.status, 200)
  assert.deepEqual(Object.keys(first.body).sort(), ['attempt', 'expiresAt', 'status', 'token'])
  assert.equal(first.body.attempt, 1)
  const second = await acquire(stage, 'b')
  assert.deepEqual([second.status, second.body], [202, { status: 'queued', position: 1 }])
  const third = await acquire(stage, 'c')
  assert.deepEqual([third.status, third.body.position], [202, 2])
})

test('a node that asks again gets the same answer', async () => {
  await using stage = await serving()
  const first = await acquire(stage, 'a')
  const again = await acquire(stage, 'a')
  assert.deepEqual([again.status, again.body.token], [200, first.body.token])
  await acquire(stage, 'b')
  assert.equal((await acquire(stage, 'b')).body.position, 1)
})

test('a refused lock is an answer and not a problem: 409 as JSON, with the holder', async () => {
  await using stage = await serving()
  await acquire(stage, 'a')
  const { status, headers, body } = await acquire(stage, 'b', { wait: false })
  assert.equal(status, 409)
  assert.equal(headers.get('content-type'), 'application/json; charset=utf-8')
  assert.equal(body.status, 'refused')
  assert.deepEqual([body.holder.node, 'token' in body.holder], ['a', false])
  const state = await stage.ask('GET', `/v1/locks/state?${query}`)
  assert.equal(state.body.waiterCount, 0)
})

test('a failure grants the lock to the next waiter, and a success is notified to all waiters', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  await acquire(stage, 'b')
  await acquire(stage, 'c')
  const failed = await release(stage, 'a', a.token, { outcome: 'failure', error: 'no space' })
  assert.deepEqual([failed.status, failed.body], [200, { next: 'b' }])
  const { body: b } = await acquire(stage, 'b')
  assert.deepEqual([b.status, b.attempt], ['granted', 2])
  assert.ok(b.token > a.token)
  const done = await release(stage, 'b', b.token, { outcome: 'success', result: { digest: 'sha256:1' } })
  assert.deepEqual(done.body, { next: null })
  const reported = await acquire(stage, 'c')
  assert.deepEqual(
    [reported.status, reported.body],
    [200, { status: 'completed', result: { digest: 'sha256:1' } }],
  )
})

test('metrics count waits, holds and lost leases, by operation and outcome', async () => {
  await using stage = await serving()
  const counted = async (series: string) => {
    const { body } = await stage.ask('GET', '/metrics')
    const queue = (body as string).split('\n').find((one) => one.startsWith(`signalbox_lock_${series} `))
    return queue === undefined ? undefined : Number(queue.split(' ')[1])
  }
  const of = (outcome: string) => `{namespace="default",operation="pull",outcome="${outcome}"}`
  const pull = '{namespace="default",operation="pull"}'
  const { body: a } = await acquire(stage, 'a')
  await acquire(stage, 'b')
  await acquire(stage, 'c')
  assert.equal(await counted(`waiters${pull}`), 2)
  assert.equal(await counted(`wait_seconds_count${of('granted')}`), 1)
  assert.equal(await counted(`expired_total${pull}`), 0)
  await release(stage, 'a', a.token, { outcome: 'failure', error: 'no space' })
  const { body: b } = await acquire(stage, 'b')
  await release(stage, 'b', b.token, { outcome: 'success' })
  assert.equal((await acquire(stage, 'c')).body.status, 'completed')
  assert.deepEqual(
    await Promise.all([
      counted(`waiters${pull}`),
      counted(`wait_seconds_count${of('granted')}`),
      counted(`wait_seconds_count${of('completed')}`),
      counted(`hold_seconds_count${of('failure')}`),
      counted(`hold_seconds_count${of('success')}`),
    ]),
    [0, 2, 1, 1, 1],
  )
  await acquire(stage, 'd', { ttlMs: 100 })
  while ((await counted(`expired_total${pull}`)) !== 1)
    await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(await counted(`hold_seconds_count${of('lost')}`), 1)
})

test('operations of one resource do not block each other', async () => {
  await using stage = await serving()
  await acquire(stage, 'a')
  const other = await acquire(stage, 'b', { operation: 'delete' })
  assert.equal(other.body.status, 'granted')
})

test('a lost, wrong or used token gets 409 lease_lost and changes nothing', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  const wrong = await release(stage, 'a', a.token + 1, { outcome: 'success' })
  assert.deepEqual([wrong.status, wrong.body.code], [409, 'lease_lost'])
  assert.equal(wrong.headers.get('content-type'), 'application/problem+json; charset=utf-8')
  assert.equal((await acquire(stage, 'a')).body.token, a.token)
  assert.equal((await release(stage, 'a', a.token, { outcome: 'success' })).status, 200)
  const twice = await release(stage, 'a', a.token, { outcome: 'success' })
  assert.deepEqual([twice.status, twice.body.code], [409, 'lease_lost'])
  const renewed = await stage.ask('POST', '/v1/locks/renew', {
    body: { ...queue, node: 'a', token: a.token },
  })
  assert.deepEqual([renewed.status, renewed.body.code], [409, 'lease_lost'])
})

test('a renewal keeps the lock and shows its progress; leaving gives up the position in the wait queue', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a', { ttlMs: '10s' })
  await acquire(stage, 'b')
  const renewed = await stage.ask('POST', '/v1/locks/renew', {
    body: { ...queue, node: 'a', token: a.token, ttlMs: '1m', progress: { percent: 40 } },
  })
  assert.ok(renewed.body.expiresAt > a.expiresAt)
  const { body: state } = await stage.ask('GET', `/v1/locks/state?${query}`)
  assert.deepEqual(state.holder.progress, { percent: 40 })
  assert.deepEqual(
    state.waiters.map((waiter: { node: string; position: number }) => [waiter.node, waiter.position]),
    [['b', 1]],
  )
  const left = await stage.ask('POST', '/v1/locks/leave', { body: { ...queue, node: 'b' } })
  assert.deepEqual(left.body, { left: true })
  const holding = await stage.ask('POST', '/v1/locks/leave', { body: { ...queue, node: 'a' } })
  assert.deepEqual([holding.status, holding.body.code], [409, 'conflict'])
})

test('a renewal without ttlMs keeps the time of the request, over HTTP and in a remote box', async () => {
  await using stage = await serving()
  await using remote = await open(stage.url as 'http://x')
  const { token } = (await acquire(stage, 'a', { ttlMs: '10m' })).body
  const gained = async (renew: () => Promise<{ expiresAt: number }>) => (await renew()).expiresAt - Date.now()
  const overHttp = await gained(
    async () => (await stage.ask('POST', '/v1/locks/renew', { body: { ...queue, node: 'a', token } })).body,
  )
  const inBox = await gained(() => remote.locks.renew({ ...queue, node: 'a', token }))
  for (const ms of [overHttp, inBox]) assert.ok(ms > 580_000 && ms < 620_000, `${ms} ms`)
  // A short one is not made longer.
  const brief = await remote.locks.acquire({ ...queue, resource: 'brief', node: 'a', ttlMs: 5_000 })
  assert.ok(brief.status === 'granted')
  const request = { ...queue, resource: 'brief', node: 'a', token: brief.token }
  const briefMs = await gained(() => remote.locks.renew(request))
  assert.ok(briefMs < 6_000, `${briefMs} ms`)
})

test('wait queues are listed page by page, whatever their names', async () => {
  await using stage = await serving()
  const names = ['a/b', '100%', '镜像:1', '😀'.repeat(1_024)]
  for (const resource of names) await acquire(stage, 'n', { resource })
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const after: string = cursor === null ? '' : `&cursor=${cursor}`
    const { status, body } = await stage.ask('GET', `/v1/locks?limit=1${after}`)
    assert.equal(status, 200)
    seen.push(...body.items.map((item: { resource: string }) => item.resource))
    cursor = body.cursor
  } while (cursor !== null)
  assert.deepEqual(seen.sort(), [...names].sort())
  const wrong = await stage.ask('GET', '/v1/locks?cursor=nonsense')
  assert.deepEqual([wrong.status, wrong.body.code], [400, 'invalid_argument'])
})

test('a waiter sees its position, the progress, its grant and the end, with rising ids', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  await acquire(stage, 'b')
  await acquire(stage, 'c')
  await using b = await readEvents(`${stage.url}/v1/locks/events?${query}&node=b`)
  await using c = await readEvents(`${stage.url}/v1/locks/events?${query}&node=c`)
  assert.equal(b.response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  assert.deepEqual(dataOf(await b.next()), { position: 1 })
  assert.deepEqual(dataOf(await c.next()), { position: 2 })

  await stage.ask('POST', '/v1/locks/renew', { body: { ...queue, node: 'a', token: a.token, progress: 7 } })
  const progress = await b.next()
  assert.deepEqual([progress.type, dataOf(progress)], ['progress', { node: 'a', progress: 7 }])

  await release(stage, 'a', a.token, { outcome: 'failure' })
  const granted = await b.next()
  const grant = dataOf(granted) as { node: string; attempt: number; token: number }
  assert.deepEqual([granted.type, grant.node, grant.attempt], ['granted', 'b', 2])
  await release(stage, 'b', grant.token, { outcome: 'success', result: 'sha256:1' })
  const toC: string[] = []
  for (let event = await c.next(); ; event = await c.next()) {
    toC.push(event.type)
    if (event.type !== 'completed') continue
    assert.deepEqual(dataOf(event), { result: 'sha256:1' })
    break
  }
  assert.ok(!toC.includes('granted'), 'the token of a grant is told to its owner alone')
  for (const { events } of [b, c]) {
    const ids = events.map(({ id }) => Number(id))
    assert.deepEqual(
      ids,
      [...new Set(ids)].sort((x, y) => x - y),
    )
  }
})

test('an observer sees the wait queue first, then its events, and never a token', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  await using watch = await readEvents(`${stage.url}/v1/locks/events?${query}`)
  const first = await watch.next()
  assert.equal(first.type, 'reset')
  assert.equal((dataOf(first) as { holder: { node: string } }).holder.node, 'a')
  await release(stage, 'a', a.token, { outcome: 'success', result: 1 })
  const end = await watch.next()
  assert.deepEqual([end.type, dataOf(end)], ['completed', { result: 1 }])
  assert.ok(watch.events.every(({ data }) => !data.includes(String(a.token))))
})

test('a stream resumes after its last event, or gets a reset and the present state', async () => {
  await using stage = await serving()
  const url = `${stage.url}/v1/locks/events?${query}&node=b`
  const { body: a } = await acquire(stage, 'a')
  await acquire(stage, 'b')
  let id: string
  {
    await using stream = await readEvents(url)
    id = (await stream.next()).id
  }
  {
    await using stream = await readEvents(url, { 'last-event-id': id })
    await assert.rejects(stream.next(300), /next event/)
  }
  await release(stage, 'a', a.token, { outcome: 'failure' })
  await using stream = await readEvents(url, { 'last-event-id': id })
  const reset = await stream.next()
  const granted = await stream.next()
  assert.deepEqual([reset.type, granted.type], ['reset', 'granted'])
  assert.ok(Number(id) < Number(reset.id) && Number(reset.id) < Number(granted.id))
})

test('an invalid Last-Event-ID is refused before the stream begins', async () => {
  await using stage = await serving()
  for (const lastEventId of ['x', '-1', '1.5', '99999999999999999']) {
    const { status, body } = await stage.ask('GET', `/v1/locks/events?${query}`, {
      headers: { 'last-event-id': lastEventId },
    })
    assert.deepEqual([status, body.code], [400, 'invalid_argument'], lastEventId)
  }
})

test('a stream opened after the end still shows the outcome, and one of another request shows lost', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  await acquire(stage, 'b')
  await release(stage, 'a', a.token, { outcome: 'success', result: 5 })
  await using late = await readEvents(`${stage.url}/v1/locks/events?${query}&node=b`)
  const event = await late.next()
  assert.deepEqual([event.type, dataOf(event)], ['completed', { result: 5 }])
  await using stranger = await readEvents(`${stage.url}/v1/locks/events?${query}&node=unknown`)
  assert.equal((await stranger.next()).type, 'lost')
})

test('a bound stream that drops shortens its holder’s lease, and other streams do not', async () => {
  await using stage = await serving()
  const state = async () => (await stage.ask('GET', `/v1/locks/state?${query}`)).body
  const { body: a } = await acquire(stage, 'a', { ttlMs: '1m' })
  {
    await using plain = await readEvents(`${stage.url}/v1/locks/events?${query}&node=a`)
    assert.equal((await plain.next()).type, 'granted')
  }
  assert.equal((await state()).holder.expiresAt, a.expiresAt)
  {
    await using bound = await readEvents(`${stage.url}/v1/locks/events?${query}&node=a&bind=true`)
    assert.equal((await bound.next()).type, 'granted')
  }
  const until = Date.now() + 5_000
  while ((await state()).holder?.expiresAt === a.expiresAt) assert.ok(Date.now() < until)
  const { holder } = await state()
  assert.ok(holder === null || holder.expiresAt < a.expiresAt - 50_000)
})

test('the read scope may look, work may take part, and admin may evict', async () => {
  const secret = 'a-bootstrap-secret-of-more-than-32-characters'
  await using stage = await serving({ bootstrap: [secret] })
  const admin = { authorization: `Bearer ${secret}` }
  const tokenOf = async (scope: string) => {
    const made = await stage.ask('POST', '/v1/tokens', { body: { name: scope, scope }, headers: admin })
    return { authorization: `Bearer ${made.body.secret}` }
  }
  const [read, work] = [await tokenOf('read'), await tokenOf('work')]
  const body = { ...queue, node: 'a' }
  const status = async (method: string, path: string, headers: Record<string, string>, sent?: object) =>
    (await stage.ask(method, path, { headers, ...(sent ? { body: sent } : {}) })).status
  assert.equal(await status('POST', '/v1/locks/acquire', read, body), 403)
  assert.equal(await status('POST', '/v1/locks/acquire', work, body), 200)
  assert.equal(await status('GET', '/v1/locks', read), 200)
  assert.equal(await status('GET', `/v1/locks/state?${query}`, read), 200)
  assert.equal(await status('GET', `/v1/locks/events?${query}&node=a`, read), 403)
  assert.equal(await status('POST', '/v1/locks/evict', work, body), 403)
  assert.equal(await status('POST', '/v1/locks/evict', admin, { ...body, node: 'unknown' }), 404)
  assert.equal(await status('POST', '/v1/locks/evict', admin, body), 200)
  await using watch = await readEvents(`${stage.url}/v1/locks/events?${query}`, read)
  assert.equal((await watch.next()).type, 'reset')
})

test('each namespace has its own wait queues', async () => {
  await using stage = await serving()
  const inShop = { 'signalbox-namespace': 'shop' }
  const ask = (headers: Record<string, string>) =>
    stage.ask('POST', '/v1/locks/acquire', { body: { ...queue, node: 'a', requestId: 'r' }, headers })
  const [one, other] = [await ask({}), await ask(inShop)]
  assert.deepEqual([one.body.status, other.body.status], ['granted', 'granted'])
  assert.equal((await stage.ask('GET', '/v1/locks', { headers: inShop })).body.items.length, 1)
})

test('the stream of a waiter ends after its last event', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  await acquire(stage, 'b')
  await using stream = await readEvents(`${stage.url}/v1/locks/events?${query}&node=b`)
  await stream.next()
  await release(stage, 'a', a.token, { outcome: 'success' })
  const types = (await stream.toEnd()).map(({ type }) => type)
  assert.deepEqual(types, ['queued', 'completed'])
})

test('a server that shuts down ends bound streams and shortens no lease', async () => {
  await using box = await open('memory:')
  const server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  const answer = await box.locks.acquire({ ...queue, node: 'a', ttlMs: '1m' })
  assert.equal(answer.status, 'granted')
  await using bound = await readEvents(`${url}/v1/locks/events?${query}&node=a&bind=true`)
  assert.equal((await bound.next()).type, 'granted')
  await server.close()
  await bound.toEnd()
  const { holder } = await box.locks.inspect(queue)
  assert.equal(holder?.expiresAt, answer.status === 'granted' && answer.expiresAt)
})

test('one end is notified to three hundred waiters, and a hand-over wakes one of them', async () => {
  await using stage = await serving()
  const { body: a } = await acquire(stage, 'a')
  const nodes = Array.from({ length: 300 }, (_, number) => `n${number}`)
  for (const node of nodes) await acquire(stage, node)
  const streams = await Promise.all(
    nodes.map((node) => readEvents(`${stage.url}/v1/locks/events?${query}&node=${node}`)),
  )
  await using stack = new AsyncDisposableStack()
  for (const stream of streams) stack.use(stream)
  await Promise.all(streams.map((stream) => stream.next()))
  await release(stage, 'a', a.token, { outcome: 'failure' })
  const granted = await streams[0]!.next()
  const { token } = dataOf(granted) as { token: number }
  await release(stage, 'n0', token, { outcome: 'success', result: 1 })
  const ends = await Promise.all(streams.slice(1).map((stream) => stream.toEnd()))
  for (const events of ends) {
    assert.equal(events.filter(({ type }) => type === 'completed').length, 1)
    assert.ok(events.every(({ type }) => type !== 'granted'))
  }
})
