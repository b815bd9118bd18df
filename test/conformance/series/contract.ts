import assert from 'node:assert/strict'
import { afterEach, test } from 'vitest'
import {
  hourMs,
  minuteMs,
  SeriesCell,
  type SeriesKeep,
  type SeriesRow,
  seriesBounds,
  stepAt,
  tenMinutesMs,
} from '../../../src/fleet/rules/index.ts'
import type { SeriesStore } from '../../../src/fleet/series/series-store.ts'
import type { Candidate } from '../candidates.ts'

/** The counting process keeps counts first, then the store merges them; none is lost or counted twice on the way. */
export function seriesContract({ open }: Candidate): void {
  const bounds = seriesBounds as { -readonly [Name in keyof typeof seriesBounds]: number }
  const usual = { ...bounds }
  afterEach(() => void Object.assign(bounds, usual))

  /** Days ago, so that its minutes, ten minutes and hours are all over; writes of them are accepted. */
  async function past(store: SeriesStore): Promise<number> {
    bounds.openMs = 30 * 24 * hourMs
    return stepAt((await store.now()) - 2 * 24 * hourMs, hourMs)
  }

  test('rows are stored as written, and a source replaces only its own rows', async () => {
    await using backend = await open()
    const { series } = backend
    const at = stepAt(await series.now(), minuteMs)
    const odd = aRow(at, { queue: `Ada's "mail" \\ $1 ? :x`, kind: '火车 🚂'.repeat(20), added: 3 })
    const first = await series.write('one', [odd, aRow(at, { started: 2, ready: 5, running: 0 })])
    assert.deepEqual(first.written, [at])
    assert.ok(first.now >= at && Number.isSafeInteger(first.now))
    await series.write('one', [{ ...odd, added: 4 }])
    await series.write('two', [{ ...odd, added: 10 }])
    const { rows } = await series.read({ from: at, to: at + minuteMs, stepMs: minuteMs })
    assert.deepEqual(
      rows.filter(({ kind }) => kind === odd.kind).toSorted((a, b) => a.added - b.added),
      [
        { ...odd, added: 4 },
        { ...odd, added: 10 },
      ],
    )
    assert.deepEqual(
      rows.filter(({ kind }) => kind === 'welcome'),
      [aRow(at, { started: 2, ready: 5, running: 0 })],
    )
    const total = (await series.totals()).find(({ kind }) => kind === odd.kind)
    assert.equal(total?.added, 14)
  })

  test('a write into a closed minute is refused, and the answer says so', async () => {
    await using backend = await open()
    const { series } = backend
    const at = stepAt(await series.now(), minuteMs)
    const closed = at - 3 * minuteMs
    const { written } = await series.write('one', [aRow(closed, { added: 1 }), aRow(at, { added: 2 })])
    assert.deepEqual(written, [at])
    const { rows } = await series.read({ from: closed, to: at + minuteMs, stepMs: minuteMs })
    assert.deepEqual(added(rows), 2)
    assert.deepEqual((await series.write('one', [aRow(closed, { added: 1 })])).written, [])
  })

  test('counts of several processes add up in longer and longer steps, and in the totals', async () => {
    await using backend = await open()
    const { series } = backend
    const at = await past(series)
    const times = new SeriesCell()
    times.run.observe(40)
    times.waited('limit', 700)
    for (const source of ['one', 'two']) {
      await series.write(source, [
        aRow(at, { added: 1, completed: 2, ready: 7, ...withTimes(times) }),
        aRow(at + 9 * minuteMs, { added: 4, ready: 3 }),
        aRow(at + 59 * minuteMs, { added: 8 }),
        aRow(at + 61 * minuteMs, { added: 16, queue: 'images' }),
        aRow(at + 61 * minuteMs, { queue: 'images', kind: '', ready: 9, running: 2 }),
      ])
    }
    const query = { from: at, to: at + 2 * hourMs }
    const before = await series.read({ ...query, stepMs: minuteMs })
    assert.equal(before.rows.length, 10)
    await rollAll(series)
    const minutes = (await series.read({ ...query, stepMs: minuteMs })).rows
    assert.deepEqual(
      minutes.toSorted(byTime).map((row) => [row.bucketAt - at, row.added, row.ready]),
      [
        [0, 2, 7],
        [9 * minuteMs, 8, 3],
        [59 * minuteMs, 16, null],
        [61 * minuteMs, 0, 9],
        [61 * minuteMs, 32, null],
      ],
    )
    assert.deepEqual(
      minutes.find(({ bucketAt }) => bucketAt === at)?.runTimes,
      addedUp(withTimes(times).runTimes, 2),
    )
    const tens = (await series.read({ ...query, stepMs: tenMinutesMs })).rows
    assert.deepEqual(
      tens.toSorted(byTime).map((row) => [row.bucketAt - at, row.added, row.ready]),
      [
        [0, 10, 7],
        [5 * tenMinutesMs, 16, null],
        [6 * tenMinutesMs, 0, 9],
        [6 * tenMinutesMs, 32, null],
      ],
    )
    const hours = (await series.read({ ...query, stepMs: hourMs })).rows
    assert.equal(added(hours), 58)
    assert.deepEqual([...new Set(hours.map(({ bucketAt }) => bucketAt - at))].sort(), [0, hourMs])
    const images = (await series.read({ ...query, stepMs: hourMs, queue: 'images', kind: 'welcome' })).rows
    assert.deepEqual(
      images.map((row) => row.added),
      [32],
    )
    const totals = await series.totals()
    assert.deepEqual(
      totals.map(({ queue, kind, added, completed }) => [queue, kind, added, completed]).sort(),
      [
        ['images', 'welcome', 32, 0],
        ['mail', 'welcome', 26, 4],
      ],
    )
  })

  test('incomplete steps are read from shorter steps', async () => {
    await using backend = await open()
    const { series } = backend
    const now = await series.now()
    bounds.openMs = 30 * 24 * hourMs
    const at = stepAt(now, hourMs) - hourMs
    const minutes = Array.from(
      { length: Math.floor((now - at) / minuteMs) + 1 },
      (_, nth) => at + nth * minuteMs,
    )
    await series.write(
      'one',
      minutes.map((bucketAt) => aRow(bucketAt, { added: 1 })),
    )
    await rollAll(series)
    for (const stepMs of [minuteMs, tenMinutesMs, hourMs]) {
      const { rows } = await series.read({ from: at, to: at + 3 * hourMs, stepMs })
      assert.equal(added(rows), minutes.length, `by ${stepMs} ms`)
    }
    assert.equal(added(await series.totals()), minutes.length)
  })

  test('two days by the hour are read from one row per hour, however many minutes there were', async () => {
    await using backend = await open()
    const { series } = backend
    bounds.openMs = 30 * 24 * hourMs
    const to = stepAt(await series.now(), hourMs) - 24 * hourMs
    const from = to - 48 * hourMs
    const kinds = ['a', 'b', 'c']
    const minutes = Array.from({ length: 48 * 2 }, (_, nth) => from + nth * 3 * tenMinutesMs)
    await series.write(
      'one',
      minutes.flatMap((at) => kinds.map((kind) => aRow(at + 3 * minuteMs, { kind, added: 1 }))),
    )
    await rollAll(series)
    const { rows } = await series.read({ from, to, stepMs: hourMs })
    assert.deepEqual([rows.length, added(rows)], [kinds.length * 48, kinds.length * minutes.length])
  })

  test('processes that merge rows at once count each row once', async () => {
    await using backend = await open()
    const { series } = backend
    const at = await past(series)
    for (let source = 0; source < 8; source++)
      await series.write(
        `process ${source}`,
        Array.from({ length: 6 }, (_, nth) => aRow(at + nth * minuteMs, { added: 1, started: 1 })),
      )
    const seen: number[] = []
    let isDone = false
    const reading = (async () => {
      while (!isDone) {
        seen.push(added(await series.totals()))
        seen.push(added((await series.read({ from: at, to: at + hourMs, stepMs: hourMs })).rows))
        // A read of SQLite ends in the same turn, and the writes need their own turn.
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    await Promise.all(Array.from({ length: 4 }, () => rollAll(series)))
    isDone = true
    await reading
    assert.deepEqual([...new Set(seen)], [48])
    assert.equal(added(await series.totals()), 48)
  })

  test('pruning deletes old steps and does not lower the totals', async () => {
    await using backend = await open()
    const { series } = backend
    const at = await past(series)
    await series.write('one', [aRow(at, { added: 5, completed: 5 })])
    await rollAll(series)
    const query = { from: at, to: at + hourMs }
    const kept = async (keep: SeriesKeep) => {
      await rollAll(series, keep)
      const steps = [minuteMs, tenMinutesMs, hourMs]
      return Promise.all(steps.map(async (stepMs) => added((await series.read({ ...query, stepMs })).rows)))
    }
    assert.deepEqual(await kept({ minutesMs: hourMs, hoursMs: 30 * 24 * hourMs }), [0, 5, 5])
    assert.deepEqual(await kept({ minutesMs: hourMs, hoursMs: hourMs }), [0, 0, 0])
    assert.deepEqual(
      (await series.totals()).map(({ added, completed }) => [added, completed]),
      [[5, 5]],
    )
  })

  test('beyond the row limit, the smallest kinds share one row, and no count is lost', async () => {
    await using backend = await open()
    const { series } = backend
    const at = await past(series)
    bounds.keys = 5
    const rows = Array.from({ length: 9 }, (_, nth) => aRow(at, { kind: `kind ${nth}`, added: 1 + nth }))
    await series.write('one', rows)
    await rollAll(series)
    const kept = (await series.read({ from: at, to: at + minuteMs, stepMs: minuteMs })).rows
    assert.deepEqual(kept.map(({ kind, added }) => [kind, added]).sort(), [
      ['', 15],
      ['kind 5', 6],
      ['kind 6', 7],
      ['kind 7', 8],
      ['kind 8', 9],
    ])
    await series.write('one', [aRow(at + minuteMs, { kind: 'kind 9', added: 100 })])
    await rollAll(series)
    const totals = (await series.totals()).map(({ kind, added }) => [kind, added]).sort()
    assert.deepEqual(totals[0], ['', 115], 'a kind that is counted keeps its total')
    assert.equal(added(await series.totals()), 145)
  })

  test('another namespace sees no rows', async () => {
    await using backend = await open()
    const other = backend.within('series-elsewhere').series
    const at = await past(backend.series)
    await backend.series.write('one', [aRow(at, { added: 1 })])
    await rollAll(other)
    assert.deepEqual(await other.totals(), [])
    assert.deepEqual((await other.read({ from: at, to: at + hourMs, stepMs: minuteMs })).rows, [])
    await rollAll(backend.series)
    assert.deepEqual((await other.read({ from: at, to: at + hourMs, stepMs: hourMs })).rows, [])
    assert.equal(added(await backend.series.totals()), 1)
  })
}

const keep: SeriesKeep = { minutesMs: 20 * 24 * hourMs, hoursMs: 90 * 24 * hourMs }

async function rollAll(series: SeriesStore, kept = keep): Promise<void> {
  for (let turns = 0; await series.merge(kept); turns++) assert.ok(turns < 500, 'there is an end to it')
}

function aRow(bucketAt: number, more: Partial<SeriesRow>): SeriesRow {
  return { bucketAt, queue: 'mail', kind: 'welcome', ...new SeriesCell().toValues(), ...more }
}

function withTimes(cell: SeriesCell): Pick<SeriesRow, 'runTimes' | 'waitTimes'> {
  const { runTimes, waitTimes } = cell.toValues()
  return { runTimes, waitTimes }
}

function addedUp(runTimes: string, times: number): string {
  const cell = new SeriesCell()
  for (let nth = 0; nth < times; nth++) cell.run.addText(runTimes)
  return cell.run.toText()
}

function added(rows: readonly SeriesRow[]): number {
  return rows.reduce((sum, row) => sum + row.added, 0)
}

function byTime(a: SeriesRow, b: SeriesRow): number {
  return a.bucketAt - b.bucketAt || a.added - b.added
}
