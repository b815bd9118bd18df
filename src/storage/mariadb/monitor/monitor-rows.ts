import type { Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { chunkBySize } from '../jobs/settle.ts'

/** The clock of a transaction: read once, so that all it writes is of one instant. It stays the session's until the next one sets it. */
export const setNow: Statement = [`SET @signalbox_now = ${nowMs}`, []]
export const now = '@signalbox_now'

/** Stands in a row for an instant so long after the transaction's. */
export interface NowPlus {
  readonly nowPlusMs: number
}

export function nowPlus(nowPlusMs: number): NowPlus {
  return { nowPlusMs }
}

export type Value = string | number | boolean | null | NowPlus
export type Row = readonly Value[]

/** Rows in as many statements as packets are needed; `around` is the statement about their text. */
export function encodeRows(
  rows: readonly Row[],
  packetBytes: number,
  around: (rows: string) => Statement,
): Statement[] {
  return chunkBySize(rows, sizeOf, packetBytes).map((chunk) => {
    const text = chunk.map((row) => `(${row.map(placeOf).join(', ')})`).join(',\n')
    const [sql, values] = around(text)
    return [sql, [...chunk.flatMap((row) => row.map(boundOf)), ...values]]
  })
}

function placeOf(value: Value): string {
  return isNowPlus(value) ? `${now} + ?` : '?'
}

function boundOf(value: Value): unknown {
  return isNowPlus(value) ? value.nowPlusMs : value
}

function isNowPlus(value: Value): value is NowPlus {
  return typeof value === 'object' && value !== null
}

function sizeOf(row: Row): number {
  return row.reduce((sum: number, value) => sum + (typeof value === 'string' ? value.length : 24), 0)
}

/** For ON DUPLICATE KEY UPDATE: these columns as given. */
export function given(columns: readonly string[]): string {
  return columns.map((column) => `${column} = VALUES(${column})`).join(', ')
}
