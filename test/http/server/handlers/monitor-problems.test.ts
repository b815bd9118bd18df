/** Dead notifications, and channels that do not open: the places where an operator sees them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'signalbox'
import { createLog } from 'signalbox/server'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { startReceiver } from '../../../support/robots/index.ts'
import { type Stage, serving } from '../stage.ts'

const allowPrivate = ['127.0.0.0/8']
const slot = { source: 'courts', timeSlot: '18:00' }
let tasks = 0

function createLogText() {
  let text = ''
  const destination = {
    write(more: string, taken: () => void) {
      text += more
      taken()
    },
  }
  const log = createLog({ destination, level: 'warn' })
  const lines = (event: string) =>
    text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .filter((line) => line.event === event)
  return { log, lines }
}

async function report({ ask }: Stage, venueId: string, state: unknown): Promise<void> {
  const body = { taskId: `t-${++tasks}`, ...slot, observedAt: Date.now(), venues: [{ venueId, state }] }
  assert.equal((await ask('POST', '/v1/monitor/report', { body })).body.status, 'processed')
}

interface Problem {
  readonly kind: string
  readonly subject: string
  readonly count: number
  readonly since: number | null
  readonly detail: string | null
}

/** The overview's problems of the monitor, once they are so. */
async function problemsOnce(
  { ask }: Stage,
  isSo: (problems: readonly Problem[]) => boolean,
): Promise<readonly Problem[]> {
  const look = async () => {
    for (;;) {
      const { body } = await ask('GET', '/v1/overview')
      const problems = (body.problems as Problem[]).filter(({ kind }) => /notifications|channel/.test(kind))
      if (isSo(problems)) return problems
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  return within(20_000, 'the problems', look())
}

test('the overview, the log and the metrics show dead notifications by subscription, until their replay', async () => {
  await using robot = await startReceiver()
  robot.misbehave('500')
  const { log, lines } = createLogText()
  await using stage = await serving({ log }, 'memory:', { allowPrivate })
  const channel = { type: 'webhook' as const, url: robot.url, secret: robot.secret }
  const body = { name: 'front desk', notifyNew: true, maxRetries: 0, channel }
  await stage.ask('POST', '/v1/monitor/subscriptions', { body })
  await report(stage, 'north', 1)
  await report(stage, 'south', 1)
  const [problem, ...others] = await problemsOnce(stage, ([first]) => first?.count === 2)
  assert.deepEqual(others, [])
  assert.deepEqual([problem!.kind, problem!.subject], ['dead_notifications', 'front desk'])
  assert.ok(Math.abs(Date.now() - problem!.since!) < 60_000)

  const said = lines('notification.dead')
  assert.deepEqual(said.map(({ venueId }) => venueId).sort(), ['north', 'south'])
  for (const line of said) {
    assert.deepEqual(
      [line.level, line.namespace, line.subscription, line.channel, line.source, line.timeSlot],
      ['warn', 'default', 'front desk', 'webhook', 'courts', '18:00'],
    )
    assert.match(line.reason, /500/)
    assert.ok(!JSON.stringify(line).includes(robot.secret))
  }
  const metrics = async () => (await (await fetch(`${stage.url}/metrics`)).text()).split('\n')
  const dead = 'signalbox_notifications_dead{namespace="default",channel="webhook",subscription="front desk"}'
  assert.ok((await metrics()).includes(`${dead} 2`))

  robot.misbehave(null)
  for (const { notificationId } of said)
    await stage.ask('POST', `/v1/monitor/notifications/${notificationId}/replay`)
  await robot.waitFor(2)
  await problemsOnce(stage, (problems) => problems.length === 0)
  assert.ok(!(await metrics()).some((line) => line.startsWith(dead)))
})

test('a server without the key names the subscription that waits for it, and sends for all others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-sealed-'))
  try {
    const url = `sqlite:${join(folder, 'signalbox.db')}`
    const secretKey = randomBytes(32).toString('hex')
    await using robot = await startReceiver()
    const channel = { type: 'webhook' as const, url: robot.url, secret: robot.secret }
    {
      await using box = await open(url, { allowPrivate, secretKey })
      await box.monitor.subscribe({ name: 'sealed desk', notifyNew: true, channel })
    }
    const { log, lines } = createLogText()
    {
      await using stage = await serving({ log }, url, { allowPrivate })
      const other = { ...channel, url: `${robot.url}?other` }
      const body = { name: 'plain desk', notifyNew: true, channel: other }
      await stage.ask('POST', '/v1/monitor/subscriptions', { body })
      await report(stage, 'north', 1)
      await robot.waitFor(1)
      const [problem] = await problemsOnce(stage, ([first]) => first !== undefined)
      assert.deepEqual([problem!.kind, problem!.subject], ['channel_sealed', 'sealed desk'])
      assert.match(problem!.detail!, /SIGNALBOX_SECRET_KEY/)
      await within(
        10_000,
        'the log line',
        (async () => {
          while (lines('notification.sealed').length === 0)
            await new Promise((resolve) => setTimeout(resolve, 20))
        })(),
      )
      const [line] = lines('notification.sealed')
      assert.deepEqual([line.subscription, line.level], ['sealed desk', 'warn'])
      const metrics = await (await fetch(`${stage.url}/metrics`)).text()
      assert.match(metrics, /^signalbox_subscriptions_unreadable\{namespace="default"\} 1$/m)
      const { body: list } = await stage.ask('GET', '/v1/monitor/subscriptions')
      assert.deepEqual(
        list.items.map(({ channel: { secrets } }: { channel: { secrets: string } }) => secrets),
        ['unreadable', 'plain'],
      )
    }
    await using stage = await serving({}, url, { allowPrivate, secretKey })
    await robot.waitFor(2, 25_000)
    await problemsOnce(stage, (problems) => problems.length === 0)
  } finally {
    await rm(folder, { recursive: true })
  }
}, 60_000)
