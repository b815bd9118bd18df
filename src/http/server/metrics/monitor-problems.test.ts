import assert from 'node:assert/strict'
import { test } from 'vitest'
import { namedSubscriptions, problemFamilies } from './monitor-problems.ts'

test('dead notifications are counted by subscription, and those beyond the limit share one label', () => {
  const dead = Array.from({ length: namedSubscriptions + 3 }, (_, n) => ({
    subscriptionId: `s${n}`,
    subscription: `desk ${n}`,
    channel: 'slack' as const,
    count: n + 1,
    since: 1,
  }))
  const problems = { dead, unreadable: [], plain: 0 }
  const [family] = problemFamilies([{ label: 'default', problems }])
  const { values } = family!
  assert.equal(values.length, namedSubscriptions + 1)
  assert.deepEqual(values[0]!.labels, {
    namespace: 'default',
    channel: 'slack',
    subscription: `desk ${namedSubscriptions + 2}`,
  })
  const other = values.find(({ labels }) => labels?.subscription === 'other')
  assert.equal(other?.value, 1 + 2 + 3)
})
