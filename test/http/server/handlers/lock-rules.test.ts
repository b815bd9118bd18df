import assert from 'node:assert/strict'
import { open, type RemoteBox } from 'signalbox'
import type { LocksOptions } from 'signalbox/locks'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'

/** The server's lock options hold for all its clients, unless a request overrides them. */

async function serving(locks: LocksOptions): Promise<{ readonly url: string } & AsyncDisposable> {
  const box = await open('memory:', { locks })
  const server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  return {
    url,
    async [Symbol.asyncDispose]() {
      await server.close()
      await box.close()
    },
  }
}

async function acquire(url: string, body: object): Promise<{ status: number; body: { status: string } }> {
  const response = await fetch(`${url}/v1/locks/acquire`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as { status: string } }
}

const pull = { operation: 'pull', resource: 'app:1.2' }

test('with multi-node mode off a busy lock is refused, in every namespace and by every method', async () => {
  await using server = await serving({ multiNode: false })
  assert.equal((await acquire(server.url, { ...pull, node: 'a' })).status, 200)
  const second = await acquire(server.url, { ...pull, node: 'b' })
  assert.deepEqual([second.status, second.body.status], [409, 'refused'])

  await using remote: RemoteBox = await open(server.url as 'http://x')
  assert.equal((await remote.locks.acquire({ ...pull, node: 'c' })).status, 'refused')
  const refused = { code: 'conflict', details: { status: 'refused' } }
  const isRefused = (error: { code: string; details: { status?: unknown } }) => {
    assert.deepEqual({ code: error.code, details: { status: error.details.status } }, refused)
    return true
  }
  await assert.rejects(remote.locks.hold('pull', 'app:1.2', { node: 'd' }), isRefused)
  const flight = { node: 'e', check: () => undefined, run: () => 'done' }
  await assert.rejects(remote.locks.singleFlight('pull', 'app:1.2', flight), isRefused)
  assert.equal((await remote.locks.inspect(pull)).waiterCount, 0, 'the wait queue is empty')

  const waiting = await acquire(server.url, { ...pull, node: 'f', wait: true })
  assert.deepEqual([waiting.status, waiting.body.status], [202, 'queued'], 'who says so waits')
})

test('a remote box takes the server’s default, also without options', async () => {
  await using server = await serving({})
  await using remote: RemoteBox = await open(server.url as 'http://x')
  await remote.locks.acquire({ ...pull, node: 'a' })
  assert.equal((await remote.locks.acquire({ ...pull, node: 'b' })).status, 'queued')
})

test('excluding operations exclude each other over the wire, and a stream reports the hand-over', async () => {
  await using server = await serving({ conflicts: [['pull', 'delete']] })
  await using remote: RemoteBox = await open(server.url as 'http://x')
  const held = await remote.locks.hold('pull', 'app:1.2', { node: 'a' })
  const busy = await acquire(server.url, { ...pull, operation: 'delete', node: 'b', wait: false })
  assert.deepEqual([busy.status, busy.body.status], [409, 'refused'])
  const deleting = remote.locks.hold('delete', 'app:1.2', { node: 'b' })
  const queue = { operation: 'delete', resource: 'app:1.2' }
  while ((await remote.locks.inspect(queue)).waiterCount === 0)
    await new Promise((again) => setTimeout(again, 5))
  const began = performance.now()
  await held.release()
  await using other = await deleting
  assert.ok(other.token > held.token)
  assert.ok(performance.now() - began < 1_500, 'it was told, and did not find out by asking')
})

test('requests that wait for each other over the wire are a deadlock: one gives way with the reason', async () => {
  await using server = await serving({})
  await using one: RemoteBox = await open(server.url as 'http://x')
  await using other: RemoteBox = await open(server.url as 'http://x')
  const a = await one.locks.hold('deploy', 'eu-1', { node: 'a' })
  const b = await other.locks.hold('deploy', 'eu-2', { node: 'b' })
  const yielding = (inner: Promise<unknown>, outer: typeof a) =>
    inner.catch(async (error: unknown) => {
      await outer.release({ outcome: 'failure' })
      throw error
    })
  const outcomes = await Promise.allSettled([
    yielding(a.hold('deploy', 'eu-2'), a),
    yielding(b.hold('deploy', 'eu-1'), b),
  ])
  assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  for (const outcome of outcomes)
    if (outcome.status === 'rejected')
      assert.deepEqual([outcome.reason.code, outcome.reason.details], ['conflict', { reason: 'deadlock' }])
})

test('invalid options of locks are refused before anything is opened', async () => {
  const bad: readonly unknown[] = [
    { multiNode: 'no' },
    { conflicts: 'pull+delete' },
    { conflicts: [['pull']] },
    { conflicts: [['pull', 'pull']] },
    { conflicts: [['pull', '']] },
    { conflicts: Array.from({ length: 65 }, (_, at) => [`a${at}`, `b${at}`]) },
    { unknown: 1 },
  ]
  for (const locks of bad)
    await assert.rejects(open('memory:', { locks: locks as LocksOptions }), { code: 'invalid_argument' })
})
