import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { useKeys } from './keys.ts'
import { News } from './news.tsx'
import { useSteadyRows } from './steady-rows.ts'

export interface Column<Row> {
  readonly key: string
  readonly head: string
  readonly cell: (row: Row) => ReactNode
  /** Numbers stand at the end of their cell. */
  readonly align?: 'end'
  /** Left out on a phone. */
  readonly wideOnly?: boolean
  /** Left out on a phone and in a narrow window. */
  readonly roomyOnly?: boolean
  /** Never cut: what it shows is short, or sets its own width. */
  readonly whole?: boolean
  /** Goes on in the next line where others are cut. */
  readonly wrap?: boolean
  /** Takes the room that is left. */
  readonly grow?: boolean
}

export interface Selection<Row = unknown> {
  readonly selected: ReadonlySet<string>
  /** `rows` are those that are shown: some may have left the list since. */
  readonly onChange: (selected: ReadonlySet<string>, rows: readonly Row[]) => void
}

export interface TableProps<Row> {
  /** What it lists, for screen readers. */
  readonly label: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  readonly rowKey: (row: Row) => string
  /** Enter, or a double click. The first column had better have a link to the same. */
  readonly onOpen?: ((row: Row) => void) | undefined
  readonly selection?: Selection<Row> | undefined
  /** What stands there instead when there are no rows. */
  readonly empty: ReactNode
  /** Listens to j, k, x and Enter from anywhere on the page; one table of a view does. @default true */
  readonly keys?: boolean
  /** What it shows is old: an answer is awaited. */
  readonly stale?: boolean
}

/**
 * Rows and columns, dense, with a head that stays. j and k (or the arrows) move, x selects, Enter opens. Rows stand still
 * while the pointer is on the table or something is selected; see held-rows.ts.
 */
export function Table<Row>(props: TableProps<Row>): ReactNode {
  const { label, columns, rowKey, onOpen, selection, empty, keys = true, stale = false } = props
  const say = useWords(kitWords)
  const frame = useRef<HTMLDivElement>(null)
  const body = useRef<HTMLTableSectionElement>(null)
  const [active, setActive] = useState<string>()
  const [isPointed, setPointed] = useState(false)
  const steady = useSteadyRows(props.rows, rowKey, {
    ...{ isPointed, isStale: stale },
    selected: selection?.selected,
  })
  const rows = steady.rows.map(({ row }) => row)
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
    selection.onChange(next, rows)
  }
  const acts: Readonly<Record<string, (() => void) | undefined>> = {
    j: () => moveTo(activeNth + 1),
    k: () => moveTo(activeNth < 0 ? 0 : activeNth - 1),
    x: selection && activeNth >= 0 ? () => toggle(active!) : undefined,
    Enter: onOpen && activeNth >= 0 ? () => onOpen(rows[activeNth]!) : undefined,
  }
  // The row handles Enter, so that Enter on a focused button does not open the row.
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
  // A table that is gone does not hear that the pointer left it.
  useEffect(() => {
    if (rows.length === 0) setPointed(false)
  }, [rows.length])
  if (rows.length === 0) return empty
  const allKeys = rows.map(rowKey)
  const isAll = selection !== undefined && allKeys.every((key) => selection.selected.has(key))
  // A finger leaves no pointer behind.
  const point = (event: PointerEvent) =>
    setPointed(event.type === 'pointerenter' && event.pointerType !== 'touch')
  return (
    <div
      ref={frame}
      className="table"
      data-stale={stale}
      aria-busy={stale}
      onPointerEnter={point}
      onPointerLeave={point}
      onPointerOver={tellWhole}
    >
      <News steady={steady} />
      <table aria-label={label}>
        <thead>
          <tr>
            {selection && (
              <th className="check" scope="col">
                <input
                  type="checkbox"
                  aria-label={say('selectAll')}
                  checked={isAll}
                  onChange={() => selection.onChange(new Set(isAll ? [] : allKeys), rows)}
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
          {steady.rows.map(({ key, row, isGone }, nth) => {
            const names = [selection?.selected.has(key) && 'selected', isGone && 'gone'].filter(Boolean)
            return (
              <tr
                key={key}
                tabIndex={key === active || (activeNth < 0 && nth === 0) ? 0 : -1}
                className={names.join(' ') || undefined}
                title={isGone ? say('rowGone') : undefined}
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

/** The whole text of a cell that is cut, in its title. */
function tellWhole({ target }: PointerEvent): void {
  const cell = target instanceof Element ? target.closest<HTMLElement>('td, th') : null
  if (cell === null) return
  if (cell.scrollWidth > cell.clientWidth) cell.title = cell.innerText
  else cell.removeAttribute('title')
}

/**
 * A table that fits has a sticky header. A wider table scrolls in its own box, where a sticky header cannot work. The
 * layout decides, so the width is measured after it.
 */
function useScrolling(frame: RefObject<HTMLDivElement | null>, isThere: boolean): void {
  useLayoutEffect(() => {
    const element = frame.current
    if (element === null || !isThere) return
    const table = element.querySelector('table')!
    const look = () => {
      const isWider = table.getBoundingClientRect().width > element.clientWidth + 1
      element.toggleAttribute('data-scrolls', isWider)
    }
    const watch = new ResizeObserver(look)
    watch.observe(element)
    watch.observe(table)
    look()
    return () => watch.disconnect()
  }, [frame, isThere])
}

function classOf({ align, wideOnly, roomyOnly, grow, whole, wrap }: Column<never>): string | undefined {
  const names = [
    ...[align, wideOnly && 'wide-only', roomyOnly && 'roomy-only'],
    ...[grow && 'grow', whole && 'whole', wrap && 'wrap'],
  ]
  return names.filter(Boolean).join(' ') || undefined
}
