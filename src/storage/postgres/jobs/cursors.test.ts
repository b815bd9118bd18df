import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedRecord } from '../../../jobs/index.ts'
import { start } from './cursor.ts'
import { Cursors } from './cursors.ts'

const slow = { tookMs: 1_000, isFull: false }
const taken = (queue: string) => [{ queue, id: 'b', priority: 0, runAt: 5 } as ClaimedRecord]

test('a slow claim is remembered for its queue and kinds alone', () => {
  const cursors = new Cursors()
  cursors.took(['mail', 'post'], null, [start, start], taken('mail'), slow)
  const [mail, post] = cursors.from(['mail', 'post'], null)
  assert.deepEqual(mail, { rank: '0', runAt: '5', id: 'b' })
  assert.equal(post, start)
  assert.deepEqual(cursors.from(['mail'], ['x']), [start])
})

test('what is reset or forgotten begins at the start again', () => {
  const cursors = new Cursors()
  const note = () => cursors.took(['mail'], null, [start], taken('mail'), slow)
  note()
  cursors.reset(['post'], null)
  assert.notEqual(cursors.from(['mail'], null)[0], start)
  cursors.reset(['mail'], null)
  assert.equal(cursors.from(['mail'], null)[0], start)
  note()
  cursors.forget()
  assert.equal(cursors.from(['mail'], null)[0], start)
})
