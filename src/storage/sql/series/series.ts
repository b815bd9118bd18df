import { minuteMs, type SeriesRow, seriesBounds } from '../../../fleet/rules/index.ts'
import type { SeriesStore } from '../../../fleet/series/series-store.ts'
import type { Database } from '../database.ts'
import { last, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { findWork, rollUpSeries } from './roll-up.ts'
import { readSteps, readTotals } from './series-reads.ts'
import { columns, decodeNow, encodeRow, given, replaced, rowColumns, selectNow } from './series-row.ts'

/**
 * Counts and times of jobs. A process upserts rows of its own (`series_part`) while their minute is open. Then any process
 * puts them together, in one transaction:
 *
 *     series_part, a row for each process ──closed──▶ series_bucket 1 min ──▶ 10 min ──▶ 1 h
 *                                             └─────▶ series_total, in the same transaction
 */
export function createSeriesStore(database: Database, namespace: string): SeriesStore {
  return {
    now: () => database.run(readClock, []),
    write: (source, rows) => database.run(writeParts, [namespace, source, rows]),
    read: (query) => database.run(readSteps, [namespace, query]),
    totals: () => database.run(readTotals, [namespace]),
    async roll(keep) {
      // Most processes find nothing to do, and none of them should wait for the lock to learn that.
      if (!(await database.run(findWork, [namespace, keep]))) return false
      return database.run(rollUpSeries, [namespace, keep])
    },
  }
}

const readClock = operation({
  name: 'read the clock for series',
  isRead: true,
  *procedure() {
    const [clock] = yield* run(selectNow({}))
    return decodeNow(clock!)
  },
})

const upsertParts = statement(
  'series_write',
  { namespace: 'text', source: 'text', latestMs: 'integer', rows: rowColumns },
  (d) => `${d.upsert({
    into: '@series_part',
    columns: `namespace, bucket_at, source, series_key, ${columns}`,
    source: `SELECT :namespace, v.bucket_at, :source, v.series_key, ${given} FROM :rows
WHERE v.bucket_at > ${d.now} - :latestMs`,
    key: 'namespace, bucket_at, source, series_key',
    set: replaced,
  })}
RETURNING bucket_at`,
)

const writeParts = operation({
  name: 'write series',
  *procedure(namespace: string, source: string, rows: readonly SeriesRow[]) {
    const latestMs = minuteMs + seriesBounds.openMs
    const [written, clock] = yield* last(
      run(upsertParts({ namespace, source, latestMs, rows: rows.map(encodeRow) }), selectNow({})),
    )
    const at = (written!.rows as readonly { readonly bucket_at: number | string }[]).map((row) =>
      Number(row.bucket_at),
    )
    return { now: decodeNow(clock!), written: [...new Set(at)] }
  },
})
