import type { Act, PaneName, Row } from './pane.ts'
import { panes } from './panes.ts'

/**
 * The state of the view, and how a key changes it. Pure: an effect of a key is returned as a request.
 *
 *     view ──/──▶ filter ──enter, escape──▶ view
 *     view ──P E D R S X──▶ ask ──y──▶ (act) view
 *     view ──?──▶ help ──any──▶ view
 */
export interface State {
  readonly pane: PaneName
  readonly mode: 'view' | 'filter' | 'ask' | 'help'
  /** Only rows that contain this text are shown, in upper or lower case. */
  readonly filter: string
  /** The id of the chosen row, and its last position. */
  readonly chosenId: string | undefined
  readonly chosenAt: number
  readonly asked: Act | undefined
  /** The view does not read until it is resumed. */
  readonly isPaused: boolean
  /** The result of an action, or its error, until the next key. */
  readonly said: string
}

export type Wish =
  | { readonly kind: 'none' }
  | { readonly kind: 'quit' }
  | { readonly kind: 'look' }
  | { readonly kind: 'redraw' }
  | { readonly kind: 'act'; readonly act: Act }

const none: Wish = { kind: 'none' }

export function firstState(pane: PaneName): State {
  return {
    ...{ pane, mode: 'view', filter: '', chosenId: undefined, chosenAt: 0 },
    ...{ asked: undefined, isPaused: false, said: '' },
  }
}

/** The rows that the filter matches. */
export function shownRows(rows: readonly Row[], filter: string): readonly Row[] {
  if (filter === '') return rows
  const wanted = filter.toLowerCase()
  return rows.filter(({ cells }) => cells.some((cell) => cell.toLowerCase().includes(wanted)))
}

/** The position of the chosen row; its last position if the row is gone. */
export function chosenPlace({ chosenId, chosenAt }: State, rows: readonly Row[]): number {
  const place = rows.findIndex(({ id }) => id === chosenId)
  return place >= 0 ? place : Math.max(0, Math.min(chosenAt, rows.length - 1))
}

/** Applies a key. `rows` are the shown rows, `page` is the number of rows that fit. */
export function press(
  state: State,
  key: string,
  rows: readonly Row[],
  page: number,
): { readonly state: State; readonly wish: Wish } {
  if (key === 'interrupt') return { state, wish: { kind: 'quit' } }
  if (key === 'redraw') return { state, wish: { kind: 'redraw' } }
  const quiet = { ...state, said: '' }
  switch (state.mode) {
    case 'help':
      return { state: { ...quiet, mode: 'view' }, wish: none }
    case 'filter':
      return { state: typed(quiet, key), wish: none }
    case 'ask': {
      const back: State = { ...quiet, mode: 'view', asked: undefined }
      if (key === 'y' || key === 'Y') return { state: back, wish: { kind: 'act', act: state.asked! } }
      return { state: { ...back, said: 'Nothing was done.' }, wish: none }
    }
    case 'view':
      return pressInView(quiet, key, rows, page)
  }
}

function typed(state: State, key: string): State {
  const moved = { ...state, chosenId: undefined, chosenAt: 0 }
  if (key === 'enter') return { ...state, mode: 'view' }
  if (key === 'escape') return { ...moved, mode: 'view', filter: '' }
  if (key === 'clear') return { ...moved, filter: '' }
  if (key === 'backspace') return { ...moved, filter: Array.from(state.filter).slice(0, -1).join('') }
  // Names of keys are longer than one character.
  if (Array.from(key).length !== 1 || state.filter.length >= 100) return state
  return { ...moved, filter: state.filter + key }
}

function pressInView(
  state: State,
  key: string,
  rows: readonly Row[],
  page: number,
): { readonly state: State; readonly wish: Wish } {
  const shown = panes.find(({ keys }) => keys.includes(key))
  if (shown !== undefined) {
    if (shown.name === state.pane) return { state, wish: { kind: 'look' } }
    return { state: { ...firstState(shown.name), isPaused: state.isPaused }, wish: { kind: 'look' } }
  }
  const place = chosenPlace(state, rows)
  const steps: Readonly<Record<string, number>> = {
    ...{ j: 1, down: 1, k: -1, up: -1, pagedown: page, pageup: -page },
    ...{ home: -rows.length, g: -rows.length, end: rows.length, G: rows.length },
  }
  if (key in steps) {
    const chosenAt = Math.max(0, Math.min(rows.length - 1, place + steps[key]!))
    return { state: { ...state, chosenAt, chosenId: rows[chosenAt]?.id }, wish: none }
  }
  switch (key) {
    case 'q':
    case 'Q':
      return { state, wish: { kind: 'quit' } }
    case 'escape':
      // Clear the filter first: the user may only want to see all rows.
      if (state.filter === '') return { state, wish: { kind: 'quit' } }
      return { state: { ...state, filter: '' }, wish: none }
    case '/':
      return { state: { ...state, mode: 'filter' }, wish: none }
    case '?':
      return { state: { ...state, mode: 'help' }, wish: none }
    case 'p': {
      const isPaused = !state.isPaused
      return { state: { ...state, isPaused }, wish: isPaused ? none : { kind: 'look' } }
    }
  }
  const asked = rows[place]?.acts[key]
  if (asked === undefined) return { state, wish: none }
  return { state: { ...state, mode: 'ask', asked, chosenAt: place, chosenId: rows[place]!.id }, wish: none }
}
