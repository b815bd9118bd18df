import assert from 'node:assert/strict'
import { test } from 'vitest'
import { endTopic, type LocksBell, lineTopic, requesterTopic } from './lock-topics.ts'
import { createLineBell, lineRingMs } from './wait-queue-notifier.ts'

const key = { operation: 'pull', resource: 'app:1.2' }
const line = lineTopic(key)

/** Notes what is rung, and wakes whoever awaits the next. */
function createNotes(): LocksBell & { readonly rung: string[]; next(): Promise<void> } {
  const rung: string[] = []
  let wake: () => void = () => undefined
  return {
    rung,
    ring(topic) {
      rung.push(topic)
      wake()
    },
    listen: () => () => undefined,
    next: () =>
      new Promise((resolve) => {
        wake = resolve
      }),
  }
}

test('whoever waits is rung at once, and a line once for all that happened in a moment', async () => {
  const notes = createNotes()
  const bell = createLineBell(notes)
  const who = requesterTopic(key, { node: 'a', requestId: 'r' })
  const rungAt = performance.now()
  for (let change = 0; change < 5; change++) bell.ring(line)
  bell.ring(who)
  bell.ring(endTopic(key))
  assert.deepEqual(notes.rung, [who, endTopic(key)])
  // Its own timer keeps no process alive; this one stands for whatever else does.
  const alive = setTimeout(() => undefined, 5_000)
  await notes.next()
  clearTimeout(alive)
  assert.deepEqual(notes.rung.slice(2), [line])
  assert.ok(performance.now() - rungAt >= lineRingMs - 2)
  bell.ring(line)
  await notes.next()
  assert.deepEqual(notes.rung.slice(2), [line, line])
})

test('what is left is rung when the bell is closed, and a store that is closed by then is no error', () => {
  const notes = createNotes()
  const bell = createLineBell(notes)
  bell.ring(line)
  bell.close()
  bell.close()
  assert.deepEqual(notes.rung, [line])

  const broken = createLineBell({
    ring() {
      throw new Error('closed')
    },
    listen: () => () => undefined,
  })
  broken.ring(line)
  broken.close()
})
