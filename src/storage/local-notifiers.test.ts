import assert from 'node:assert/strict'
import { test } from 'vitest'
import { LocalNotifiers } from './local-notifiers.ts'

const aTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('a wake-up reaches only its own namespace, through any notifier of it', async () => {
  const notifiers = new LocalNotifiers()
  const heard: string[] = []
  notifiers.within('a').listen(['news'], () => heard.push('a'))
  notifiers.within('b').listen(['news', 'a","news'], () => heard.push('b'))
  notifiers.within('a').wake('news')
  await aTurn()
  assert.deepEqual(heard, ['a'])
})

test('wake-ups right after each other wake a listener once', async () => {
  const notifier = new LocalNotifiers().within('a')
  let heard = 0
  notifier.listen(['x', 'y'], () => heard++)
  for (let i = 0; i < 100; i++) {
    notifier.wake('x')
    notifier.wake('y')
  }
  await aTurn()
  assert.equal(heard, 1)
})

test('a stopped listener gets no wake-up, not even an earlier one', async () => {
  const notifier = new LocalNotifiers().within('a')
  let heard = 0
  const stop = notifier.listen(['x'], () => heard++)
  notifier.wake('x')
  stop()
  await aTurn()
  assert.equal(heard, 0)
})
