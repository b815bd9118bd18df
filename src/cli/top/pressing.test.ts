/** What keys do. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Act, Row } from './pane.ts'
import { chosenIndex, firstState, type KeyEffect, press, type State, shownRows } from './state.ts'
import { decodeKeys } from './terminal.ts'

const act: Act = { question: 'Pause?', perform: async () => 'paused' }
const rows: readonly Row[] = ['mail', '邮件', 'images'].map((id) => ({
  ...{ id, cells: [id], isAlert: false, acts: { P: act } },
}))

/** The state after these keys, and the last effect. */
function after(
  keys: readonly string[],
  from: State = firstState('queues'),
): { state: State; effect: KeyEffect } {
  let state = from
  let effect: KeyEffect = { kind: 'none' }
  for (const key of keys) ({ state, effect } = press(state, key, shownRows(rows, state.filter), 10))
  return { state, effect }
}

test('terminal input is read as keys, also several at once and unknown ones', () => {
  assert.deepEqual(decodeKeys('jk'), ['j', 'k'])
  assert.deepEqual(decodeKeys('\u001b[A\u001bOB\u001b[5~'), ['up', 'down', 'pageup'])
  assert.deepEqual(decodeKeys('\u001b'), ['escape'])
  assert.deepEqual(decodeKeys('\u001b\u001b'), ['escape', 'escape'])
  assert.deepEqual(decodeKeys('\u001b[1;5Cx\u001bfy'), ['x', 'y'])
  assert.deepEqual(decodeKeys('邮📦\u007f\r\u0003'), ['邮', '📦', 'backspace', 'enter', 'interrupt'])
  assert.deepEqual(decodeKeys('\u0001\u0000'), [])
})

test('j and k move and stop at the ends, and the selection follows its row when others come and go', () => {
  const { state } = after(['j', 'down', 'j', 'j', 'k'])
  assert.equal(state.chosenId, '邮件')
  assert.equal(chosenIndex(state, [rows[2]!, rows[0]!, rows[1]!]), 2)
  assert.equal(chosenIndex(state, [rows[0]!]), 0)
  assert.equal(chosenIndex(state, []), 0)
  assert.equal(after(['G']).state.chosenId, 'images')
  assert.equal(after(['G', 'g']).state.chosenId, 'mail')
})

test('the keys of the dashboard open its pages, each with fresh data', () => {
  for (const [key, pane] of [
    ['l', 'locks'],
    ['n', 'nodes'],
    ['c', 'contention'],
    ['w', 'workers'],
    ['t', 'tasks'],
  ] as const) {
    const { state, effect } = after(['/', 'x', 'enter', key])
    assert.deepEqual([state.pane, state.filter, effect.kind], [pane, '', 'look'])
  }
})

test('a filter is typed, edited, kept with Enter and ended with Escape; its letters are no commands', () => {
  assert.deepEqual(after(['/', 'M', 'A', 'x', 'backspace']).state.filter, 'MA')
  assert.deepEqual(
    shownRows(rows, 'MA').map(({ id }) => id),
    ['mail', 'images'],
  )
  assert.deepEqual(
    shownRows(rows, '邮').map(({ id }) => id),
    ['邮件'],
  )
  const kept = after(['/', 'q', 'Q', 'enter'])
  assert.deepEqual([kept.state.mode, kept.state.filter, kept.effect.kind], ['view', 'qQ', 'none'])
  assert.equal(after(['/', 'a', 'escape']).state.filter, '')
  const ended = after(['escape'], kept.state)
  assert.deepEqual([ended.state.filter, ended.effect.kind], ['', 'none'])
})

test('a capital letter asks first: only y acts, and on the row that the question named', () => {
  const asked = after(['j', 'P'])
  assert.deepEqual([asked.state.mode, asked.state.pendingAct, asked.effect.kind], ['ask', act, 'none'])
  const done = after(['y'], asked.state)
  assert.deepEqual([done.state.mode, done.effect], ['view', { kind: 'act', act }])
  for (const key of ['n', 'enter', 'escape', 'Q', 'P']) {
    const not = after([key], asked.state)
    assert.deepEqual([not.state.mode, not.effect.kind], ['view', 'none'], key)
  }
  assert.deepEqual(after(['E']).state.mode, 'view')
})

test('q, Q, Escape and Ctrl+C quit, digits open pages, p pauses and continues, ? shows help', () => {
  for (const key of ['q', 'Q', 'escape', 'interrupt']) assert.equal(after([key]).effect.kind, 'quit', key)
  assert.equal(after(['/', 'interrupt']).effect.kind, 'quit')
  const shown = ['1', '2', '3', '4', '5', '6', 'l', 'n', 'c'].map((key) => after([key]).state.pane)
  assert.deepEqual(shown, [
    'queues',
    'locks',
    'nodes',
    'contention',
    'workers',
    'tasks',
    'locks',
    'nodes',
    'contention',
  ])
  const paused = after(['p'])
  assert.deepEqual([paused.state.isPaused, paused.effect.kind], [true, 'none'])
  assert.equal(after(['l'], paused.state).state.isPaused, true)
  const resumed = after(['p'], paused.state)
  assert.deepEqual([resumed.state.isPaused, resumed.effect.kind], [false, 'look'])
  assert.equal(after(['?']).state.mode, 'help')
  assert.deepEqual([after(['?', 'Q']).state.mode, after(['?', 'Q']).effect.kind], ['view', 'none'])
})
