/** Jobs that wait for others, for a lock or for a limit, in a box whose time stands still. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openTestBox, type TestBox } from './index.ts'

/** A box whose jobs say their payload when they run. */
async function saying(mode: 'inline' | 'manual' = 'manual'): Promise<{ box: TestBox; said: unknown[] }> {
  const box = await openTestBox({ mode })
  const said: unknown[] = []
  box.jobs.worker({
    handlers: {
      say: ({ payload }) => void said.push(payload),
      fence: ({ fence }) => void said.push(typeof fence),
      die: () => {
        throw new Error('no')
      },
    },
  })
  return { box, said }
}

test('jobs with dependencies run in the same drain, in whatever order they were added', async () => {
  const { box, said } = await saying()
  await box.jobs.addMany([
    { kind: 'say', payload: 3, after: ['second'] },
    { kind: 'say', payload: 2, ref: 'second', after: ['first'] },
    { kind: 'say', payload: 1, ref: 'first' },
  ])
  assert.deepEqual(await box.drain(), { completed: 3, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(said, [1, 2, 3])
  await box.close()
})

test('dependents of a dead job are cancelled by the same drain, however long the chain', async () => {
  const { box, said } = await saying()
  await box.jobs.addMany([
    { kind: 'say', payload: 3, after: ['c'] },
    { kind: 'say', payload: 2, ref: 'c', after: ['b'] },
    { kind: 'say', payload: 1, ref: 'b', after: ['a'] },
    { kind: 'die', ref: 'a', maxAttempts: 1 },
  ])
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 0, dead: 1 })
  assert.deepEqual(said, [])
  const { items } = await box.jobs.list()
  assert.deepEqual(items.map(({ state }) => state).toSorted(), [
    'cancelled',
    'cancelled',
    'cancelled',
    'dead',
  ])
  await box.close()
})

test('jobs that wait for one lock run one after the other, each with its fence', async () => {
  const { box, said } = await saying()
  const lock = { operation: 'deploy', resource: 'web' }
  for (let nr = 0; nr < 3; nr++) await box.jobs.add('fence', nr, { lock })
  assert.deepEqual(await box.drain(), { completed: 3, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(said, ['number', 'number', 'number'])
  await box.close()
})

test('a test waits for a foreign lock by the clock, and not for ever', async () => {
  const { box, said } = await saying()
  const key = { operation: 'deploy', resource: 'web' }
  const held = await box.locks.acquire({ ...key, node: 'ci' })
  assert.equal(held.status, 'granted')
  await box.jobs.add('fence', 1, { lock: key })
  assert.deepEqual(await box.drain({ withScheduled: true }), { completed: 0, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(said, [])
  box.clock.advance('10m')
  assert.deepEqual(await box.drain(), { completed: 1, failed: 0, dead: 0, errors: [] })
  await box.close()
})

test('a drain that moves the clock finds a job that waits and is not due', async () => {
  const { box, said } = await saying()
  const from = box.clock.now()
  await box.jobs.add('say', 'late', { delayMs: '1h', lock: { operation: 'o', resource: 'r' } })
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(await box.drain({ withScheduled: true }), { completed: 1, failed: 0, dead: 0, errors: [] })
  assert.deepEqual([said, box.clock.now() - from], [['late'], 3_600_000])
  await box.close()
})

test('inline, an add returns when its dependencies and the job itself have run', async () => {
  const { box, said } = await saying('inline')
  await box.jobs.addMany([
    { kind: 'say', payload: 2, after: ['first'] },
    { kind: 'say', payload: 1, ref: 'first' },
  ])
  assert.deepEqual(said, [1, 2])
  await box.jobs.add('fence', 0, { lock: { operation: 'o', resource: 'r' } })
  assert.deepEqual(said, [1, 2, 'number'])
  const { id } = await box.jobs.add('say', 'later', { delayMs: '1h' })
  await box.jobs.add('say', 'after later', { after: id })
  assert.equal(said.length, 3)
  box.clock.advance('1h')
  await box.drain()
  assert.deepEqual(said.slice(3), ['later', 'after later'])
  await box.close()
})

test('a rate uses the clock of the test', async () => {
  const { box, said } = await saying()
  await box.jobs.setLimits('default', { rate: { count: 2, perMs: '1m' } })
  for (let nr = 0; nr < 5; nr++) await box.jobs.add('say', nr)
  assert.equal((await box.drain()).completed, 2)
  assert.equal((await box.drain()).completed, 0)
  box.clock.advance('61s')
  assert.equal((await box.drain()).completed, 2)
  box.clock.advance('61s')
  assert.equal((await box.drain()).completed, 1)
  assert.deepEqual(said, [0, 1, 2, 3, 4])
  await box.close()
})
