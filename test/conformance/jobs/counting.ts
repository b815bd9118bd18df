import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'vitest'
import type { NewJob, QueueStats } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { countLimits } from '../../../src/storage/sql/job-counts.ts'
import type { Candidate } from '../candidates.ts'
import { addOne, aJob, claim, longMs, verdictOf } from './making.ts'

/** Here counts are estimated from this number on, because a test cannot add ten thousand jobs repeatedly. */
const exact = 300
const pieceRows = 100
/**
 * So many that the sample has some fifty of them: with that few, an estimate is wrong by a factor of two once in
 * 10,000.
 */
const many = 6_400
const aDependency = { jobs: ['nothing'], lock: null }

/** Counts are exact up to a limit. Above it they are estimates, marked as such; the model has no estimates. */
export function countingContract({ open, name, sql }: Candidate): void {
  const usual = { ...countLimits }
  beforeEach(() => void Object.assign(countLimits, { exact, pieceRows }))
  afterEach(() => void Object.assign(countLimits, usual))

  /** MariaDB estimates from its statistics, which follow some seconds behind. */
  async function refreshStatistics(): Promise<void> {
    if (name !== 'mariadb') return
    await using caller = await sql!.connect()
    await caller.exec('ANALYZE TABLE job_queue')
  }

  test('the counts of queues below the limit are exact', async () => {
    await using backend = await open()
    const sizes = new Map([...'bdfhjln'].map((queue, nth) => [queue, 1 + 43 * nth]))
    for (const [queue, size] of sizes) await addMany(backend, size, { queue })
    await addMany(backend, 250, { queue: 'd', due: { delayMs: longMs } })
    await addMany(backend, 120, { queue: 'b', kind: 'other', priority: 7, meta: '{"limitKey":"a"}' })
    await addMany(backend, 90, { queue: 'z', dependsOn: aDependency })
    const running = await claim(backend, { queues: ['l'], limit: 101 })
    const lines = await backend.jobs.stats()
    assert.deepEqual(
      lines.map(({ queue, ready, scheduled, waiting, running }) => [
        queue,
        ready,
        scheduled,
        waiting,
        running,
      ]),
      [
        ['b', 121, 0, 0, 0],
        ['d', 44, 250, 0, 0],
        ...['f', 'h', 'j'].map((queue) => [queue, sizes.get(queue)!, 0, 0, 0]),
        ['l', sizes.get('l')! - running.length, 0, 0, running.length],
        ['n', sizes.get('n')!, 0, 0, 0],
        ['z', 0, 0, 90, 0],
      ],
    )
    assert.ok(lines.every(({ approximate }) => !approximate))
  })

  test('a count at the limit is an estimate, and the other counts are exact', async () => {
    await using backend = await open()
    await addMany(backend, many, { due: { runAt: 7_000 } })
    await addMany(backend, exact - 1, { queue: 'almost' })
    await addMany(backend, 11, { due: { delayMs: longMs } })
    await addMany(backend, 3, { queue: 'zebra' })
    await addOne(backend, { priority: -5, due: { runAt: 5_000 } })
    await refreshStatistics()
    const [almost, mail, zebra, ...others] = await backend.jobs.stats()
    assert.deepEqual(others, [])
    assert.deepEqual([almost!.ready, almost!.approximate], [exact - 1, false])
    assert.deepEqual([zebra!.ready, zebra!.approximate], [3, false])
    refuseWrong(mail!, 'ready', many + 1)
    assert.deepEqual([mail!.scheduled, mail!.running, mail!.waiting, mail!.dead], [11, 0, 0, 0])
    assert.equal(mail!.oldestReadyAt, 5_000, 'a job of a low priority waits longest')
  })

  test('two long queues are estimated, and small queues before, between and behind them are exact', async () => {
    await using backend = await open()
    for (const queue of ['b', 'd']) await addMany(backend, many / 2, { queue, priority: 1 })
    for (const queue of ['a', 'c', 'e']) await addMany(backend, 5, { queue })
    await addMany(backend, many, { queue: 'd', due: { delayMs: longMs } })
    await refreshStatistics()
    const [a, b, c, d, e] = await backend.jobs.stats()
    for (const line of [a, c, e]) assert.deepEqual([line!.ready, line!.approximate], [5, false])
    refuseWrong(b!, 'ready', many / 2, 3)
    refuseWrong(d!, 'ready', many / 2, 3)
    refuseWrong(d!, 'scheduled', many, 3)
  })

  test('waiting, running and dead jobs above the limit are estimates of at least the limit', async () => {
    await using backend = await open()
    await addMany(backend, exact, { queue: 'waits', dependsOn: aDependency })
    await addMany(backend, exact, { queue: 'runs' })
    await claim(backend, { queues: ['runs'], limit: exact })
    await addMany(backend, exact, { queue: 'fails' })
    const failing = await claim(backend, { queues: ['fails'], limit: exact })
    await backend.jobs.settle(failing.map((job) => verdictOf(job, { state: 'dead' })))
    const lines = await backend.jobs.stats()
    const of = (queue: string) => lines.find((line) => line.queue === queue)!
    for (const [queue, state] of [
      ['waits', 'waiting'],
      ['runs', 'running'],
      ['fails', 'dead'],
    ] as const) {
      const line = of(queue)
      assert.ok(line[state] >= exact, `${line[state]} are ${state}`)
      assert.equal(line.approximate, name !== 'memory', queue)
      const others = (['ready', 'scheduled', 'waiting', 'running', 'dead'] as const).filter(
        (one) => one !== state,
      )
      for (const other of others) assert.equal(line[other], 0, `${queue} ${other}`)
    }
  })

  function refuseWrong(line: QueueStats, state: 'ready' | 'scheduled', real: number, factor = 2): void {
    const said = line[state]
    assert.equal(line.approximate, name !== 'memory')
    if (name === 'memory') assert.equal(said, real)
    assert.ok(said >= exact, `${said} ${state}, which are more than the limit`)
    assert.ok(said < real * factor && said > real / factor, `${said} ${state}, which are ${real}`)
  }
}

async function addMany({ jobs }: Backend, count: number, job: Partial<NewJob>): Promise<void> {
  for (let rest = count; rest > 0; rest -= 1_000)
    await jobs.add(Array.from({ length: Math.min(rest, 1_000) }, () => aJob(job)))
}
