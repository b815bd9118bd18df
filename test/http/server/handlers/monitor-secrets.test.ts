import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createLog, createServer } from 'signalbox/server'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { startReceiver } from '../../../support/robots/index.ts'

/** Secrets of channels are planted in every field that may hold one, and then looked for in all that the server says. */
const canary = 'Canary9Canary9Canary9Canary9'

test("no reply, log line, metric or error contains a channel's secret, on success, refusal or failure", async () => {
  await using robot = await startReceiver({ secret: `whsecret-${canary}` })
  robot.misbehave('500')
  await using box = await open('memory:', { allowPrivate: ['127.0.0.0/8'] })
  let said = ''
  const destination = {
    write(text: string, taken: () => void) {
      said += text
      taken()
    },
  }
  const log = createLog({ destination, level: 'debug' })
  const server = createServer({ box, port: 0, log })
  const { url } = await server.listen()
  const ask = async (method: string, path: string, body?: unknown) => {
    const init = body === undefined ? {} : { body: JSON.stringify(body) }
    const reply = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...init,
    })
    const text = await reply.text()
    said += `${text}\n${JSON.stringify([...reply.headers])}\n`
    return { status: reply.status, body: path === '/metrics' ? text : JSON.parse(text) }
  }
  try {
    const good = {
      type: 'webhook',
      url: `${robot.url}?key=${canary}`,
      secret: robot.secret,
      headers: { 'x-api-key': canary },
    }
    const subscription = { name: 'people', notifyNew: true, maxRetries: 0 }
    const made = await ask('POST', '/v1/monitor/subscriptions', { ...subscription, channel: good })
    assert.equal(made.status, 201)
    const wrong: readonly object[] = [
      { ...good, url: `https://10.0.0.1/${canary}` },
      { ...good, url: `https://u:${canary}@hooks.example.com/` },
      { ...good, url: canary },
      { ...good, secret: `ü${canary}` },
      { ...good, secret: [canary] },
      { ...good, type: canary },
      { ...good, headers: { 'webhook-id': canary } },
      { ...good, headers: { 'x-key': `\n${canary}` } },
      { type: 'dingtalk', url: `http://127.0.0.1:9/robot?token=${canary}` },
      { type: 'slack', url: `http://127.0.0.1:9/services/${canary}`, secret: canary },
      { type: 'webhook', robots: [{ url: good.url, secret: canary, extra: canary }] },
      { type: 7, url: canary },
    ]
    for (const channel of wrong) {
      const refused = await ask('POST', '/v1/monitor/subscriptions', { ...subscription, channel })
      assert.equal(refused.status, 400, JSON.stringify(refused.body))
      await ask('POST', '/v1/monitor/test', { channel })
    }
    assert.equal((await ask('POST', '/v1/monitor/test', { channel: good })).body.ok, false)
    const venues = [{ venueId: 'a', state: 1 }]
    const report = { taskId: 't', source: 's', timeSlot: 'x', observedAt: 1, venues }
    await ask('POST', '/v1/monitor/report', report)
    const isDead = async () => {
      while ((await ask('GET', '/v1/monitor/notifications?status=dead')).body.items.length === 0)
        await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await within(15_000, 'the failure', isDead())
    for (const path of ['subscriptions', 'explain?source=s&timeSlot=x&venueId=a', 'decisions', 'subjects'])
      await ask('GET', `/v1/monitor/${path}`)
    for (const path of ['/v1/jobs', '/v1/jobs?queue=signalbox.notify', '/v1/queues', '/v1/once', '/v1/audit'])
      await ask('GET', path)
    await ask('GET', '/metrics')
    await ask('DELETE', `/v1/monitor/subscriptions/${made.body.id}`)
  } finally {
    await server.close()
  }
  await log.flush()
  assert.match(said, /subscribe/, 'there is something to look through')
  for (const trace of [canary, canary.slice(0, 14), Buffer.from(canary).toString('base64').slice(0, 30)])
    assert.ok(
      !said.includes(trace),
      `nothing says ${trace}: …${said.slice(Math.max(0, said.indexOf(trace) - 300), said.indexOf(trace) + 50)}`,
    )
})
