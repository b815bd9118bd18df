import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'vitest'
import { copy } from '../../src/copy/index.ts'
import { createServer } from '../../src/http/server/index.ts'
import { type Box, open } from '../../src/index.ts'
import { within } from '../support/deadline.ts'
import { startReceiver } from '../support/robots/index.ts'
import { hasService } from '../support/services/own.ts'
import { engines, ownDatabase, ownSqlite } from './copy/stage.ts'
import { dumpTables } from './table-dump.ts'

const allowPrivate = ['127.0.0.0/8']
const newKey = () => randomBytes(32).toString('base64')
const place = { source: 'gym', timeSlot: 'monday' }
const canary = 'Canary9Canary9Canary9'
const traces = [canary, Buffer.from(canary).toString('base64').slice(0, 24)]

async function reportOne(box: Box, venueId: string, state: unknown): Promise<void> {
  const venues = [{ venueId, state }]
  const observedAt = Date.now()
  await box.monitor.report({ taskId: `${venueId} ${observedAt}`, ...place, observedAt, venues })
}

async function untilStatus(box: Box, venueId: string, status: string): Promise<string> {
  const look = async () => {
    for (;;) {
      const { items } = await box.monitor.notifications({ ...place, venueId })
      if (items[0]?.status === status) return items[0].id
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  return within(20_000, `a notification that is ${status}`, look())
}

/** The tables with a trace of a secret. */
async function leaksOf(url: string): Promise<readonly string[]> {
  const dump = await dumpTables(url)
  assert.ok(
    [...dump.values()].some((rows) => rows.includes('signed desk')),
    'the subscription is in the dump',
  )
  return [...dump].flatMap(([table, rows]) => (traces.some((trace) => rows.includes(trace)) ? [table] : []))
}

/** Subscribes with secrets in every field that may hold one; sends, fails, and replays. */
async function useChannels(box: Box): Promise<void> {
  await using robot = await startReceiver({ secret: `${canary}-secret` })
  const webhook = {
    ...{ type: 'webhook' as const, url: `${robot.url}?key=${canary}`, secret: robot.secret },
    headers: { authorization: `Bearer ${canary}` },
  }
  const dingtalk = {
    type: 'dingtalk' as const,
    robots: [{ url: `${robot.url}/robot?access_token=${canary}`, secret: canary }],
    format: 'text' as const,
  }
  const slack = { type: 'slack' as const, url: `${robot.url}/services/${canary}` }
  // By way of a server, which also keeps keys of requests and an audit.
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  const options = { notifyNew: true, maxRetries: 0 }
  const subscribe = async (body: object) => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': randomBytes(8).toString('hex') }
    const request = { method: 'POST', headers, body: JSON.stringify({ ...options, ...body }) }
    const ask = async () => (await fetch(`${url}/v1/monitor/subscriptions`, request)).status
    let status = await ask()
    // A store that answers slowly is no failure of this test: the key makes the request safe to repeat.
    for (let repeats = 0; status === 503 && repeats < 5; repeats++) status = await ask()
    assert.equal(status, 201)
  }
  await subscribe({ name: 'signed desk', channel: webhook })
  for (const channel of [dingtalk, slack])
    await subscribe({ name: channel.type, match: { venueId: 'chat' }, channel })
  await reportOne(box, 'a', 1)
  await untilStatus(box, 'a', 'sent')
  robot.misbehave('500')
  await reportOne(box, 'b', 1)
  const id = await untilStatus(box, 'b', 'dead')
  await reportOne(box, 'chat', 1)
  await untilStatus(box, 'chat', 'dead')
  await box.monitor.replay(id)
  await untilStatus(box, 'b', 'dead')
}

for (const engine of engines) {
  const isThere = engine === 'sqlite' || hasService(engine)

  test.runIf(isThere)(
    `with a key, no table of ${engine} shows a channel's secret after sending, failing and replaying`,
    { concurrent: true },
    async () => {
      await using database = await ownDatabase(engine)
      {
        await using box = await open(database.url, { migrate: true, allowPrivate, secretKey: newKey() })
        await useChannels(box)
        for (const { channel } of await box.monitor.subscriptions()) assert.equal(channel.secrets, 'sealed')
      }
      assert.deepEqual(await leaksOf(database.url), [])
    },
  )

  test.runIf(isThere)(
    `without a key the secrets in ${engine} are plain text, and reseal encrypts them all`,
    { concurrent: true },
    async () => {
      await using database = await ownDatabase(engine)
      {
        await using box = await open(database.url, { migrate: true, allowPrivate })
        await useChannels(box)
        const [first] = await box.monitor.subscriptions()
        assert.equal(first!.channel.secrets, 'plain')
      }
      const leaks = await leaksOf(database.url)
      assert.ok(
        leaks.some((table) => table.endsWith('monitor_subscription')),
        'the dump would show it',
      )
      await using box = await open(database.url, { allowPrivate, secretKey: newKey() })
      assert.deepEqual(await box.monitor.reseal(), { resealed: 3, current: 0, unreadable: [] })
      assert.deepEqual(await box.monitor.reseal(), { resealed: 0, current: 3, unreadable: [] })
      const dump = await dumpTables(database.url)
      const [rows] = [...dump].flatMap(([table, text]) => (/monitor_subscription$/.test(table) ? [text] : []))
      for (const trace of traces) assert.ok(!rows!.includes(trace), trace)
    },
  )

  test.runIf(isThere)(
    `a copy from ${engine} carries sealed channels, which open with the same key`,
    { concurrent: true },
    async () => {
      await using from = await ownDatabase(engine)
      await using to = await ownSqlite()
      const secretKey = newKey()
      await using robot = await startReceiver({ secret: `${canary}-secret` })
      {
        await using box = await open(from.url, { migrate: true, allowPrivate, secretKey })
        const channel = { type: 'webhook' as const, url: robot.url, secret: robot.secret }
        await box.monitor.subscribe({ name: 'signed desk', notifyNew: true, channel })
      }
      await copy(from.url, to.url)
      assert.deepEqual(await leaksOf(to.url), [])
      await using box = await open(to.url, { allowPrivate, secretKey })
      await using sender = box.monitor.sender({ pollMs: 20 })
      await sender.start()
      await reportOne(box, 'a', 1)
      await untilStatus(box, 'a', 'sent')
      assert.equal(robot.messages.length, 1)
    },
  )
}
