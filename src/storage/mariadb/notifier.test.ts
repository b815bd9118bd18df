import assert from 'node:assert/strict'
import { test } from 'vitest'
import { MariadbBells } from './notifier.ts'

const aTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('a ring is heard in its own namespace alone, through whichever bell of it', async () => {
  const bells = new MariadbBells()
  const heard: string[] = []
  bells.within('a').listen(['news'], () => heard.push('a'))
  bells.within('b').listen(['news', 'a","news'], () => heard.push('b'))
  bells.within('a').ring('news')
  await aTurn()
  assert.deepEqual(heard, ['a'])
})

test('rings that follow each other at once wake a listener once', async () => {
  const bell = new MariadbBells().within('a')
  let heard = 0
  bell.listen(['x', 'y'], () => heard++)
  for (let i = 0; i < 100; i++) {
    bell.ring('x')
    bell.ring('y')
  }
  await aTurn()
  assert.equal(heard, 1)
})

test('whoever stopped listening hears nothing, not even what was rung before', async () => {
  const bell = new MariadbBells().within('a')
  let heard = 0
  const stop = bell.listen(['x'], () => heard++)
  bell.ring('x')
  stop()
  await aTurn()
  assert.equal(heard, 0)
})
