import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Reply, type Stage, serving } from '../stage.ts'

/** A monitor behind a port: reports, what is decided, and what is refused. Nothing here is sent anywhere: digests wait for their time. */

const slot = { source: 'courts', timeSlot: '18:00-19:00' }
const channel = { type: 'webhook', url: 'https://hooks.example.com/changes', secret: 'a-secret-of-mine' }
let tasks = 0

function report(
  { ask }: Stage,
  states: Readonly<Record<string, unknown>>,
  more: object = {},
): Promise<Reply> {
  const venues = Object.entries(states).map(([venueId, state]) => ({ venueId, state }))
  const taskId = `task-${++tasks}`
  return ask('POST', '/v1/monitor/report', {
    body: { taskId, ...slot, observedAt: Date.now(), venues, ...more },
  })
}

function subscribe({ ask }: Stage, more: object = {}): Promise<Reply> {
  return ask('POST', '/v1/monitor/subscriptions', { body: { name: 'everyone', channel, ...more } })
}

function assertProblem({ status, headers, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body.code], [expected, code], JSON.stringify(body))
  assert.equal(headers.get('content-type'), 'application/problem+json; charset=utf-8')
}

test('a report answers with changes and subscribers; explain, decisions, notifications and subjects agree', async () => {
  await using stage = await serving()
  const made = await subscribe(stage, {
    match: { venueId: { prefix: 'north' } },
    windowMs: '5m',
    digestMs: '1h',
  })
  assert.equal(made.status, 201)
  assert.deepEqual([made.body.windowMs, made.body.channel.type], [300_000, 'webhook'])
  const first = await report(stage, { 'north-1': { free: 1 }, south: { free: 1 } })
  assert.deepEqual(
    [first.status, first.body.status, first.body.notified, first.body.failed],
    [200, 'processed', 0, []],
  )
  const second = await report(stage, { 'north-1': { free: 2 }, south: { free: 2 } })
  assert.equal(second.body.notified, 1)
  assert.deepEqual(second.body.changes, [
    { venueId: 'north-1', from: { free: 1 }, to: { free: 2 }, reason: 'changed' },
    { venueId: 'south', from: { free: 1 }, to: { free: 2 }, reason: 'no_subscriber' },
  ])
  assert.deepEqual(second.body.suppressed, [{ venueId: 'south', reason: 'no_subscriber' }])

  const where = 'source=courts&timeSlot=18%3A00-19%3A00&venueId=north-1'
  const { body: explained } = await stage.ask('GET', `/v1/monitor/explain?${where}`)
  assert.deepEqual(explained.present.state, { free: 2 })
  assert.deepEqual(
    explained.decisions.map(({ reason }: { reason: string }) => reason),
    ['changed', 'new'],
  )
  const [verdict] = explained.decisions[0].verdicts
  assert.deepEqual([verdict.notified, verdict.subscriptionId], [true, made.body.id])
  assert.equal(verdict.notification.subscription, 'everyone')
  const { body: notices } = await stage.ask('GET', `/v1/monitor/notifications?${where}`)
  assert.equal(notices.items[0].id, verdict.notificationId)
  assert.deepEqual([notices.items[0].from, notices.items[0].to], [{ free: 1 }, { free: 2 }])
  const { body: decisions } = await stage.ask('GET', '/v1/monitor/decisions?reason=no_subscriber')
  assert.deepEqual(
    decisions.items.map(({ venueId }: { venueId: string }) => venueId),
    ['south'],
  )
  const { body: subjects } = await stage.ask('GET', '/v1/monitor/subjects?search=north')
  assert.deepEqual(
    subjects.items.map(({ venueId, state }: { venueId: string; state: unknown }) => [venueId, state]),
    [['north-1', { free: 2 }]],
  )
  const { body: pages } = await stage.ask('GET', '/v1/monitor/subjects?limit=1')
  const { body: next } = await stage.ask('GET', `/v1/monitor/subjects?limit=1&cursor=${pages.cursor}`)
  assert.deepEqual([pages.items[0].venueId, next.items[0].venueId], ['north-1', 'south'])
})

test('a task that was reported before is a duplicate, and has no effect', async () => {
  await using stage = await serving()
  await report(stage, { a: 1 }, { taskId: 'the-one' })
  const again = await report(stage, { a: 2 }, { taskId: 'the-one' })
  assert.deepEqual([again.status, again.body.status, again.body.changes], [200, 'duplicate', []])
  const { body } = await stage.ask('GET', '/v1/monitor/subjects')
  assert.equal(body.items[0].state, 1)
  const { body: stats } = await stage.ask('GET', '/v1/once/stats')
  assert.equal(stats.lock_acquired_count, 1)
})

test('of eight concurrent reports of one task one is processed, and the others get busy or duplicate', async () => {
  await using stage = await serving({}, (folder) => `sqlite:${folder}/signalbox.db`)
  await subscribe(stage, { notifyNew: true, digestMs: '1h' })
  const states = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`v${at}`, at]))
  const all = Array.from({ length: 8 }, () => report(stage, states, { taskId: 'raced' }))
  const answers = (await Promise.all(all)).map(({ body }) => body)
  assert.equal(answers.filter(({ status }) => status === 'processed').length, 1)
  assert.ok(answers.every(({ status }) => ['processed', 'busy', 'duplicate'].includes(status)))
  assert.equal(
    answers.reduce((sum, { notified }) => sum + notified, 0),
    300,
  )
  const { body: stats } = await stage.ask('GET', '/v1/once/stats')
  assert.equal(stats.lock_acquired_count, 1)
  assert.equal(stats.unique_events, 300)
})

test('subscriptions and silences are created, listed and ended, and ended only once', async () => {
  await using stage = await serving()
  const { body: made } = await subscribe(stage, { throttle: { max: 5, perMs: '1m' } })
  const { body: listed } = await stage.ask('GET', '/v1/monitor/subscriptions')
  assert.deepEqual(listed, { items: [made], cursor: null })
  const silence = await stage.ask('POST', '/v1/monitor/silences', {
    body: { match: { source: 'courts' }, forMs: '1h', comment: 'repairs' },
  })
  assert.deepEqual([silence.status, silence.body.comment], [201, 'repairs'])
  await report(stage, { a: 1 })
  const quiet = await report(stage, { a: 2 })
  assert.deepEqual(quiet.body.suppressed, [{ venueId: 'a', reason: 'silenced' }])
  const { body: silences } = await stage.ask('GET', '/v1/monitor/silences')
  assert.deepEqual(silences.items, [silence.body])
  for (const path of [`silences/${silence.body.id}`, `subscriptions/${made.id}`]) {
    const gone = await stage.ask('DELETE', `/v1/monitor/${path}`)
    assert.deepEqual([gone.status, gone.body], [200, { deleted: true }])
    assertProblem(await stage.ask('DELETE', `/v1/monitor/${path}`), 404, 'not_found')
  }
  assert.deepEqual((await stage.ask('GET', '/v1/monitor/subscriptions')).body.items, [])
})

test('a notification that is unknown or not over cannot be sent again', async () => {
  await using stage = await serving()
  assertProblem(await stage.ask('POST', '/v1/monitor/notifications/none/replay'), 404, 'not_found')
  await subscribe(stage, { notifyNew: true, digestMs: '1h' })
  await report(stage, { a: 1 })
  const { body } = await stage.ask('GET', '/v1/monitor/notifications')
  const waiting = await stage.ask('POST', `/v1/monitor/notifications/${body.items[0].id}/replay`)
  assertProblem(waiting, 409, 'conflict')
})

test('a report of ten thousand venues is accepted, and one more venue gets 413', async () => {
  await using stage = await serving()
  const many = (count: number, state: number) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, at) => [`venue-${at}`, { free: state, court: at % 7 }]),
    )
  const first = await report(stage, many(10_000, 1))
  assert.deepEqual([first.status, first.body.status, first.body.failed], [200, 'processed', []])
  const second = await report(stage, { ...many(10_000, 1), 'venue-77': { free: 2 } })
  assert.deepEqual(
    second.body.changes.map(({ venueId }: { venueId: string }) => venueId),
    ['venue-77'],
  )
  const tooMany = await report(stage, many(10_001, 1))
  assertProblem(tooMany, 413, 'too_large')
  assert.match(tooMany.body.detail, /10001 venues; at most 10000/)
}, 60_000)

test('a venue with a state of a megabyte, or listed twice, fails alone; the rest is processed', async () => {
  await using stage = await serving()
  const big = await report(stage, { good: 1, big: 'x'.repeat(1_048_576), fine: 2 })
  assert.equal(big.status, 200)
  assert.deepEqual(
    big.body.failed.map(({ venueId, error }: { venueId: string; error: { code: string } }) => [
      venueId,
      error.code,
    ]),
    [['big', 'too_large']],
  )
  const venues = [
    { venueId: 'twice', state: 1 },
    { venueId: 'twice', state: 2 },
    { venueId: 'same', state: 1 },
    { venueId: 'same', state: 1 },
    { venueId: '', state: 1 },
    { venueId: 'x'.repeat(5_000), state: 1 },
  ]
  const twice = await report(stage, {}, { venues })
  assert.equal(twice.status, 200)
  assert.deepEqual(
    twice.body.failed.map(({ error }: { error: { code: string } }) => error.code),
    ['invalid_argument', 'invalid_argument', 'invalid_argument'],
  )
  const { body } = await stage.ask('GET', '/v1/monitor/subjects')
  assert.deepEqual(body.items.map(({ venueId }: { venueId: string }) => venueId).sort(), [
    'fine',
    'good',
    'same',
  ])
})

test('a report above sixteen megabytes gets 413 before it is parsed', async () => {
  await using stage = await serving()
  const states = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`v${at}`, 'x'.repeat(250_000)]))
  assertProblem(await report(stage, states), 413, 'too_large')
  const half = Object.fromEntries(Object.entries(states).slice(0, 35))
  assert.equal((await report(stage, half)).body.status, 'processed')
})

test('with clocks an hour apart the newer state stays, and a report from the future counts until then', async () => {
  await using stage = await serving()
  const now = Date.now()
  await report(stage, { a: 'now' }, { observedAt: now })
  const late = await report(stage, { a: 'an hour ago' }, { observedAt: now - 3_600_000 })
  assert.deepEqual(late.body.suppressed, [{ venueId: 'a', reason: 'stale' }])
  await report(stage, { a: 'in an hour' }, { observedAt: now + 3_600_000 })
  const { body } = await stage.ask('GET', '/v1/monitor/subjects')
  assert.deepEqual([body.items.length, typeof body.items[0].state], [1, 'string'])
  assert.notEqual(body.items[0].state, 'an hour ago')
})

test('keys that reach into prototypes are refused, also inside a state', async () => {
  await using stage = await serving()
  const body = `{"taskId":"t","source":"s","timeSlot":"x","observedAt":1,"venues":[{"venueId":"a","state":{"__proto__":{"isAdmin":true}}}]}`
  const reply = await stage.ask('POST', '/v1/monitor/report', { body })
  assertProblem(reply, 400, 'invalid_argument')
  assert.match(reply.body.detail, /__proto__/)
  assert.equal(({} as { isAdmin?: boolean }).isAdmin, undefined)
  // As a name it is one like any other.
  const named = await report(stage, {}, { venues: [{ venueId: '__proto__', state: 'constructor' }] })
  assert.deepEqual([named.body.status, named.body.failed], ['processed', []])
  await report(stage, {}, { venues: [{ venueId: '__proto__', state: 'other' }] })
  const { body: explained } = await stage.ask(
    'GET',
    '/v1/monitor/explain?source=courts&timeSlot=18%3A00-19%3A00&venueId=__proto__',
  )
  assert.deepEqual([explained.present.state, explained.decisions.length], ['other', 2])
})

test('an invalid request is refused with the mistake', async () => {
  await using stage = await serving()
  const good = { taskId: 't', ...slot, observedAt: 1, venues: [] }
  const sub = { name: 'n', channel }
  const wrong: readonly [method: string, path: string, body: unknown, detail: RegExp][] = [
    ['POST', 'report', { ...good, taskId: '' }, /taskId/],
    ['POST', 'report', { ...good, observedAt: 'yesterday' }, /observedAt/],
    ['POST', 'report', { ...good, observedAt: -1 }, /observedAt/],
    ['POST', 'report', { ...good, venues: { a: 1 } }, /venues/],
    ['POST', 'report', { ...good, venues: [{ venueId: 'a' }] }, /state/],
    ['POST', 'report', { ...good, venues: [{ venueId: 'a', state: 1, price: 2 }] }, /price/],
    ['POST', 'report', { ...good, priority: 1 }, /priority/],
    ['POST', 'report', { ...good, ignore: [''] }, /ignore/],
    ['POST', 'subscriptions', { ...sub, url: 'https://x.example' }, /url/],
    ['POST', 'subscriptions', { ...sub, match: { venue: 'a' } }, /venue/],
    ['POST', 'subscriptions', { ...sub, windowMs: '400y' }, /windowMs/],
    ['POST', 'subscriptions', { ...sub, maxRetries: 101 }, /maxRetries/],
    ['POST', 'subscriptions', { ...sub, template: '{unknown}' }, /template/],
    ['POST', 'subscriptions', { ...sub, channel: { ...channel, type: 'pigeon' } }, /type/],
    ['POST', 'subscriptions', { ...sub, channel: { ...channel, secret: 'two words' } }, /secret/],
    ['POST', 'subscriptions', { ...sub, channel: { ...channel, retries: 1 } }, /retries/],
    ['POST', 'subscriptions', { ...sub, channel: 'https://x.example' }, /channel/],
    ['POST', 'silences', { forMs: 0 }, /forMs/],
    ['POST', 'silences', { forMs: '1h', until: 1 }, /until/],
    ['GET', 'explain?source=a', undefined, /timeSlot|venueId/],
    ['POST', 'report', { ...good, subjects: [] }, /both forms/],
    ['GET', 'decisions?source=a', undefined, /names one subject/],
    ['GET', 'decisions?reason=boredom', undefined, /reason/],
    ['GET', 'notifications?status=lost', undefined, /status/],
    ['GET', 'subjects?cursor=abc', undefined, /cursor/],
    ['GET', 'subjects?limit=501', undefined, /limit/],
  ]
  for (const [method, path, body, detail] of wrong) {
    const reply = await stage.ask(method, `/v1/monitor/${path}`, body === undefined ? {} : { body })
    assertProblem(reply, 400, 'invalid_argument')
    assert.match(reply.body.detail, detail, `${path} ${JSON.stringify(body)}`)
  }
})

test('private addresses are refused in any notation, unless the operator named them', async () => {
  const inside = [
    'http://127.0.0.1:9/x',
    'https://127.0.0.1/x',
    'https://[::1]/x',
    'https://[::ffff:127.0.0.1]/x',
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/x',
    'https://0x7f000001/x',
    'https://2130706433/x',
    'http://hooks.example.com/x',
    'ftp://hooks.example.com/x',
    'https://user:word@hooks.example.com/x',
  ]
  await using stage = await serving()
  for (const url of inside) {
    const refused = await subscribe(stage, { channel: { ...channel, url } })
    assertProblem(refused, 400, 'invalid_argument')
    assert.match(refused.body.detail, /^channel\.url must be /, url)
    assert.ok(!JSON.stringify(refused.body).includes(url), 'no complaint quotes it')
    const { body } = await stage.ask('POST', '/v1/monitor/test', { body: { channel: { ...channel, url } } })
    assert.deepEqual([body.ok, body.shown], [false, null])
  }
  await using open = await serving({}, 'memory:', { allowPrivate: ['127.0.0.0/8'] })
  assert.equal((await subscribe(open, { channel: { ...channel, url: 'http://127.0.0.1:9/x' } })).status, 201)
  const still = await subscribe(open, { channel: { ...channel, url: 'https://169.254.169.254/x' } })
  assertProblem(still, 400, 'invalid_argument')
})
