import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../../core/fake-clock.ts'
import { MemorySeries } from '../../storage/memory/series.ts'
import { minuteMs, type SeriesRow } from '../rules/index.ts'
import { createSeriesRecorder } from './recorder.ts'

const begin = 1_000_000 * minuteMs
const job = { queue: 'mail', kind: 'welcome' }

/** A store whose clock is half a minute ahead of the process, in days. */
function stage() {
  const clock = createFakeClock(5_000)
  let storeNow = begin + 30_000
  const series = new MemorySeries(() => storeNow)
  const writes: (readonly SeriesRow[])[] = []
  let failing = 0
  let isDown = false
  const store = {
    now: () => series.now(),
    async write(source: string, rows: readonly SeriesRow[]) {
      if (isDown) throw new Error('the store is away')
      writes.push(rows)
      const answer = await series.write(source, rows)
      if (failing-- > 0) throw new Error('the answer was lost')
      return answer
    },
  }
  const recorder = createSeriesRecorder({ store, clock })
  return {
    recorder,
    writes,
    clock,
    /** How often the next writes fail after they were made. */
    loseAnswers(times: number) {
      failing = times
    },
    refuse(isRefusing: boolean) {
      isDown = isRefusing
    },
    async pass(ms: number) {
      for (let left = ms; left > 0; left -= 500) {
        storeNow += 500
        clock.advance(500)
        for (let turn = 0; turn < 20; turn++) await Promise.resolve()
      }
    },
    async sum(name: 'completed' | 'added' = 'completed') {
      return (await series.totals()).reduce((sum, row) => sum + row[name], 0)
    },
    async minutes() {
      const { rows } = await series.read({ from: begin, to: begin + 60 * minuteMs, stepMs: minuteMs })
      return rows
        .toSorted((a, b) => a.bucketAt - b.bucketAt)
        .map((row) => [(row.bucketAt - begin) / minuteMs, row.completed])
    },
  }
}

test('thousands of jobs of a kind make one row every ten seconds, and an idle process writes nothing', async () => {
  const { recorder, writes, pass, sum, clock } = stage()
  for (let second = 0; second < 30; second++) {
    for (let nth = 0; nth < 100; nth++) recorder.ended(job, 'completed', 3)
    await pass(1_000)
  }
  assert.ok(writes.length >= 2 && writes.length <= 4, `${writes.length} writes`)
  // Around the end of a minute, both minutes have a row.
  assert.ok(writes.every((rows) => rows.length <= 2))
  await pass(10_000)
  assert.equal(await sum(), 3_000)
  const before = writes.length
  await pass(600_000)
  assert.deepEqual([writes.length, clock.timerCount], [before, 0])
})

test("counts belong to the store's minute in which they were made", async () => {
  const { recorder, pass, minutes } = stage()
  recorder.ended(job, 'completed', 3)
  await pass(12_000)
  // Of the first minute there are 18 seconds left.
  await pass(17_500)
  recorder.ended(job, 'completed', 3)
  await pass(1_500)
  recorder.ended(job, 'completed', 3)
  await pass(20_000)
  assert.deepEqual(await minutes(), [
    [0, 2],
    [1, 1],
  ])
})

test('a write whose answer was lost is repeated, and counts once', async () => {
  const { recorder, pass, sum, minutes, loseAnswers } = stage()
  recorder.ended(job, 'completed', 3)
  await pass(10_000)
  loseAnswers(2)
  recorder.ended(job, 'completed', 3)
  await pass(10_000)
  recorder.ended(job, 'completed', 3)
  await pass(30_000)
  assert.equal(await sum(), 3)
  assert.deepEqual(
    (await minutes()).reduce((all, [, completed]) => all + completed!, 0),
    3,
  )
})

test('counts of a minute that closed before their write belong to a later minute', async () => {
  const { recorder, pass, sum, minutes, refuse } = stage()
  recorder.ended(job, 'completed', 3)
  await pass(10_000)
  refuse(true)
  recorder.ended(job, 'completed', 3)
  await pass(200_000)
  assert.equal(await sum(), 1)
  refuse(false)
  await pass(20_000)
  assert.equal(await sum(), 2)
  const [first, second] = await minutes()
  assert.deepEqual(first, [0, 1])
  assert.ok(second![0]! >= 3, `minute ${second![0]}`)
})

test('a closing recorder writes the last counts', async () => {
  const { recorder, sum } = stage()
  recorder.added([{ ...job, id: 'a' }] as never, [{ id: 'a', duplicate: false }])
  recorder.added([{ ...job, id: 'b' }] as never, [{ id: 'b', duplicate: true }])
  // A repeated request gets the id of the first.
  recorder.added([{ ...job, id: 'c' }] as never, [{ id: 'a', duplicate: false }])
  await recorder[Symbol.asyncDispose]()
  assert.equal(await sum('added'), 1)
})

test("the cause of a job's wait is counted with the wait", () => {
  const { recorder } = stage()
  const started = (more: object) =>
    recorder.started({ ...job, attempt: 1, meta: null, runAt: 0, startedAt: 10, ...more } as never)
  started({})
  started({ limited: true })
  started({ meta: '{"lock":{"operation":"a","resource":"b"}}' })
  started({ meta: '{"after":true}' })
  started({ meta: '{"after":true}', attempt: 2 })
  recorder.unattended(['mail'], 5)
  started({})
  started({ runAt: 6 })
  started({ limited: true, runAt: 4 })
  const [total] = recorder.totals()
  assert.deepEqual(
    Array.from(total!.cell.waits, ([cause, { count }]) => [cause, count]),
    [
      ['queue', 3],
      ['limit', 1],
      ['lock', 1],
      ['dependency', 1],
      ['noWorker', 2],
    ],
  )
})

test('tasks are counted by service, and are not jobs of this process', async () => {
  const { recorder, sum } = stage()
  recorder.ended({ queue: 'signalbox.dispatch', kind: 'asr' }, 'completed', 3)
  await recorder[Symbol.asyncDispose]()
  assert.deepEqual([await sum(), recorder.totals().length], [1, 0])
})

test('jobs of Signalbox’s internal queues are not counted', async () => {
  const { recorder, sum, writes } = stage()
  recorder.ended({ queue: 'signalbox.bulk', kind: 'x' }, 'completed', 3)
  await recorder[Symbol.asyncDispose]()
  assert.deepEqual([await sum(), writes.length, recorder.totals().length], [0, 0, 0])
})
