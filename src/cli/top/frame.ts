import { intoCells, layOutTable } from '../print.ts'
import type { Look } from './pane.ts'
import { paneOf, panes } from './panes.ts'
import { chosenIndex, type State, shownRows } from './state.ts'
import type { Size, Style } from './terminal.ts'

/** The data of a frame. */
export interface Scene {
  readonly state: State
  readonly look: Look | undefined
  /** The server or store, as text for the user. */
  readonly boxName: string
  /** The time of the last successful read, as text. */
  readonly seenAt: string
  /** The error of the last read; '' if it succeeded. */
  readonly error: string
}

/** The lines that are not rows: title, heads, message, keys. */
const otherLines = 4

/** The number of rows that fit. */
export function pageSize({ rows }: Size): number {
  return Math.max(1, rows - otherLines)
}

/** Draws the whole screen, line by line. No line is wider than the screen. */
export function drawFrame(scene: Scene, size: Size, style: Style): readonly string[] {
  const { state, look } = scene
  const cut = (text: string) => intoCells(text, size.columns).trimEnd()
  const page = pageSize(size)
  const body = state.mode === 'help' ? helpLines.map(cut) : drawTable(scene, size, page, style)
  const filled = Array.from({ length: page + 1 }, (_, at) => body[at] ?? '')
  const message = messageLine(scene)
  const isUrgent = scene.error !== '' || state.mode === 'ask'
  return [
    style.strong(cut(title(scene))),
    ...filled,
    isUrgent ? style.alert(cut(message)) : cut(message),
    style.faint(cut(foot(state, look))),
  ].slice(0, Math.max(1, size.rows))
}

function title({ state, look, boxName, seenAt }: Scene): string {
  const tabs = panes.map(({ name, keys: [key] }) =>
    name === state.pane ? `[${key} ${name}]` : ` ${key} ${name} `,
  )
  const count = look === undefined ? '' : `  ${look.rows.length}${look.isCut ? '+' : ''}`
  return `signalbox top ${tabs.join('')}${count}  ${boxName}  ${seenAt}${state.isPaused ? '  (paused: p goes on)' : ''}`
}

function messageLine({ state, error }: Scene): string {
  if (state.mode === 'ask') return `${state.pendingAct!.question} y/N`
  if (state.mode === 'filter') return `/${state.filter}_`
  if (state.message !== '') return state.message
  if (error !== '') return error
  return state.filter === '' ? '' : `Only what contains "${state.filter}" is shown (Esc shows all).`
}

const actNames: Readonly<Record<string, string>> = {
  P: 'P pause/resume',
  R: 'R retry dead',
  E: 'E evict holder',
  D: 'D drain',
  S: 'S stop worker',
  X: 'X cancel task',
}

function foot(state: State, look: Look | undefined): string {
  const rows = shownRows(look?.rows ?? [], state.filter)
  const acts = Object.keys(rows[chosenIndex(state, rows)]?.acts ?? {}).map((key) => actNames[key] ?? key)
  return ['j/k move', '/ filter', 'p pause', '? help', 'q quit', ...acts].join('  ')
}

function drawTable({ state, look }: Scene, { columns }: Size, page: number, style: Style): readonly string[] {
  const pane = paneOf(state.pane)
  if (look === undefined) return ['', '  Looking…']
  const rows = shownRows(look.rows, state.filter)
  if (rows.length === 0)
    return [
      '',
      intoCells(look.rows.length === 0 ? `  ${pane.empty}` : '  Nothing contains that.', columns).trimEnd(),
    ]
  const chosen = chosenIndex(state, rows)
  // The chosen row is always on the page, and the page moves no more than it must.
  const from = Math.max(0, Math.min(chosen - Math.floor(page / 2), rows.length - page))
  const shown = rows.slice(from, from + page)
  const cells = shown.map((row) => row.cells)
  const [heads = '', ...lines] = layOutTable(pane.columns, cells, columns - markWidth)
  return [
    style.faint(intoCells(`  ${heads}`, columns)),
    ...shown.map((row, at) => {
      const isChosen = from + at === chosen
      const line = intoCells(`${isChosen ? '> ' : '  '}${lines[at]}`, columns)
      if (isChosen) return style.chosen(line)
      return row.isAlert ? style.alert(line) : line
    }),
  ]
}

/** The width of the mark before each row. */
const markWidth = 2

const helpLines: readonly string[] = [
  '',
  '  1  2  3  4  5  6 queues, locks, nodes, contention, workers, tasks (l, n, c, w and t as well)',
  '  j  k  ↓  ↑       the next row, the one before',
  '  g  G  PgUp PgDn  the first row, the last, a page',
  '  /                show only rows that contain a text (Enter keeps it, Esc ends it)',
  '  p                stop looking, and go on',
  '  q  Q  Esc Ctrl+C quit',
  '',
  '  What changes something is a capital letter, and asks first:',
  '  P                pause or resume the queue; let the worker be quiet, or resume it',
  '  R                retry the dead jobs of the queue',
  '  E                evict the holder of the lock',
  '  D                drain the node, or give it work again',
  '  S                stop the worker',
  '  X                cancel the task',
  '',
  '  Any key closes this.',
]

/** One frame for a pipe: every row, no styles, no keys. */
export function drawPlain({ state, look, boxName, seenAt }: Scene, columns: number): readonly string[] {
  const pane = paneOf(state.pane)
  const rows = look?.rows ?? []
  const cells = rows.map((row) => row.cells)
  const lines = layOutTable(pane.columns, cells, Math.max(columns, 40) - markWidth)
  return [
    `signalbox top: ${pane.name}: ${boxName}  ${seenAt}`,
    ...(rows.length === 0 ? [pane.empty] : lines.map((line) => line.trimEnd())),
  ]
}
