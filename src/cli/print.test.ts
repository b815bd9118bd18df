import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import {
  type Cell,
  createPrinter,
  createProgress,
  escapeText,
  lineOf,
  printFields,
  printTable,
  widthOf,
} from './print.ts'

function capture(isTTY: boolean, env: NodeJS.ProcessEnv = {}) {
  const written = { out: '', err: '' }
  const stdout = { isTTY, write: (text: string) => (written.out += text) }
  const stderr = { isTTY, write: (text: string) => (written.err += text) }
  return { written, printer: createPrinter(stdout, stderr, env) }
}

test('text from outside is one inert line, whatever it contains', () => {
  const { written, printer } = capture(false)
  printer.line('a\r\nb\u001b[31mc\u2028d\u202ee\u009bf\ud800g\u200b')
  assert.equal(written.out, 'a\\u000d\\u000ab\\u001b[31mc\\u2028d\\u202ee\\u009bf\\ud800g\\u200b\n')
})

test('ordinary text of any script is unchanged', () => {
  for (const text of ['queue "mail" \\ 100%', '队列', 'Größe', '\u{1f600}', 'שלום'])
    assert.equal(escapeText(text), text)
})

test('printed JSON is one line and reads back the same', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const { written, printer } = capture(false)
      printer.json({ text })
      assert.equal(written.out.indexOf('\n'), written.out.length - 1)
      assert.doesNotMatch(written.out.slice(0, -1), /[\p{Cc}\p{Cf}\u2028\u2029]/u)
      assert.deepEqual(JSON.parse(written.out), { text })
    }),
  )
})

test("a problem of several lines becomes one line that starts with the program's name", () => {
  const { written, printer } = capture(false)
  printer.problem('unknown command\n(Did you mean serve?)\n')
  assert.equal(written.err, 'signalbox: unknown command (Did you mean serve?)\n')
  assert.equal(written.out, '')
})

test('a hint is not an error: it is plain on a terminal too, and not on standard output', () => {
  const { written, printer } = capture(true)
  printer.hint('there may be more; go on with --cursor a\u001b[31m')
  assert.deepEqual(written, {
    out: '',
    err: 'signalbox: there may be more; go on with --cursor a\\u001b[31m\n',
  })
})

test('colour is used on terminals only, and not if the user disabled it', () => {
  for (const [isTTY, env, coloured] of [
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
  ] as const) {
    const { written, printer } = capture(isTTY, env)
    printer.problem('no')
    assert.equal(written.err.includes('\u001b['), coloured)
  }
})

function stage(isTTY: boolean, columns = 80) {
  const written: string[] = []
  const screen = { isTTY, columns, write: (text: string) => written.push(text) }
  let now = 1_000
  const progress = createProgress(screen, () => now)
  return { written, progress, pass: (ms: number) => (now += ms) }
}

test('a bar shows the operation, its progress, and its expected end', () => {
  assert.equal(lineOf('retry', 0, 400, 0), 'retry  [--------------------]  0 %  0 of 400')
  assert.equal(lineOf('retry', 100, 400, 2_000), 'retry  [#####---------------]  25 %  100 of 400  6 s left')
  assert.equal(lineOf('retry', 1_200, 1_200, 9_000), 'retry  [####################]  100 %  1,200 of 1,200')
  // More came meanwhile than were counted first.
  assert.equal(lineOf('retry', 9, 8, 5_000), 'retry  [####################]  100 %  9 of 8')
  assert.equal(lineOf('retry', 1_234, undefined, 5_000), 'retry  1,234')
})

test('a terminal bar changes at most ten times a second, and disappears at the end', () => {
  const { written, progress, pass } = stage(true, 20)
  progress.show('copy', 1, undefined)
  progress.show('copy', 2, undefined)
  pass(100)
  progress.show('copy', 3, undefined)
  progress.show('check', 100_000_000_000, 1)
  progress[Symbol.dispose]()
  assert.deepEqual(written, [
    '\rcopy  1\u001b[K',
    '\rcopy  3\u001b[K',
    '\rcheck  [###########\u001b[K',
    '\r\u001b[K',
  ])
})

test('a destination that is not a terminal gets no bar', () => {
  const { written, progress } = stage(false)
  progress.show('copy', 1, 2)
  progress[Symbol.dispose]()
  assert.deepEqual(written, [])
})

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

test('columns are aligned with wide characters, and numbers are right-aligned', () => {
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

test('a pipe gets every cell whole, and no cell can control a terminal', () => {
  const text = 'the relay is away '.repeat(20).trim()
  assert.ok(print(['A', 'B'], [['x', text]])[1]!.endsWith(text))
  assert.equal(print(['A', 'B'], [['\u001b[2J', 'y']], 80)[1], '\\u001b[2J  y')
})

test('a field of several lines is shown under its name, and one without a value is left out', () => {
  const { written, printer } = capture(false)
  printFields(printer, { id: 'x', ended: null, added: new Date(0), error: 'first\nsecond' })
  const lines = ['id            x', 'added         1970-01-01T00:00:00.000Z', 'error         first']
  assert.equal(written.out, `${[...lines, '              second'].join('\n')}\n`)
})
