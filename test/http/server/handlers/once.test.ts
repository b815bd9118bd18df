import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Reply, type Stage, serving } from '../stage.ts'

function post({ ask }: Stage, verb: string, body: unknown, headers?: Record<string, string>): Promise<Reply> {
  return ask('POST', `/v1/once/${verb}`, { body, ...(headers && { headers }) })
}

function assertProblem({ status, headers, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body.code], [expected, code], JSON.stringify(body))
  assert.equal(headers.get('content-type'), 'application/problem+json; charset=utf-8')
}

test('the first claimer runs, later ones learn that it runs, and after done all get the result', async () => {
  await using stage = await serving()
  const first = await post(stage, 'claim', { key: 'invoice-1', leaseMs: '30s' })
  assert.equal(first.status, 200)
  assert.deepEqual(Object.keys(first.body).sort(), ['attempt', 'status', 'token'])
  assert.deepEqual([first.body.status, first.body.attempt], ['run', 1])
  const second = await post(stage, 'claim', { key: 'invoice-1' })
  assert.equal(second.status, 200)
  assert.deepEqual(Object.keys(second.body).sort(), ['retryInMs', 'status'])
  assert.ok(second.body.retryInMs > 0 && second.body.retryInMs <= 30_000)
  const { token } = first.body
  const renewed = await post(stage, 'renew', { key: 'invoice-1', token, leaseMs: '1m' })
  assert.ok(renewed.body.expiresAt > Date.now() + 50_000)
  const done = await post(stage, 'done', { key: 'invoice-1', token, result: { sent: [1, null] } })
  assert.deepEqual([done.status, done.body], [200, { done: true }])
  const third = await post(stage, 'claim', { key: 'invoice-1' })
  assert.deepEqual(third.body, { status: 'done', result: { sent: [1, null] } })
})

test('a failed key may be claimed again at once, as the next attempt', async () => {
  await using stage = await serving()
  const { body: one } = await post(stage, 'claim', { key: 'k' })
  assert.deepEqual((await post(stage, 'fail', { key: 'k', token: one.token })).body, { failed: true })
  const { body: two } = await post(stage, 'claim', { key: 'k' })
  assert.deepEqual([two.status, two.attempt], ['run', 2])
  assert.notEqual(two.token, one.token)
})

test('many keys are claimed together and answered in their order', async () => {
  await using stage = await serving()
  const { body: held } = await post(stage, 'claim', { key: 'b' })
  await post(stage, 'done', { key: 'b', token: held.token, result: 7 })
  const { status, body } = await post(stage, 'claim', { keys: ['a', 'b', 'a'] })
  assert.equal(status, 200)
  assert.deepEqual(
    body.items.map((item: { status: string }) => item.status),
    ['run', 'done', 'running'],
  )
  assert.deepEqual((await post(stage, 'claim', { keys: [] })).body, { items: [] })
  const keys = Array.from({ length: 1_000 }, (_, at) => `key-${at}`)
  assert.equal((await post(stage, 'claim', { keys })).body.items.length, 1_000)
})

test('at most once: an expired claim is stuck until an operator forgets the key', async () => {
  await using stage = await serving()
  await post(stage, 'claim', { key: 'k', mode: 'at-most-once', leaseMs: 100 })
  let answer = await post(stage, 'claim', { key: 'k', mode: 'at-most-once' })
  while (answer.body.status === 'running') {
    await new Promise((resolve) => setTimeout(resolve, answer.body.retryInMs + 1))
    answer = await post(stage, 'claim', { key: 'k', mode: 'at-most-once' })
  }
  assert.deepEqual(answer.body, { status: 'stuck' })
  const listed = await stage.ask('GET', '/v1/once?search=k')
  assert.deepEqual([listed.body.items[0].status, listed.body.items[0].endsAt], ['stuck', null])
  assert.deepEqual((await post(stage, 'forget', { key: 'k' })).body, { forgotten: true })
  assert.deepEqual((await post(stage, 'forget', { key: 'k' })).body, { forgotten: false })
  assert.equal((await post(stage, 'claim', { key: 'k', mode: 'at-most-once' })).body.status, 'run')
})

test('a busy task is free again when it is done, and nothing of it is stored', async () => {
  await using stage = await serving()
  const task = { key: 'crawl-1', space: 'processing' }
  const { body: one } = await post(stage, 'claim', task)
  assert.equal((await post(stage, 'claim', task)).body.status, 'running')
  assert.equal((await post(stage, 'claim', { key: 'crawl-1' })).body.status, 'run', 'keys are another space')
  assert.equal((await post(stage, 'done', { ...task, token: one.token })).status, 200)
  const again = await post(stage, 'claim', task)
  assert.deepEqual([again.body.status, again.body.attempt], ['run', 1])
  const listed = await stage.ask('GET', '/v1/once?space=processing')
  assert.deepEqual(
    listed.body.items.map((guard: { key: string; status: string }) => [guard.key, guard.status]),
    [['crawl-1', 'running']],
  )
})

test('a sighting is new once within its window, by state, by the last state or by the change', async () => {
  await using stage = await serving()
  const seen = async (state: unknown, more: object = {}) =>
    (await post(stage, 'seen', { subject: ['courts', '18:00', 'north'], state, ...more })).body.seen
  assert.deepEqual([await seen('a'), await seen('b'), await seen('a')], [false, false, true])
  const last = { by: 'last', windowMs: '1m' }
  assert.deepEqual(
    [await seen('a', last), await seen('b', last), await seen('a', last), await seen('a', last)],
    [false, false, false, true],
  )
  const change = { by: 'transition', from: { free: 1 } }
  assert.deepEqual([await seen({ free: 2 }, change), await seen({ free: 2 }, change)], [false, true])
})

test('a key that was used for something else gets 422, with the key', async () => {
  await using stage = await serving()
  await post(stage, 'claim', { key: 'k', fingerprint: 'one' })
  const reply = await post(stage, 'claim', { key: 'k', fingerprint: 'another' })
  assertProblem(reply, 422, 'fingerprint_mismatch')
  assert.match(reply.body.detail, /"k"/)
})

test('a token of another claim gets 409 and changes nothing, with any body', async () => {
  await using stage = await serving()
  const { body } = await post(stage, 'claim', { key: 'k' })
  for (const token of ['nonsense', `${body.token}0`, '1.0000000000000000']) {
    for (const verb of ['done', 'fail', 'renew'])
      assertProblem(await post(stage, verb, { key: 'k', token }), 409, 'lease_lost')
  }
  assert.equal((await post(stage, 'claim', { key: 'k' })).body.status, 'running')
  assert.equal((await post(stage, 'done', { key: 'k', token: body.token })).status, 200)
  assertProblem(await post(stage, 'done', { key: 'k', token: body.token }), 409, 'lease_lost')
})

test('an invalid body is refused before anything is claimed', async () => {
  await using stage = await serving()
  const wrong: readonly [verb: string, body: unknown, detail: RegExp][] = [
    ['claim', {}, /either key, or keys/],
    ['claim', { key: 'k', keys: ['k'] }, /either key, or keys/],
    ['claim', { key: '' }, /key/],
    ['claim', { key: 7 }, /key/],
    ['claim', { keys: 'k' }, /keys/],
    ['claim', { keys: ['a'], fingerprint: 'f' }, /fingerprint/],
    ['claim', { key: 'k', ttlMs: 1 }, /ttlMs/],
    ['claim', { key: 'k', leaseMs: 5 }, /leaseMs/],
    ['claim', { key: 'k', leaseMs: 'soon' }, /leaseMs/],
    ['claim', { key: 'k', mode: 'exactly-once' }, /mode/],
    ['claim', { key: 'k', space: 'monitor.task' }, /space/],
    ['claim', { key: 'k', space: 'processing', keepMs: '1d' }, /keepMs/],
    ['done', { key: 'k' }, /token/],
    ['done', { key: 'k', token: 't'.repeat(65) }, /token/],
    ['fail', { key: 'k', token: 't', result: 1 }, /result/],
    ['renew', { key: 'k', token: 't', leaseMs: -1 }, /leaseMs/],
    ['forget', { key: 'k', token: 't' }, /token/],
    ['seen', { subject: [], state: 1 }, /subject/],
    ['seen', { subject: ['a'] }, /state/],
    ['seen', { subject: ['a'], state: 1, by: 'transition' }, /from/],
    ['seen', { subject: ['a'], state: 1, windowMs: '400y' }, /windowMs/],
    ['seen', '{"subject":["a"],"state":{"__proto__":{}}}', /__proto__/],
  ]
  for (const [verb, body, detail] of wrong) {
    const reply = await post(stage, verb, body)
    assertProblem(reply, 400, 'invalid_argument')
    assert.match(reply.body.detail, detail, JSON.stringify(body))
  }
  assert.deepEqual((await stage.ask('GET', '/v1/once')).body.items, [])
  const wrongQuery = await stage.ask('GET', '/v1/once?cursor=nonsense!')
  assertProblem(wrongQuery, 400, 'invalid_argument')
})

test('a body, a result, a state or a list of keys that is too large gets 413', async () => {
  await using stage = await serving()
  const keys = Array.from({ length: 1_001 }, (_, at) => `${at}`)
  assertProblem(await post(stage, 'claim', { keys }), 413, 'too_large')
  const { body } = await post(stage, 'claim', { key: 'k' })
  const result = 'x'.repeat(300_000)
  assertProblem(await post(stage, 'done', { key: 'k', token: body.token, result }), 413, 'too_large')
  assertProblem(await post(stage, 'seen', { subject: ['a'], state: result }), 413, 'too_large')
  const huge = { key: 'k', token: body.token, result: 'x'.repeat(1_048_577) }
  assertProblem(await post(stage, 'done', huge), 413, 'too_large')
  assert.equal(
    (await post(stage, 'done', { key: 'k', token: body.token })).status,
    200,
    'the claim still holds',
  )
})

test('guards are listed page by page, without tokens and results', async () => {
  await using stage = await serving()
  const names = ['a/b', '100%', '订单:1', '😀'.repeat(100)]
  for (const key of names) {
    const { body } = await post(stage, 'claim', { key })
    await post(stage, 'done', { key, token: body.token, result: 'canary-result' })
  }
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const after: string = cursor === null ? '' : `&cursor=${cursor}`
    const { status, body } = await stage.ask('GET', `/v1/once?limit=1${after}`)
    assert.equal(status, 200)
    assert.doesNotMatch(JSON.stringify(body), /canary-result|token/)
    seen.push(...body.items.map((item: { key: string }) => item.key))
    cursor = body.cursor
  } while (cursor !== null)
  assert.deepEqual(seen.sort(), [...names].sort())
})

test('the five counters, and the answers behind them, are shown as they were counted', async () => {
  await using stage = await serving()
  const { body: task } = await post(stage, 'claim', { key: 't', space: 'processing' })
  await post(stage, 'claim', { key: 't', space: 'processing' })
  await post(stage, 'done', { key: 't', token: task.token, space: 'processing' })
  await post(stage, 'claim', { keys: ['a', 'b', 'a'] })
  for (const state of [1, 1, 1]) await post(stage, 'seen', { subject: ['a'], state })
  const { body } = await stage.ask('GET', '/v1/once/stats')
  assert.deepEqual(body, {
    lock_acquired_count: 1,
    lock_rejected_count: 1,
    duplicate_events: 1,
    unique_events: 2,
    notification_dedup: 2,
    degraded: 0,
    answers: {
      processing: { run: 1, running: 1 },
      once: { run: 2, running: 1 },
      seen: { unseen: 1, seen: 2 },
    },
  })
  const { body: metrics } = await stage.ask('GET', '/metrics')
  for (const line of [
    'signalbox_lock_acquired_count{namespace="default"} 1',
    'signalbox_lock_rejected_count{namespace="default"} 1',
    'signalbox_duplicate_events{namespace="default"} 1',
    'signalbox_unique_events{namespace="default"} 2',
    'signalbox_notification_dedup{namespace="default"} 2',
    'signalbox_once_total{namespace="default",guard="once",outcome="run"} 2',
    'signalbox_once_degraded_total{namespace="default",policy="open"} 0',
  ])
    assert.ok(metrics.split('\n').includes(line), line)
})
