import assert from 'node:assert/strict'
import { test } from 'vitest'
import { open } from '../../../src/index.ts'
import type { LockEvent } from '../../../src/locks/index.ts'

const queue = { operation: 'pull', resource: 'app:1.2' }

test('closing the box ends all watches, of waiters and of observers', async () => {
  const box = await open('memory:')
  await box.locks.acquire({ ...queue, node: 'a' })
  await box.locks.acquire({ ...queue, node: 'b' })
  const waits = firstThenRest(box.locks.watch({ ...queue, node: 'b' }))
  const looksOn = firstThenRest(box.locks.watch(queue))
  assert.deepEqual([(await waits.first).type, (await looksOn.first).type], ['queued', 'reset'])
  await box.close()
  await Promise.all([waits.over, looksOn.over])
})

test('a watch ends with its signal, and other watches continue', async () => {
  await using box = await open('memory:')
  const { token } = (await box.locks.acquire({ ...queue, node: 'a' })) as { token: number }
  await box.locks.acquire({ ...queue, node: 'b' })
  const leaving = new AbortController()
  const left = firstThenRest(box.locks.watch({ ...queue, node: 'b', signal: leaving.signal }))
  const stays = firstThenRest(box.locks.watch({ ...queue, node: 'b' }))
  await Promise.all([left.first, stays.first])
  leaving.abort()
  await left.over
  await box.locks.release({ ...queue, node: 'a', token, outcome: 'success' })
  assert.equal((await stays.over).at(-1)?.type, 'completed')
})

function firstThenRest(events: AsyncIterable<LockEvent>) {
  const first = Promise.withResolvers<LockEvent>()
  const over = (async () => {
    const seen: LockEvent[] = []
    for await (const event of events) {
      seen.push(event)
      first.resolve(event)
    }
    return seen
  })()
  return { first: first.promise, over }
}
