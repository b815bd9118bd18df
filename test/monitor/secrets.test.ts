/** The secrets of channels in the store: sealed with a key, rotated, and what a process does that lacks the key. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'
import { open } from 'signalbox'
import { test } from 'vitest'
import { createMonitor, type Monitor, SecretKeys, type SendingTrouble } from '../../src/monitor/index.ts'
import type { Backend } from '../../src/storage/backend.ts'
import { openMemory } from '../../src/storage/memory/index.ts'
import { readSource } from '../house/sources.ts'
import { within } from '../support/deadline.ts'
import { startReceiver } from '../support/robots/index.ts'

const newKey = () => randomBytes(32).toString('base64')
const place = { source: 'gym', timeSlot: 'monday' }
const slack = { type: 'slack' as const, url: 'https://hooks.slack.com/services/T0/B0/Canary9Canary9' }

function monitorOn(backend: Backend, keys?: string, namespace = 'default'): Monitor {
  const secretKeys = keys === undefined ? undefined : new SecretKeys('secretKey', keys)
  const { monitor: store, guards, jobs, notifier } = backend
  return createMonitor(
    { store, guards, jobs, notifier, namespace, secretKeys },
    { allowPrivate: ['127.0.0.0/8'] },
  )
}

async function storedChannel(backend: Backend, id: string): Promise<string> {
  const { subscriptions } = await backend.monitor.rules()
  return subscriptions.find((one) => one.id === id)!.channel
}

async function report(monitor: Monitor, venueId: string, state: unknown): Promise<void> {
  const venues = [{ venueId, state }]
  await monitor.report({ taskId: `${venueId} ${String(state)}`, ...place, observedAt: Date.now(), venues })
}

test('with a key the store contains no secret of a channel, and the display stays readable', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  await using monitor = monitorOn(backend, newKey())
  const channel = {
    type: 'dingtalk' as const,
    url: 'https://oapi.dingtalk.com/robot/send?access_token=Canary9Canary9',
    secret: 'Canary9Canary9',
    format: 'text' as const,
    keyword: 'gym',
  }
  const { id, channel: shown } = await monitor.subscribe({ name: 'desk', channel })
  assert.equal(shown.secrets, 'sealed')
  const stored = await storedChannel(backend, id)
  assert.doesNotMatch(stored, /Canary9/)
  const { type, format, keyword } = JSON.parse(stored)
  assert.deepEqual(
    { type, format, keyword },
    { type: 'dingtalk' as const, format: 'text' as const, keyword: 'gym' },
  )
})

test('the url and the secret of every channel type are sealed, and the headers of a webhook', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  await using monitor = monitorOn(backend, newKey())
  const secret = 'Canary9Canary9'
  const channels = [
    { type: 'dingtalk' as const, robots: [{ url: `https://a.example.com/?access_token=${secret}`, secret }] },
    { type: 'feishu' as const, url: `https://b.example.com/hook/${secret}`, secret },
    { type: 'wecom' as const, url: `https://c.example.com/?key=${secret}` },
    slack,
    {
      type: 'webhook' as const,
      url: `https://d.example.com/${secret}`,
      secret,
      headers: { 'x-api-key': secret },
    },
  ]
  for (const channel of channels) {
    const { id } = await monitor.subscribe({ name: channel.type, channel })
    assert.doesNotMatch(await storedChannel(backend, id), /Canary9/, channel.type)
  }
})

test('every key opens and the first seals: after a reseal the old key can be removed', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  const [older, newer] = [newKey(), newKey()]
  const states = async (keys: string) => {
    await using monitor = monitorOn(backend, keys)
    return (await monitor.subscriptions()).map(({ channel }) => channel.secrets)
  }
  {
    await using plain = monitorOn(backend)
    await plain.subscribe({ name: 'stored in plain', channel: slack })
    await using sealed = monitorOn(backend, older)
    await sealed.subscribe({ name: 'sealed with the older key', channel: slack })
  }
  assert.deepEqual(await states(older), ['plain', 'sealed'])
  assert.deepEqual(await states(newer), ['plain', 'unreadable'])
  await using rotating = monitorOn(backend, `${newer},${older}`)
  assert.deepEqual(await rotating.reseal(), { resealed: 2, current: 0, unreadable: [] })
  assert.deepEqual(await states(newer), ['sealed', 'sealed'])
  assert.deepEqual(await states(older), ['unreadable', 'unreadable'])
})

test('reseal names the channels it cannot open and seals the rest; without a key it is refused', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  await using other = monitorOn(backend, newKey())
  const lost = await other.subscribe({ name: 'lost', channel: slack })
  await using plain = monitorOn(backend)
  await plain.subscribe({ name: 'stored in plain', channel: slack })
  await assert.rejects(plain.reseal(), { code: 'invalid_argument', message: /SIGNALBOX_SECRET_KEY/ })
  await using monitor = monitorOn(backend, newKey())
  const { resealed, unreadable } = await monitor.reseal()
  assert.equal(resealed, 1)
  assert.deepEqual(
    unreadable.map(({ subscriptionId, code }) => [subscriptionId, code]),
    [[lost.id, 'secret_sealed']],
  )
})

test('a sealed channel opens only in its own subscription and namespace', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  const key = newKey()
  await using monitor = monitorOn(backend, key)
  const one = await monitor.subscribe({ name: 'one', channel: slack })
  const two = await monitor.subscribe({ name: 'two', channel: { ...slack, url: `${slack.url}2` } })
  const [first, second] = [await storedChannel(backend, one.id), await storedChannel(backend, two.id)]
  await backend.monitor.rewriteChannel(two.id, second, first)
  const { unreadable } = await monitor.problems()
  assert.deepEqual(
    unreadable.map(({ subscription, code }) => [subscription, code]),
    [['two', 'seal_broken']],
  )
  await using elsewhere = monitorOn(backend, key, 'elsewhere')
  assert.equal((await elsewhere.problems()).unreadable.length, 2)
})

test('notifications of a sealed channel wait for the key, others proceed, and the key sends them', async () => {
  let ahead = 0
  await using backend = await openMemory({
    ...{ namespace: 'default', migrate: true },
    now: () => Date.now() + ahead,
  })
  const key = newKey()
  await using robot = await startReceiver()
  const channel = { type: 'webhook' as const, url: robot.url, secret: robot.secret }
  await using keyed = monitorOn(backend, key)
  await keyed.subscribe({ name: 'sealed desk', notifyNew: true, maxRetries: 0, channel })
  await using keyless = monitorOn(backend)
  await keyless.subscribe({
    name: 'plain desk',
    notifyNew: true,
    channel: { ...channel, url: `${robot.url}?2` },
  })

  const troubles: SendingTrouble[] = []
  {
    await using sender = keyless.sender({ pollMs: 10, onTrouble: (trouble) => troubles.push(trouble) })
    await sender.start()
    await report(keyless, 'a', 1)
    await robot.waitFor(1)
    await within(
      10_000,
      'the sealed one is looked at',
      (async () => {
        while (troubles.length === 0) await pause(5)
      })(),
    )
  }
  assert.deepEqual(
    troubles.map(({ kind, subscription, venueId }) => [kind, subscription, venueId]),
    [['sealed', 'sealed desk', 'a']],
  )
  assert.match(troubles[0]!.reason, /"sealed desk".*SIGNALBOX_SECRET_KEY/)
  const { items } = await keyless.notifications({ status: 'pending' })
  assert.deepEqual(
    items.map(({ subscription, attempt, error }) => [subscription, attempt, error?.code]),
    [['sealed desk', 0, 'secret_sealed']],
  )
  const { unreadable, plain } = await keyless.problems()
  assert.deepEqual([unreadable.map(({ subscription }) => subscription), plain], [['sealed desk'], 1])

  await using sender = keyed.sender({ pollMs: 10 })
  await sender.start()
  ahead = 10_001
  await robot.waitFor(2)
})

test('a sender with the key finds notifications that a process without the key reported', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  await using robot = await startReceiver()
  const channel = { type: 'webhook' as const, url: robot.url, secret: robot.secret }
  await using keyed = monitorOn(backend, newKey())
  const { id } = await keyed.subscribe({ name: 'desk', notifyNew: true, channel })
  await using keyless = monitorOn(backend)
  const [shown] = await keyless.subscriptions()
  const [known] = await keyed.subscriptions()
  assert.deepEqual(shown!.channel, { ...known!.channel, secrets: 'unreadable' })
  await report(keyless, 'a', 1)
  const [record] = await backend.monitor.notifications({ subscriptionId: id, limit: 1 })
  await report(keyed, 'b', 1)
  const [other] = await backend.monitor.notifications({ subscriptionId: id, limit: 1 })
  assert.equal(record!.channel, other!.channel, 'both wait in one queue, under one limit')
})

test('no error, no printed box and no settings contain a key', async () => {
  const key = newKey()
  await using box = await open('memory:', { secretKey: key })
  for (const shown of [inspect(box, { depth: 20, showHidden: true }), JSON.stringify(box.settings)])
    assert.ok(!shown.includes(key.slice(0, 16)))
  await assert.rejects(open('memory:', { secretKey: `${key},wrong` }), (error) => {
    assert.match(String(error), /open\.secretKey .*key 2 of 2/)
    assert.ok(!inspect(error, { depth: 20 }).includes(key.slice(0, 16)))
    return true
  })
})

test('the page on security names the places with plain secrets, and how to seal them', async () => {
  const page = await readSource('docs/security.md')
  const [, section] = /^## Channel secrets\n(.*?)^## /ms.exec(page) ?? []
  assert.match(section!, /Without a key they are plain text in the database/)
  for (const words of ['SIGNALBOX_SECRET_KEY', 'signalbox monitor reseal'])
    assert.ok(section!.includes(words), words)
})
