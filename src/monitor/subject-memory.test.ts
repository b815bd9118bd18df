import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeRecall, encodeRecall, isSameRecall, type Recall } from './subject-memory.ts'

const recall: Recall = { baseline: 'a', changes: [1, 2], flapping: ['s'], lookAgainAt: 3, lastId: 'i' }

test('what is remembered is the same when it would be written alike', () => {
  assert.ok(isSameRecall(recall, decodeRecall(encodeRecall(recall))))
  const others: Partial<Recall>[] = [
    { baseline: 'b' },
    { changes: [1] },
    { changes: [1, 3] },
    { flapping: [] },
    { lookAgainAt: null },
    { lastId: '' },
  ]
  for (const other of others) assert.ok(!isSameRecall(recall, { ...recall, ...other }), JSON.stringify(other))
})
