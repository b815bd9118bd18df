import assert from 'node:assert/strict'
import { test } from 'vitest'
import { QueueTurns } from './queue-turns.ts'

test('claims from one queue follow each other, and those from another do not wait for them', async () => {
  const turns = new QueueTurns()
  const order: string[] = []
  const first = await turns.enter('mail')
  const second = turns.enter('mail').then((leave) => {
    order.push('second')
    return leave
  })
  const other = await turns.enter('other')
  order.push('other')
  other!()
  order.push('first leaves')
  first!()
  const leave = await second
  assert.deepEqual(order, ['other', 'first leaves', 'second'])
  leave!()
  assert.ok(await turns.enter('mail'))
})

test('a claim whose turn does not come in time goes without, and holds up nobody behind it', async () => {
  const turns = new QueueTurns()
  const first = await turns.enter('mail')
  assert.equal(await turns.enter('mail'), undefined)
  const third = turns.enter('mail')
  first!()
  assert.ok(await third)
})

test('each kind of queues is first every other time, once both kinds were seen', () => {
  const turns = new QueueTurns()
  const both = ['mail', 'plain']
  const firsts = () => [1, 2, 3, 4].map(() => turns.isLimitedFirst(both))
  assert.deepEqual(firsts(), [false, false, false, false])
  turns.saw(both, ['mail'])
  assert.deepEqual(firsts(), [true, false, true, false])
  assert.equal(turns.isLimitedFirst(['plain', 'more']), false)
  // Where there are no others, there is nothing to look for in them.
  assert.deepEqual([turns.isLimitedFirst(['mail']), turns.isLimitedFirst(['mail'])], [true, true])
  turns.saw(both, [])
  assert.deepEqual(firsts(), [false, false, false, false])
})
