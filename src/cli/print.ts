/**
 * What the command line writes. Text from outside (names, arguments, errors) may hold terminal commands, line breaks
 * or marks that reverse what is read; all of that is written as visible escapes, so one message is one inert line.
 */
export interface Printer {
  /** How wide the terminal on standard output is; undefined where that is no terminal. */
  readonly columns?: number | undefined
  /** One line for people, on standard output. */
  line(text: string): void
  /** One line of JSON for programs, on standard output. */
  json(value: unknown, to?: 'stdout' | 'stderr'): void
  /** One line that says what is wrong, on standard error; `code` is that of the error, for programs. */
  problem(text: string, code?: string): void
  /** One line about what to do next, on standard error, in no colour: it is no error. */
  hint(text: string): void
  /** Text of several lines that we wrote ourselves, such as help. */
  page(text: string, to?: 'stdout' | 'stderr'): void
}

/** The part of a stream that printing needs. */
export interface Output {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

/** Makes a printer; colour only on a terminal, and never with NO_COLOR set. */
export function createPrinter(
  stdout: Output = process.stdout,
  stderr: Output = process.stderr,
  env: NodeJS.ProcessEnv = process.env,
): Printer {
  const colour = stderr.isTTY === true && !env.NO_COLOR
  const prefix = colour ? '\u001b[31msignalbox:\u001b[39m ' : 'signalbox: '
  return {
    columns: stdout.isTTY === true ? stdout.columns || undefined : undefined,
    line: (text) => void stdout.write(`${escapeText(text)}\n`),
    json: (value, to = 'stdout') =>
      void (to === 'stdout' ? stdout : stderr).write(`${escapeText(JSON.stringify(value))}\n`),
    problem: (text) => void stderr.write(`${prefix}${escapeText(inOneLine(text))}\n`),
    hint: (text) => void stderr.write(`signalbox: ${escapeText(inOneLine(text))}\n`),
    page: (text, to = 'stdout') => {
      const lines = text.split('\n').map(escapeText).join('\n')
      void (to === 'stdout' ? stdout : stderr).write(lines)
    },
  }
}

/** The same printer for `--json`: a problem is a line of JSON too, `{"code":…,"message":…}`. */
export function withJsonProblems(printer: Printer): Printer {
  return {
    ...printer,
    problem: (text, code) => printer.json({ ...(code && { code }), message: inOneLine(text) }, 'stderr'),
  }
}

function inOneLine(text: string): string {
  return text.trim().replaceAll(/\s*\n\s*/g, ' ')
}

/**
 * Control characters, line and paragraph separators, marks without a shape (they reorder or hide text) and lone
 * surrogates. Format characters include the joiners that some scripts and emoji need; losing those in a terminal is
 * the smaller harm.
 */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu

/** The text with all that a terminal might obey written as `\uXXXX`, which is also how JSON would write it. */
export function escapeText(text: string): string {
  return text.replace(unsafe, (character) => {
    let escaped = ''
    for (let unit = 0; unit < character.length; unit++) {
      escaped += `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`
    }
    return escaped
  })
}
