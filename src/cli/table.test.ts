import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createPrinter } from './print.ts'
import { type Cell, printTable, widthOf } from './table.ts'

/** The lines that a terminal of this width gets; without a width it is a pipe. */
function print(heads: readonly string[], rows: readonly (readonly Cell[])[], columns?: number) {
  let out = ''
  const stdout = {
    write: (text: string) => (out += text),
    ...(columns === undefined ? {} : { isTTY: true, columns }),
  }
  printTable(createPrinter(stdout, stdout, {}), heads, rows)
  return out.split('\n').slice(0, -1)
}

test('columns are aligned over wide characters, and numbers stand right', () => {
  assert.deepEqual(
    print(
      ['QUEUE', 'READY', 'STATE'],
      [
        ['mail', 12, ''],
        ['邮件队列', 3, 'paused'],
        ['カナ', null, 'x'],
      ],
    ),
    ['QUEUE     READY  STATE', 'mail         12', '邮件队列      3  paused', 'カナ          -  x'],
  )
})

test('a table fits its terminal: long cells end in an ellipsis, and ids are cut last', () => {
  const id = '01k9z3v8qe0m4t9wq3rb5c7xkd'
  const rows = [[id, 'dead', '邮件'.repeat(30), 'the relay is away '.repeat(10)]]
  for (const columns of [120, 80, 60]) {
    const lines = print(['=ID', 'STATE', 'QUEUE', 'ERROR'], rows, columns)
    for (const line of lines) assert.ok(widthOf(line) <= columns, `${columns}: ${line}`)
    assert.ok(lines[1]!.startsWith(`${id}  dead `), lines[1])
    assert.match(lines[1]!, /…/)
  }
  for (const columns of [30, 10, 3])
    for (const line of print(['=ID', 'STATE', 'QUEUE', 'ERROR'], rows, columns))
      assert.ok(widthOf(line) <= columns, `${columns}: ${line}`)
})

test('a pipe gets every cell whole, and nothing in a cell can steer a terminal', () => {
  const text = 'the relay is away '.repeat(20).trim()
  assert.ok(print(['A', 'B'], [['x', text]])[1]!.endsWith(text))
  assert.equal(print(['A', 'B'], [['\u001b[2J', 'y']], 80)[1], '\\u001b[2J  y')
})
