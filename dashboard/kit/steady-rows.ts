import { useRef, useState } from 'react'
import { ownActs } from '../live/queries.ts'
import { usePlace } from '../shell/router.tsx'
import { useStored } from '../shell/stored.ts'
import { type HeldRows, holdRows, type ShownRows, showRows } from './held-rows.ts'

/** Rows that stand still; see held-rows.ts. */
export interface SteadyRows<Row> extends ShownRows<Row> {
  letIn(): void
}

const none: ReadonlySet<string> = new Set()

interface Hold<Row> {
  /** The list that it is of. Another one begins anew. */
  readonly place: string
  readonly version: string
  /** The answer for this list has not come yet. */
  readonly isPending: boolean
  rows: HeldRows<Row>
}

/** Holds the rows of a table for as long as the reader is at it. An act of the reader's own lets all changes in. */
export function useSteadyRows<Row>(
  now: readonly Row[],
  rowKey: (row: Row) => string,
  {
    isPointed,
    selected = none,
    isStale,
  }: {
    readonly isPointed: boolean
    readonly selected?: ReadonlySet<string> | undefined
    readonly isStale: boolean
  },
): SteadyRows<Row> {
  const { view, query } = usePlace()
  const acts = useStored(ownActs)
  const [turn, setTurn] = useState(0)
  const hold = useRef<Hold<Row>>(undefined)
  const place = JSON.stringify([view, query])
  const version = `${acts} ${turn}`
  const last = hold.current?.place === place ? hold.current : undefined
  const isHeld = isPointed || selected.size > 0
  if (!isHeld || last === undefined || last.isPending || last.version !== version) {
    const rows = holdRows(now, rowKey, last?.rows ?? new Map(), selected)
    hold.current = { place, version, isPending: isStale, rows }
  }
  const shown = showRows(hold.current!.rows, now, rowKey)
  // Remember rows as they last were, for when they leave the list.
  hold.current!.rows = new Map(shown.rows.map(({ key, row }) => [key, row]))
  return { ...shown, letIn: () => setTurn(turn + 1) }
}
