import assert from 'node:assert/strict'
import { test } from 'vitest'
import { startDingTalk, startReceiver, startSlack } from '../support/robots/index.ts'
import { createWorld, sum } from './sending-world.ts'

const venues = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => `court-${from + index + 1}`)
const mentions = (texts: readonly { readonly text: string }[], venue: string) =>
  texts.filter(({ text }) => new RegExp(`${venue}\\b`).test(text.replaceAll('\\', ''))).length

test('eight senders together send twenty a minute through one robot, the rest in digests, without a ban', async () => {
  await using world = await createWorld()
  await using robot = await startDingTalk({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'dingtalk', url: robot.url })
  const senders = await Promise.all(Array.from({ length: 8 }, () => world.sender()))
  const ids: string[] = []
  for (let wave = 0; wave < 10; wave++) ids.push(...(await world.notify(desk, venues(12, wave * 12))))
  await robot.waitFor(20)
  for (let minute = 0; minute < 8; minute++) {
    const open = await Promise.all(ids.map((id) => world.record(id)))
    if (open.every(({ status }) => status === 'sent')) break
    await world.idle()
    world.advance(60_002)
  }
  const records = await world.ended(ids)
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
  assert.deepEqual(robot.refusals, [])
  assert.equal(sum(senders, 'dingtalk', 'penalties'), 0)
  assert.ok(robot.messages.length < 60, `120 changes in ${robot.messages.length} messages`)
  assert.ok(records.some(({ digestId }) => digestId !== null))
  for (const venue of venues(120)) assert.equal(mentions(robot.messages, venue), 1, venue)
})

test('the last message of a minute carries all remaining notifications', async () => {
  await using world = await createWorld()
  await using robot = await startDingTalk({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'dingtalk', url: robot.url })
  const ids = await world.notify(desk, venues(50))
  const sender = await world.sender()
  const records = await world.ended(ids)
  assert.equal(robot.messages.length, 20)
  const shared = records.filter(({ digestId }) => digestId !== null)
  assert.equal(shared.length, 31)
  assert.equal(new Set(shared.map(({ digestId }) => digestId)).size, 1)
  assert.equal(sender.counts().dingtalk?.digested, 31)
})

test('a pool of robots takes as many messages as all together, and skips a banned robot', async () => {
  await using world = await createWorld()
  const now = () => world.now()
  await using first = await startDingTalk({ now })
  await using second = await startDingTalk({ now, perMinute: 3 })
  await using third = await startDingTalk({ now })
  const robots = [first, second, third].map(({ url }) => ({ url }))
  const desk = await world.subscribe({ type: 'dingtalk', robots })
  const ids = await world.notify(desk, venues(30))
  const sender = await world.sender()
  const records = await world.ended(ids)
  assert.ok(records.every(({ status }) => status === 'sent'))
  assert.equal(first.messages.length + second.messages.length + third.messages.length, 30)
  assert.equal(second.messages.length, 3)
  // Two may be in flight at once; after that no request is made.
  assert.ok(second.requests <= 5, `${second.requests} requests`)
  assert.ok(sender.counts().dingtalk!.penalties >= 1)
  for (const { attempt } of records) assert.equal(attempt, 1, 'a ban costs no try')
})

test('a sender waits for the end of a ban, which costs no attempt', async () => {
  await using world = await createWorld()
  await using robot = await startDingTalk({ now: () => world.now(), perMinute: 1, banMs: 600_000 })
  const desk = await world.subscribe({ type: 'dingtalk', url: robot.url })
  const ids = await world.notify(desk, ['court-1'])
  const sender = await world.sender()
  await world.ended(ids)
  const [late] = await world.notify(desk, ['court-2'])
  await world.until('it is banned', () => robot.refusals.length === 1)
  await world.idle()
  assert.equal((await world.record(late!)).status, 'pending')
  world.advance(300_000)
  const [other] = await world.notify(desk, ['court-3'])
  await world.idle()
  assert.equal(robot.requests, 2, 'no request before the ban is over')
  world.advance(300_001)
  await robot.waitFor(2)
  await world.idle()
  world.advance(601_000)
  const records = await world.ended([late!, other!])
  assert.deepEqual(
    records.map(({ status, attempt }) => [status, attempt]),
    [
      ['sent', 1],
      ['sent', 1],
    ],
  )
  assert.ok(sender.counts().dingtalk!.penalties >= 1)
})

test('a sender obeys Retry-After', async () => {
  await using world = await createWorld()
  await using robot = await startSlack({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'slack', url: robot.url })
  let isFirst = true
  await world.sender(
    {},
    {
      async send(request, real) {
        if (!isFirst) return real(request)
        isFirst = false
        return { status: 429, headers: { 'retry-after': '120' }, body: 'rate_limited' }
      },
    },
  )
  const [id] = await world.notify(desk, ['court-1'])
  await world.idle()
  assert.equal((await world.record(id!)).status, 'pending')
  world.advance(115_000)
  const [other] = await world.notify(desk, ['court-2'])
  await world.idle()
  assert.equal(robot.requests, 0)
  world.advance(6_000)
  const records = await world.ended([id!, other!])
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
})

test('a subscription with a window gets one message at the end of it', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe(
    { type: 'webhook', url: robot.url, secret: robot.secret },
    { digestMs: 600_000, template: '{venueId} is {to}' },
  )
  // At the start of a window, so that all of them are made in it.
  world.advance(600_000 - (world.now() % 600_000) + 1_000)
  await world.sender()
  const ids = [...(await world.notify(desk, venues(3))), ...(await world.notify(desk, venues(2, 3)))]
  await world.until('all wait for the end', async () => {
    const records = await Promise.all(ids.map((id) => world.record(id)))
    return records.every(({ dueAt, createdAt }) => dueAt - createdAt > 500_000)
  })
  await world.idle()
  assert.equal(robot.requests, 0)
  world.advance(600_000)
  const records = await world.ended(ids)
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
  assert.equal(robot.messages.length, 1)
  const { changes } = robot.messages[0]!.body.data
  assert.deepEqual(
    changes.map(({ line }: { line: string }) => line),
    venues(5).map((venue) => `${venue} is B`),
  )
})

test('a sender retries the notifications of a refused digest one by one', async () => {
  await using world = await createWorld()
  await using robot = await startDingTalk({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'dingtalk', url: robot.url })
  const ids = await world.notify(desk, venues(24))
  await world.sender(
    {},
    {
      async send(request, real) {
        const isBad = request.body.includes('court-23') || request.body.includes('court\\\\-23')
        return isBad
          ? { status: 200, headers: {}, body: '{"errcode":430104,"errmsg":"unfit"}' }
          : real(request)
      },
    },
  )
  await world.until('nineteen are notified', () => robot.messages.length === 19)
  await world.idle()
  assert.equal((await world.record(ids[22]!)).attempt, 1, 'it was in the digest')
  world.advance(61_000)
  const records = await world.ended(ids)
  assert.deepEqual(
    records.filter(({ status }) => status !== 'sent').map(({ id, status }) => [id, status]),
    [[ids[22], 'dead']],
  )
})
