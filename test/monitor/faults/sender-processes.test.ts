import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'vitest'
import type { SenderOptions } from '../../../src/monitor/delivery/sender.ts'
import type { SendingCounts } from '../../../src/monitor/delivery/sending-outcome.ts'
import { openSqlite } from '../../../src/storage/sqlite/index.ts'
import { startFeishu, startReceiver } from '../../support/robots/index.ts'
import { createWorld, type World } from '../sending-world.ts'

const script = new URL('../sender-process.ts', import.meta.url)

interface Fleet extends AsyncDisposable {
  readonly world: World
  start(options: SenderOptions): Promise<ChildProcess>
}

/** One SQLite file, and processes that send from it. */
async function createFleet(): Promise<Fleet> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-senders-'))
  const url = `sqlite:${join(folder, 'store.db')}`
  const children = new Set<ChildProcess>()
  const world = await createWorld({
    async open() {
      const backend = await openSqlite(url, { namespace: 'default', migrate: true })
      await backend.migrator.up()
      return backend
    },
  })
  return {
    world,
    async start(options) {
      const child = fork(script, [url, JSON.stringify(options)], { execArgv: ['--conditions=source'] })
      children.add(child)
      await once(child, 'message')
      return child
    },
    async [Symbol.asyncDispose]() {
      for (const child of children) child.kill('SIGKILL')
      await world[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function stop(child: ChildProcess): Promise<Readonly<Record<string, SendingCounts>>> {
  child.send('stop')
  const [counts] = await once(child, 'message')
  return counts as Record<string, SendingCounts>
}

test('two processes together respect the rate limit of one robot', async () => {
  await using fleet = await createFleet()
  const { world } = fleet
  await using robot = await startFeishu()
  const desk = await world.subscribe({ type: 'feishu', url: robot.url })
  const children = await Promise.all([1, 2].map(() => fleet.start({ pollMs: 20 })))
  const ids: string[] = []
  for (let wave = 0; wave < 25; wave++) {
    const names = Array.from({ length: 3 }, (_, index) => `court-${wave}-${index}.`)
    ids.push(...(await world.notify(desk, names)))
    await world.until(
      'some time passes',
      (
        (at) => () =>
          performance.now() - at > 60
      )(performance.now()),
    )
  }
  const records = await world.ended(ids, 15_000)
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
  assert.deepEqual(robot.refusals, [])
  const counts = await Promise.all(children.map(stop))
  const sent = counts.map((count) => count.feishu?.sent ?? 0)
  assert.equal(sent[0]! + sent[1]!, 75)
  assert.ok(robot.messages.length < 75, 'some shared a message')
}, 40_000)

test('a process that is killed loses nothing, and every repeated notification was counted', async () => {
  await using fleet = await createFleet()
  const { world } = fleet
  await using robot = await startReceiver({ delayMs: 5 })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const options = { pollMs: 20, leaseMs: 1_500, sendMs: 400, retryMs: 50 }
  const ids: string[] = []
  for (let wave = 0; wave < 10; wave++) {
    const names = Array.from({ length: 10 }, (_, index) => `court ${index}`)
    ids.push(...(await world.notify(desk, names, { from: `${wave}`, to: `${wave + 1}` })))
  }
  for (let killed = 0; killed < 2; killed++) {
    const child = await fleet.start(options)
    await robot.waitFor(robot.messages.length + 10)
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const last = await fleet.start(options)
  const records = await world.ended(ids, 20_000)
  assert.ok(records.every(({ status }) => status === 'sent'))
  assert.equal(robot.messages.length, 100)
  const { webhook } = await stop(last)
  // The second one counted what the first left, and took that with it.
  const repeats = records.filter(({ possibleRepeat }) => possibleRepeat)
  // Once for each; more often where a reply was late as well.
  const triedAgain = repeats.reduce((sum, { attempt }) => sum + attempt - 1, 0)
  assert.ok(webhook!.ambiguous <= triedAgain, `${webhook!.ambiguous} counted, ${triedAgain} tried again`)
  for (const id of robot.repeats) assert.ok(records.find((record) => record.id === id)!.possibleRepeat)
  const seen = new Map<string, number[]>()
  for (const { body } of robot.messages) {
    for (const { venueId, to } of body.data.changes) seen.set(venueId, [...(seen.get(venueId) ?? []), to])
  }
  for (const [venue, states] of seen) assert.deepEqual(states, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], venue)
}, 60_000)
