import assert from 'node:assert/strict'
import { test } from 'vitest'
import {
  createWaitQueueNotifier,
  endTopic,
  type LocksNotifier,
  queueTopic,
  requesterTopic,
  wakeDelayMs,
} from './lock-topics.ts'

const key = { operation: 'pull', resource: 'app:1.2' }
const queue = queueTopic(key)

/** Records wake-ups, and resolves `next` at the next one. */
function createNotes(): LocksNotifier & { readonly woken: string[]; next(): Promise<void> } {
  const woken: string[] = []
  let wake: () => void = () => undefined
  return {
    woken,
    wake(topic) {
      woken.push(topic)
      wake()
    },
    listen: () => () => undefined,
    next: () =>
      new Promise((resolve) => {
        wake = resolve
      }),
  }
}

test('waiters are woken at once, and watchers once for all changes of a moment', async () => {
  const notes = createNotes()
  const notifier = createWaitQueueNotifier(notes)
  const who = requesterTopic(key, { node: 'a', requestId: 'r' })
  const wokenAt = performance.now()
  for (let change = 0; change < 5; change++) notifier.wake(queue)
  notifier.wake(who)
  notifier.wake(endTopic(key))
  assert.deepEqual(notes.woken, [who, endTopic(key)])
  // Its own timer keeps no process alive; this one stands for whatever else does.
  const alive = setTimeout(() => undefined, 5_000)
  await notes.next()
  clearTimeout(alive)
  assert.deepEqual(notes.woken.slice(2), [queue])
  assert.ok(performance.now() - wokenAt >= wakeDelayMs - 2)
  notifier.wake(queue)
  await notes.next()
  assert.deepEqual(notes.woken.slice(2), [queue, queue])
})

test('closing the notifier wakes the remaining listeners, and a closed store is no error', () => {
  const notes = createNotes()
  const notifier = createWaitQueueNotifier(notes)
  notifier.wake(queue)
  notifier.close()
  notifier.close()
  assert.deepEqual(notes.woken, [queue])

  const broken = createWaitQueueNotifier({
    wake() {
      throw new Error('closed')
    },
    listen: () => () => undefined,
  })
  broken.wake(queue)
  broken.close()
})
