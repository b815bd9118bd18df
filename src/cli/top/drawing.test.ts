/** What the live view draws, and how little of it is written. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { columnWidths, intoCells, widthOf } from '../print.ts'
import { drawFrame, drawPlain, type Scene } from './frame.ts'
import type { Look, Row } from './pane.ts'
import { paneOf, showMs } from './panes.ts'
import { firstState } from './state.ts'
import { changes, createStyle } from './terminal.ts'

const plain = createStyle(false)
const row = (id: string, ...rest: readonly string[]): Row => ({
  ...{ id, cells: [id, ...rest], isAlert: false, acts: {} },
})
const lookOf = (rows: readonly Row[]): Look => ({ rows, isCut: false, raw: null })
const sceneOf = (rows: readonly Row[], more: Partial<Scene> = {}): Scene => ({
  ...{ state: firstState('queues'), look: lookOf(rows), boxName: 'http://here', seenAt: '12:00:00' },
  ...{ error: '', ...more },
})
const queueRow = (name: string) => row(name, '1', '2', '3', '4', '5', '6 s', '7/8', 'paused')

test('a Chinese character takes two cells, a combining mark none', () => {
  assert.equal(widthOf('mail'), 4)
  assert.equal(widthOf('邮件'), 4)
  assert.equal(widthOf('ａ，'), 4)
  assert.equal(widthOf('한글かな'), 8)
  assert.equal(widthOf('e\u0301é'), 2)
  assert.equal(widthOf('📦x'), 3)
  assert.equal(widthOf('–…'), 2)
})

test('a text is filled or cut to exactly its cells, and a wide character is never halved', () => {
  assert.equal(intoCells('ab', 4), 'ab  ')
  assert.equal(intoCells('12', 4, 'right'), '  12')
  assert.equal(intoCells('abcdef', 4), 'abc…')
  for (const width of [0, 1, 2, 3, 4, 5, 6, 7, 8])
    assert.equal(widthOf(intoCells('邮件队列', width)), width, `${width}`)
  assert.equal(intoCells('邮件队列', 4), '邮… ')
})

test('only changed lines are written, each from its start and erased first', () => {
  assert.equal(changes(['a', 'b'], ['a', 'b']), '')
  const written = changes(['a', 'b', 'c'], ['a', 'x', 'c'])
  assert.ok(written.includes('\u001b[2;1H\u001b[0m\u001b[2Kx'))
  assert.ok(!written.includes('\u001b[1;1H') && !written.includes('\u001b[3;1H'))
  assert.ok(changes(['a', 'b'], ['a']).includes('\u001b[2;1H\u001b[0m\u001b[2K'))
})

test('no line is wider than the terminal, however small, and none is missing', () => {
  const rows = Array.from({ length: 50 }, (_, at) => queueRow(`队列-${at}-with-a-rather-long-name`))
  for (const columns of [20, 40, 80, 200])
    for (const height of [5, 10, 40]) {
      const lines = drawFrame(sceneOf(rows), { columns, rows: height }, plain)
      assert.equal(lines.length, height)
      for (const line of lines) assert.ok(widthOf(line) <= columns, `${columns}: ${line}`)
    }
})

test('columns keep their needed width, and the widest shrinks first', () => {
  const { columns } = paneOf('queues')
  const rows = [queueRow('a'.repeat(60))]
  const cells = rows.map((row) => row.cells)
  const widths = columnWidths(columns, cells, 80)
  assert.equal(widths.reduce((sum, width) => sum + width, 0) + 2 * (columns.length - 1), 80)
  assert.deepEqual(
    widths.slice(1),
    columns.slice(1).map(({ head }, at) => Math.max(head.length, rows[0]!.cells[at + 1]!.length)),
  )
})

test('the selected row is on the screen, and marked without colour too', () => {
  const rows = Array.from({ length: 100 }, (_, at) => queueRow(`q${at}`))
  const state = { ...firstState('queues'), chosenId: 'q90' }
  const lines = drawFrame(sceneOf(rows, { state }), { columns: 80, rows: 12 }, plain)
  assert.deepEqual(
    lines.filter((line) => line.startsWith('> ')).map((line) => line.slice(2, 5)),
    ['q90'],
  )
  assert.ok(lines.every((line) => !line.includes('\u001b')))
  const coloured = drawFrame(sceneOf(rows, { state }), { columns: 80, rows: 12 }, createStyle(true))
  assert.ok(coloured.some((line) => line.startsWith('\u001b[7m> q90')))
})

test('the screen shows questions, the filter, problems and an empty table', () => {
  const size = { columns: 100, rows: 24 }
  const state = firstState('queues')
  const text = (scene: Scene) => drawFrame(scene, size, plain).join('\n')
  assert.match(text(sceneOf([])), /No queue has open jobs/)
  assert.match(text(sceneOf([queueRow('a')], { state: { ...state, filter: 'zz' } })), /Nothing contains that/)
  assert.match(text(sceneOf([], { state: { ...state, mode: 'filter', filter: 'ma' } })), /\/ma_/)
  assert.match(text(sceneOf([], { error: 'It is away.' })), /It is away\./)
  assert.match(text(sceneOf([], { look: undefined })), /Looking/)
  const pendingAct = { question: 'Pause mail?', perform: async () => '' }
  assert.match(text(sceneOf([], { state: { ...state, mode: 'ask', pendingAct } })), /Pause mail\? y\/N/)
  assert.match(text(sceneOf([], { state: { ...state, mode: 'help' } })), /evict the holder/)
})

test('text from outside cannot control the terminal', async () => {
  const evil = 'a\u001b[2Jb\u202ec'
  const stats = async () => [
    {
      ...{
        queue: evil,
        paused: false,
        limits: null,
        scheduled: 0,
        ready: 0,
        waiting: 0,
        running: 0,
        dead: 1,
        approximate: false,
      },
      oldestReadyAt: null,
    },
  ]
  const look = await paneOf('queues').look({ jobs: { stats } } as never)
  const [shown] = look.rows
  assert.equal(shown!.id, evil)
  const words = [...shown!.cells, ...Object.values(shown!.acts).map(({ question }) => question)].join(' ')
  assert.doesNotMatch(words, /[\p{Cc}\p{Cf}]/u)
  assert.match(words, /a\\u001b\[2Jb\\u202ec/)
})

test('a frame for a pipe has every row and no styles', () => {
  const rows = Array.from({ length: 100 }, (_, at) => queueRow(`q${at}`))
  const lines = drawPlain(sceneOf(rows), 100)
  assert.equal(lines.length, 102)
  assert.match(lines[0]!, /^signalbox top: queues: http:\/\/here/)
  assert.match(lines[1]!, /^QUEUE +READY/)
})

test('waits are shown with as many digits as matter', () => {
  assert.deepEqual([0, 0.42, 15.4, 1_500, 300_000].map(showMs), ['0 ms', '0.4 ms', '15 ms', '1.5 s', '5 min'])
})
