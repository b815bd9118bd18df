import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { createPrinter, escapeText } from './print.ts'

function capture(isTTY: boolean, env: NodeJS.ProcessEnv = {}) {
  const written = { out: '', err: '' }
  const stdout = { isTTY, write: (text: string) => (written.out += text) }
  const stderr = { isTTY, write: (text: string) => (written.err += text) }
  return { written, printer: createPrinter(stdout, stderr, env) }
}

test('text from outside is one inert line, whatever it holds', () => {
  const { written, printer } = capture(false)
  printer.line('a\r\nb\u001b[31mc\u2028d\u202ee\u009bf\ud800g\u200b')
  assert.equal(written.out, 'a\\u000d\\u000ab\\u001b[31mc\\u2028d\\u202ee\\u009bf\\ud800g\\u200b\n')
})

test('ordinary text of any script is left alone', () => {
  for (const text of ['queue "mail" \\ 100%', '队列', 'Größe', '\u{1f600}', 'שלום'])
    assert.equal(escapeText(text), text)
})

test('whatever is printed as JSON is one line and reads back the same', () => {
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

test('a problem of several lines becomes one, named after the program', () => {
  const { written, printer } = capture(false)
  printer.problem('unknown command\n(Did you mean serve?)\n')
  assert.equal(written.err, 'signalbox: unknown command (Did you mean serve?)\n')
  assert.equal(written.out, '')
})

test('a hint is no error: it is plain on a terminal too, and not on standard output', () => {
  const { written, printer } = capture(true)
  printer.hint('there may be more; go on with --cursor a\u001b[31m')
  assert.deepEqual(written, {
    out: '',
    err: 'signalbox: there may be more; go on with --cursor a\\u001b[31m\n',
  })
})

test('colour is for terminals, and not for those who want none', () => {
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
