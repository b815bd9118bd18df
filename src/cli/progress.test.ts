import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createProgress, lineOf } from './progress.ts'

function stage(isTTY: boolean, columns = 80) {
  const written: string[] = []
  const screen = { isTTY, columns, write: (text: string) => written.push(text) }
  let now = 1_000
  const progress = createProgress(screen, () => now)
  return { written, progress, pass: (ms: number) => (now += ms) }
}

test('a bar says what is done, how much of it, and when it may end', () => {
  assert.equal(lineOf('retry', 0, 400, 0), 'retry  [--------------------]  0 %  0 of 400')
  assert.equal(lineOf('retry', 100, 400, 2_000), 'retry  [#####---------------]  25 %  100 of 400  6 s left')
  assert.equal(lineOf('retry', 1_200, 1_200, 9_000), 'retry  [####################]  100 %  1,200 of 1,200')
  // More came meanwhile than were counted first.
  assert.equal(lineOf('retry', 9, 8, 5_000), 'retry  [####################]  100 %  9 of 8')
  assert.equal(lineOf('retry', 1_234, undefined, 5_000), 'retry  1,234')
})

test('a terminal sees it change ten times a second at most, and nothing is left of it', () => {
  const { written, progress, pass } = stage(true, 20)
  progress.show('copy', 1, undefined)
  progress.show('copy', 2, undefined)
  pass(100)
  progress.show('copy', 3, undefined)
  progress.show('check', 100_000_000_000, 1)
  progress[Symbol.dispose]()
  assert.deepEqual(written, [
    '\rcopy  1\u001b[K',
    '\rcopy  3\u001b[K',
    '\rcheck  [###########\u001b[K',
    '\r\u001b[K',
  ])
})

test('whatever is no terminal gets nothing', () => {
  const { written, progress } = stage(false)
  progress.show('copy', 1, 2)
  progress[Symbol.dispose]()
  assert.deepEqual(written, [])
})
