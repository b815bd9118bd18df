import type { Act, PaneName, Row } from './pane.ts'
import { panes } from './panes.ts'

/**
 * The state of the view, and how a key changes it. Pure: the session carries out the returned effect.
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
  /** The action that waits for the user's yes. */
  readonly pendingAct: Act | undefined
  /** The view does not read until it is resumed. */
  readonly isPaused: boolean
  /** The result of an action, or its error, until the next key. */
  readonly message: string
}

export type KeyEffect =
  | { readonly kind: 'none' }
  | { readonly kind: 'quit' }
  | { readonly kind: 'look' }
  | { readonly kind: 'redraw' }
  | { readonly kind: 'act'; readonly act: Act }

const none: KeyEffect = { kind: 'none' }

export function firstState(pane: PaneName): State {
  return {
    ...{ pane, mode: 'view', filter: '', chosenId: undefined, chosenAt: 0 },
    ...{ pendingAct: undefined, isPaused: false, message: '' },
  }
}

/** The rows that the filter matches. */
export function shownRows(rows: readonly Row[], filter: string): readonly Row[] {
  if (filter === '') return rows
  const wanted = filter.toLowerCase()
  return rows.filter(({ cells }) => cells.some((cell) => cell.toLowerCase().includes(wanted)))
}

/** The position of the chosen row; its last position if the row is gone. */
export function chosenIndex({ chosenId, chosenAt }: State, rows: readonly Row[]): number {
  const index = rows.findIndex(({ id }) => id === chosenId)
  return index >= 0 ? index : Math.max(0, Math.min(chosenAt, rows.length - 1))
}

/** Applies a key. `rows` are the shown rows, `page` is the number of rows that fit. */
export function press(
  state: State,
  key: string,
  rows: readonly Row[],
  page: number,
): { readonly state: State; readonly effect: KeyEffect } {
  if (key === 'interrupt') return { state, effect: { kind: 'quit' } }
  if (key === 'redraw') return { state, effect: { kind: 'redraw' } }
  const cleared = { ...state, message: '' }
  switch (state.mode) {
    case 'help':
      return { state: { ...cleared, mode: 'view' }, effect: none }
    case 'filter':
      return { state: typeFilter(cleared, key), effect: none }
    case 'ask': {
      const back: State = { ...cleared, mode: 'view', pendingAct: undefined }
      if (key === 'y' || key === 'Y') return { state: back, effect: { kind: 'act', act: state.pendingAct! } }
      return { state: { ...back, message: 'Nothing was done.' }, effect: none }
    }
    case 'view':
      return pressInView(cleared, key, rows, page)
  }
}

function typeFilter(state: State, key: string): State {
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
): { readonly state: State; readonly effect: KeyEffect } {
  const shown = panes.find(({ keys }) => keys.includes(key))
  if (shown !== undefined) {
    if (shown.name === state.pane) return { state, effect: { kind: 'look' } }
    return { state: { ...firstState(shown.name), isPaused: state.isPaused }, effect: { kind: 'look' } }
  }
  const index = chosenIndex(state, rows)
  const steps: Readonly<Record<string, number>> = {
    ...{ j: 1, down: 1, k: -1, up: -1, pagedown: page, pageup: -page },
    ...{ home: -rows.length, g: -rows.length, end: rows.length, G: rows.length },
  }
  if (key in steps) {
    const chosenAt = Math.max(0, Math.min(rows.length - 1, index + steps[key]!))
    return { state: { ...state, chosenAt, chosenId: rows[chosenAt]?.id }, effect: none }
  }
  switch (key) {
    case 'q':
    case 'Q':
      return { state, effect: { kind: 'quit' } }
    case 'escape':
      // Clear the filter first: the user may only want to see all rows.
      if (state.filter === '') return { state, effect: { kind: 'quit' } }
      return { state: { ...state, filter: '' }, effect: none }
    case '/':
      return { state: { ...state, mode: 'filter' }, effect: none }
    case '?':
      return { state: { ...state, mode: 'help' }, effect: none }
    case 'p': {
      const isPaused = !state.isPaused
      return { state: { ...state, isPaused }, effect: isPaused ? none : { kind: 'look' } }
    }
  }
  const pendingAct = rows[index]?.acts[key]
  if (pendingAct === undefined) return { state, effect: none }
  return {
    state: { ...state, mode: 'ask', pendingAct, chosenAt: index, chosenId: rows[index]!.id },
    effect: none,
  }
}
