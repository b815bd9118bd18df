import { type KeyboardEvent, type ReactNode, type RefObject, useLayoutEffect, useRef, useState } from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { useKeys } from './keys.ts'

export interface Column<Row> {
  readonly key: string
  readonly head: string
  readonly cell: (row: Row) => ReactNode
  /** Numbers stand at the end of their cell. */
  readonly align?: 'end'
  /** Left out where the page is narrow. */
  readonly wideOnly?: boolean
  /** Takes the room that is left. */
  readonly grow?: boolean
}

export interface Selection {
  readonly selected: ReadonlySet<string>
  readonly onChange: (selected: ReadonlySet<string>) => void
}

export interface TableProps<Row> {
  /** What it lists, for screen readers. */
  readonly label: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  readonly rowKey: (row: Row) => string
  /** Enter, or a double click. The first column had better have a link to the same. */
  readonly onOpen?: ((row: Row) => void) | undefined
  readonly selection?: Selection | undefined
  /** What stands there instead when there are no rows. */
  readonly empty: ReactNode
  /** Listens to j, k, x and Enter from anywhere on the page; one table of a view does. @default true */
  readonly keys?: boolean
  /** What it shows is old: an answer is awaited. */
  readonly stale?: boolean
}

/** Rows and columns, dense, with a head that stays. j and k (or the arrows) move, x selects, Enter opens. */
export function Table<Row>(props: TableProps<Row>): ReactNode {
  const { label, rows, columns, rowKey, onOpen, selection, empty, keys = true, stale = false } = props
  const say = useWords(kitWords)
  const frame = useRef<HTMLDivElement>(null)
  const body = useRef<HTMLTableSectionElement>(null)
  const [active, setActive] = useState<string>()
  const activeNth = rows.findIndex((row) => rowKey(row) === active)

  const moveTo = (nth: number) => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, nth))]
    if (row === undefined) return
    setActive(rowKey(row))
    const element = body.current?.rows[rows.indexOf(row)]
    element?.focus({ preventScroll: true })
    element?.scrollIntoView({ block: 'nearest' })
  }
  const toggle = (key: string) => {
    if (selection === undefined) return
    const next = new Set(selection.selected)
    if (!next.delete(key)) next.add(key)
    selection.onChange(next)
  }
  const acts: Readonly<Record<string, (() => void) | undefined>> = {
    j: () => moveTo(activeNth + 1),
    k: () => moveTo(activeNth < 0 ? 0 : activeNth - 1),
    x: selection && activeNth >= 0 ? () => toggle(active!) : undefined,
    Enter: onOpen && activeNth >= 0 ? () => onOpen(rows[activeNth]!) : undefined,
  }
  // Enter is the row's own, lest it open one while a button has the focus.
  useKeys(keys && rows.length > 0 ? { j: acts.j, k: acts.k, x: acts.x } : {})

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return
    const key = { ArrowDown: 'j', ArrowUp: 'k', ' ': 'x' }[event.key] ?? event.key
    const act = acts[key]
    if (act === undefined) return
    event.preventDefault()
    event.stopPropagation()
    act()
  }

  useScrolling(frame, rows.length > 0)
  if (rows.length === 0) return empty
  const allKeys = rows.map(rowKey)
  const isAll = selection !== undefined && allKeys.every((key) => selection.selected.has(key))
  return (
    <div ref={frame} className="table" data-stale={stale} aria-busy={stale}>
      <table aria-label={label}>
        <thead>
          <tr>
            {selection && (
              <th className="check" scope="col">
                <input
                  type="checkbox"
                  aria-label={say('selectAll')}
                  checked={isAll}
                  onChange={() => selection.onChange(new Set(isAll ? [] : allKeys))}
                />
              </th>
            )}
            {columns.map((column) => (
              <th key={column.key} scope="col" className={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((row, nth) => {
            const key = rowKey(row)
            return (
              <tr
                key={key}
                tabIndex={key === active || (activeNth < 0 && nth === 0) ? 0 : -1}
                className={selection?.selected.has(key) ? 'selected' : undefined}
                onFocus={() => setActive(key)}
                onKeyDown={onKeyDown}
                onDoubleClick={onOpen && (() => onOpen(row))}
              >
                {selection && (
                  <td className="check">
                    <input
                      type="checkbox"
                      aria-label={say('selectRow', { name: key })}
                      checked={selection.selected.has(key)}
                      onChange={() => toggle(key)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.key} className={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

/**
 * A table that has room keeps its head on the page; one that is wider scrolls by itself, and what scrolls cannot do
 * that. Which it is, is known once it is laid out.
 */
function useScrolling(frame: RefObject<HTMLDivElement | null>, isThere: boolean): void {
  useLayoutEffect(() => {
    const element = frame.current
    if (element === null || !isThere) return
    const look = () => {
      const isWider = element.firstElementChild!.getBoundingClientRect().width > element.clientWidth + 1
      element.toggleAttribute('data-scrolls', isWider)
    }
    const watch = new ResizeObserver(look)
    watch.observe(element)
    watch.observe(element.firstElementChild!)
    look()
    return () => watch.disconnect()
  }, [frame, isThere])
}

function classOf({ align, wideOnly, grow }: Column<never>): string | undefined {
  return [align, wideOnly && 'wide-only', grow && 'grow'].filter(Boolean).join(' ') || undefined
}
