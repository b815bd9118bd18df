import assert from 'node:assert/strict'
import { test } from 'vitest'
import { MariadbNotifiers } from './notifier.ts'

const aTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('a wake-up is heard in its own namespace alone, through whichever notifier of it', async () => {
  const notifiers = new MariadbNotifiers()
  const heard: string[] = []
  notifiers.within('a').listen(['news'], () => heard.push('a'))
  notifiers.within('b').listen(['news', 'a","news'], () => heard.push('b'))
  notifiers.within('a').wake('news')
  await aTurn()
  assert.deepEqual(heard, ['a'])
})

test('wake-ups that follow each other at once wake a listener once', async () => {
  const notifier = new MariadbNotifiers().within('a')
  let heard = 0
  notifier.listen(['x', 'y'], () => heard++)
  for (let i = 0; i < 100; i++) {
    notifier.wake('x')
    notifier.wake('y')
  }
  await aTurn()
  assert.equal(heard, 1)
})

test('a listener that stopped hears nothing, not even an earlier wake-up', async () => {
  const notifier = new MariadbNotifiers().within('a')
  let heard = 0
  const stop = notifier.listen(['x'], () => heard++)
  notifier.wake('x')
  stop()
  await aTurn()
  assert.equal(heard, 0)
})
