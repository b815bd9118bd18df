import assert from 'node:assert/strict'
import { afterEach, beforeEach, test, vi } from 'vitest'
import type { LogUpdate } from '../../jobs/index.ts'
import { type Claim, Claims } from './claims.ts'
import { ProgressWriter } from './task-progress.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('progress that comes ten times a second is written once a second, the latest', async () => {
  const { claim, say, writes } = stage()
  const one = claim('t1')
  for (let said = 0; said < 31; said += 1) {
    say(one, said)
    await vi.advanceTimersByTimeAsync(100)
  }
  const percents = writes.flat().map(percentOf)
  assert.ok(percents.length >= 3 && percents.length <= 4, `${percents.length} writes in 3 s`)
  assert.ok(percents[0]! <= 3, 'the first is not held back for a second')
  await vi.advanceTimersByTimeAsync(2_000)
  assert.equal(writes.flat().map(percentOf).at(-1), 30, 'the last word arrives')
})

test('the progress of many tasks goes in one write, of at most 200 tasks', async () => {
  const { claim, say, writes } = stage()
  for (let nr = 0; nr < 450; nr += 1) say(claim(`t${nr}`), 1)
  await vi.advanceTimersByTimeAsync(1_000)
  assert.deepEqual(
    writes.map(({ length }) => length),
    [200, 200, 50],
  )
})

test('a task that ended before its turn, or left this server, costs no write', async () => {
  const { claims, claim, say, writes } = stage()
  const [ended, gone, stays] = [claim('ended'), claim('gone'), claim('stays')]
  for (const each of [ended, gone, stays]) say(each, 50)
  ended.isEnding = true
  claims.drop(gone)
  await vi.advanceTimersByTimeAsync(1_000)
  assert.deepEqual(
    writes.flat().map(({ jobId }) => jobId),
    ['stays'],
  )
})

test('one write is in flight at a time, and a hanging store is asked again with the latest progress', async () => {
  const { claim, say, writes, hang, troubles } = stage()
  const one = claim('t1')
  hang(true)
  say(one, 10)
  await vi.advanceTimersByTimeAsync(3_000)
  say(one, 20)
  assert.equal(writes.length, 1)
  hang(false)
  await vi.advanceTimersByTimeAsync(4_000)
  assert.deepEqual([troubles.length, writes.length, percentOf(writes.at(-1)![0]!)], [1, 2, 20])
})

test('progress of a node that lost the task is withdrawn, unless it was never written', async () => {
  const { claim, say, notes, writes } = stage()
  const [said, silent] = [claim('said'), claim('silent')]
  say(said, 40)
  await vi.advanceTimersByTimeAsync(500)
  notes.report(said, null)
  notes.report(silent, null)
  await vi.advanceTimersByTimeAsync(2_000)
  assert.deepEqual(
    writes.flat().map(({ jobId, progress }) => [jobId, JSON.parse(progress!)]),
    [
      ['said', { percent: 40, note: null, data: { nodeId: 'n1' } }],
      ['said', { percent: null, note: null }],
    ],
  )
})

test('the running state of a task is written once, until it reports more or runs elsewhere', async () => {
  const { claim, say, notes, writes } = stage()
  const one = claim('t1')
  const isSilent = (nodeId: string) => ({ percent: null, note: null, data: { nodeId, isSilent: true } })
  const passed = () => vi.advanceTimersByTimeAsync(1_100)
  for (let told = 0; told < 3; told += 1) {
    notes.reportRunning(one, 'n1')
    await passed()
  }
  say(one, 40)
  notes.reportRunning(one, 'n1')
  await passed()
  notes.report(one, null)
  await passed()
  notes.reportRunning(one, 'n2')
  await passed()
  assert.deepEqual(
    writes.flat().map(({ progress }) => JSON.parse(progress!)),
    [
      isSilent('n1'),
      { percent: 40, note: null, data: { nodeId: 'n1' } },
      { percent: null, note: null },
      isSilent('n2'),
    ],
  )
})

function stage() {
  const claims = new Claims()
  const writes: (readonly LogUpdate[])[] = []
  const troubles: unknown[] = []
  let hangs = false
  const notes = new ProgressWriter({
    logs: {
      add(batch) {
        writes.push(batch)
        return hangs ? new Promise(() => undefined) : Promise.resolve()
      },
    },
    claims,
    monotonicMs: () => performance.now(),
    onError: (error) => void troubles.push(error),
  })
  return {
    ...{ claims, writes, troubles, notes },
    hang(on: boolean) {
      hangs = on
    },
    claim(id: string): Claim {
      const record = { id, attempt: 1, payload: '{}', error: null } as Parameters<Claims['add']>[0]
      const document = { payload: null } as Parameters<Claims['add']>[1]
      return claims.add(record, document, {} as Claim['spec'], Number.POSITIVE_INFINITY)
    },
    say(claim: Claim, percent: number) {
      notes.report(claim, { nodeId: 'n1', percent, note: null, at: 0 })
    },
  }
}

function percentOf({ progress }: LogUpdate): number {
  return (JSON.parse(progress!) as { percent: number }).percent
}
