import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { LogUpdate } from '../../jobs/index.ts'
import { gatherUpdates } from './log-row.ts'

function anUpdate(
  jobId: string,
  attempt: number,
  progress: string | null,
  ...texts: readonly string[]
): LogUpdate {
  return { jobId, attempt, progress, logs: texts.map((text) => ({ level: 'info', text })) }
}

test('updates of one attempt become one, with the latest progress and every log line in order', () => {
  const [one, ...more] = gatherUpdates([
    anUpdate('a', 1, '1', 'x'),
    anUpdate('a', 1, '2', 'ü'),
    anUpdate('a', 1, null, 'z'),
  ])
  assert.deepEqual(more, [])
  assert.equal(one?.progress, '2')
  assert.equal(one.lineCount, 3)
  assert.deepEqual(
    one.logs.map(({ text, bytesSoFar }) => [text, bytesSoFar]),
    [
      ['x', 1],
      ['ü', 3],
      ['z', 4],
    ],
  )
})

test('attempts are sorted by job, then attempt, and empty ones are left out', () => {
  const updates = [
    anUpdate('b', 10, '1'),
    anUpdate('b', 9, '1'),
    anUpdate('c', 1, null),
    anUpdate('a', 2, null, 'x'),
  ]
  assert.deepEqual(
    gatherUpdates(updates).map(({ jobId, attempt }) => [jobId, attempt]),
    [
      ['a', 2],
      ['b', 9],
      ['b', 10],
    ],
  )
})

test('log lines beyond every limit are counted and not sent', () => {
  const many = gatherUpdates([anUpdate('a', 1, null, ...Array.from({ length: 700 }, () => ''))])
  assert.deepEqual([many[0]?.lineCount, many[0]?.logs.length], [700, 500])
  const large = gatherUpdates([anUpdate('a', 1, null, 'x'.repeat(65_536), '', 'y', '')])
  assert.deepEqual([large[0]?.lineCount, large[0]?.logs.length], [4, 2])
})
