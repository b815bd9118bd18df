import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Summary, worstLocksFirst } from './worst-first.ts'

const now = 1_800_000_000_000
const lock = (resource: string, waiterCount: number, heldMs: number, emptiedAt?: number): Summary => ({
  ...{ operation: 'pull', resource, waiterCount },
  ...(emptiedAt === undefined ? {} : { emptiedAt }),
  holder: {
    node: 'n',
    requestId: 'n',
    attempt: 1,
    since: now - heldMs,
    expiresAt: now + 1_000,
    progress: null,
  },
})

test('the locks that delay most come first, empty ones last, and short holds do not move rows', () => {
  const locks = [
    lock('empty', 0, 0, now),
    lock('b', 0, 2_000),
    lock('a', 0, 1_000),
    lock('long', 0, 600_000),
    lock('two', 2, 1_000),
    lock('nine', 9, 500),
  ]
  assert.deepEqual(
    worstLocksFirst(locks, now).map(({ resource }) => resource),
    ['nine', 'two', 'long', 'a', 'b', 'empty'],
  )
})
