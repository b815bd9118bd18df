import type { Box, RemoteBox } from '../../index.ts'
import type { Column } from '../print.ts'

/** One page of the view: a table, and how to read its rows from the box. */
export interface Pane {
  readonly name: PaneName
  /** The keys that show it; the first is shown. */
  readonly keys: readonly string[]
  readonly columns: readonly Column[]
  /** The text of an empty table. */
  readonly empty: string
  /** Reads only the rows that are shown. */
  look(box: Box | RemoteBox): Promise<Look>
}

export const paneNames = ['queues', 'locks', 'nodes', 'contention', 'workers', 'tasks'] as const
export type PaneName = (typeof paneNames)[number]

export interface Look {
  readonly rows: readonly Row[]
  /** Whether there are more rows than are shown. */
  readonly isCut: boolean
  /** The same for `--json`. */
  readonly raw: unknown
}

export interface Row {
  /** The same thing has the same id at the next read. */
  readonly id: string
  readonly cells: readonly string[]
  /** Whether the row needs attention. */
  readonly isAlert: boolean
  /** The actions on it, by key. */
  readonly acts: Readonly<Record<string, Act>>
}

export interface Act {
  readonly question: string
  /** Performs the action. Returns a sentence about the result. */
  perform(box: Box | RemoteBox): Promise<string>
}

/** More rows than a user scrolls through. */
export const maxRows: number = 500

/** The first rows of a list. */
export function lookOf<Item>(raw: unknown, items: readonly Item[], rowOf: (item: Item) => Row): Look {
  return { raw, rows: items.slice(0, maxRows).map(rowOf), isCut: items.length > maxRows }
}

/** A head that begins with `>` is over a column of numbers. */
export function columnsOf(...heads: readonly string[]): readonly Column[] {
  return heads.map((head) => ({
    head: head.replace(/^>/, ''),
    align: head.startsWith('>') ? 'right' : 'left',
  }))
}
