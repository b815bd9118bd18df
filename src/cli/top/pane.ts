import type { Box, RemoteBox } from '../../index.ts'

/** What is shown on one page: a table, and how its rows come from the box. */
export interface Pane {
  readonly name: PaneName
  /** The keys that show it; the first is shown. */
  readonly keys: readonly string[]
  readonly columns: readonly Column[]
  /** What an empty table says. */
  readonly empty: string
  /** Asks for what is shown, and no more than that. */
  look(box: Box | RemoteBox): Promise<Look>
}

export const paneNames = ['queues', 'locks', 'nodes', 'contention', 'workers', 'tasks'] as const
export type PaneName = (typeof paneNames)[number]

export interface Column {
  readonly head: string
  readonly align: 'left' | 'right'
}

export interface Look {
  readonly rows: readonly Row[]
  /** There are more than are shown. */
  readonly isCut: boolean
  /** The same for `--json`. */
  readonly raw: unknown
}

export interface Row {
  /** The same thing has the same id in the next look. */
  readonly id: string
  readonly cells: readonly string[]
  /** It needs attention. */
  readonly isAlert: boolean
  /** What can be done to it, by the key that does it. */
  readonly acts: Readonly<Record<string, Act>>
}

export interface Act {
  readonly question: string
  /** Does it; answers what was done, in words. */
  perform(box: Box | RemoteBox): Promise<string>
}

/** More rows than a user scrolls through. */
export const maxRows: number = 500

/** The first rows of a list. */
export function lookOf<Item>(raw: unknown, items: readonly Item[], rowOf: (item: Item) => Row): Look {
  return { raw, rows: items.slice(0, maxRows).map(rowOf), isCut: items.length > maxRows }
}

/** A head that begins with `>` stands over a column of numbers. */
export function columnsOf(...heads: readonly string[]): readonly Column[] {
  return heads.map((head) => ({
    head: head.replace(/^>/, ''),
    align: head.startsWith('>') ? 'right' : 'left',
  }))
}
