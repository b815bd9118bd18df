import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { NewJob } from '../../../jobs/index.ts'
import { alikeValues } from './add.ts'

const job = (fields: Partial<NewJob> = {}): NewJob => ({
  id: 'a',
  queue: 'mail',
  kind: 'welcome',
  payload: '{"to":1}',
  priority: 2,
  uniqueKey: null,
  due: { delayMs: 10 },
  maxAttempts: 5,
  backoff: null,
  timeoutMs: null,
  meta: null,
  ...fields,
})

test('jobs that differ only in id and payload share all other values', () => {
  const values = alikeValues('space', [job(), job({ id: 'b', payload: '"\\u001f"' })])
  assert.deepEqual(values, ['space', 'a\x1fb', 'mail', 'welcome', '{"to":1}\x1f"\\u001f"', 2, 10, 5])
})

test('jobs that differ in any other value, or have a rare one, are not alike', () => {
  const different: Partial<NewJob>[] = [
    { queue: 'other' },
    { kind: 'other' },
    { priority: 3 },
    { maxAttempts: 6 },
    { due: { delayMs: 11 } },
    { due: { runAt: 10 } },
  ]
  for (const fields of different) assert.equal(alikeValues('space', [job(), job(fields)]), undefined)
  const rare: Partial<NewJob>[] = [
    { due: { runAt: 10 } },
    { uniqueKey: 'k' },
    { backoff: '{}' },
    { timeoutMs: 1 },
    { meta: '{}' },
    { payload: 'no JSON \x1f' },
    { payload: '' },
    { id: 'no id \x1f' },
    { id: null as never },
  ]
  for (const fields of rare) assert.equal(alikeValues('space', [job(fields), job(fields)]), undefined)
})
