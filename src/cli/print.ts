import { eastAsianWidth } from 'get-east-asian-width'

/**
 * Writes the output of commands. Text from outside (names, arguments, errors) may have terminal commands, line breaks or
 * direction marks. The printer writes them as visible escapes, so a message is always one harmless line.
 */
export interface Printer {
  /** The width of the terminal on standard output; undefined: standard output is no terminal. */
  readonly columns?: number | undefined
  /** Writes one line of text to standard output. */
  line(text: string): void
  /** Writes one line of JSON. @default to standard output */
  json(value: unknown, to?: 'stdout' | 'stderr'): void
  /** Writes the answer of a command to standard output: as JSON, or as one line of text. */
  answer(asJson: boolean | undefined, value: unknown, line: string): void
  /** Writes one line about an error to standard error; `code` is the code of the error. */
  problem(text: string, code?: string): void
  /** Writes one line about a next step to standard error, without colour, because it is no error. */
  hint(text: string): void
  /** Writes text of several lines from our own source, such as help. */
  page(text: string, to?: 'stdout' | 'stderr'): void
}

/** The part of a stream that a printer uses. */
export interface Output {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

/** Creates a printer. It uses colour only on a terminal, and never if NO_COLOR is set. */
export function createPrinter(
  stdout: Output = process.stdout,
  stderr: Output = process.stderr,
  env: NodeJS.ProcessEnv = process.env,
): Printer {
  const colour = stderr.isTTY === true && !env.NO_COLOR
  const prefix = colour ? '\u001b[31msignalbox:\u001b[39m ' : 'signalbox: '
  const line = (text: string) => void stdout.write(`${escapeText(text)}\n`)
  const json: Printer['json'] = (value, to = 'stdout') =>
    void (to === 'stdout' ? stdout : stderr).write(`${escapeText(JSON.stringify(value))}\n`)
  return {
    columns: stdout.isTTY === true ? stdout.columns || undefined : undefined,
    line,
    json,
    answer: (asJson, value, text) => (asJson ? json(value) : line(text)),
    problem: (text) => void stderr.write(`${prefix}${escapeText(inOneLine(text))}\n`),
    hint: (text) => void stderr.write(`signalbox: ${escapeText(inOneLine(text))}\n`),
    page: (text, to = 'stdout') => {
      const lines = text.split('\n').map(escapeText).join('\n')
      void (to === 'stdout' ? stdout : stderr).write(lines)
    },
  }
}

/** Returns the printer for `--json`: it writes an error as a line of JSON, `{"code":…,"message":…}`. */
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
 * Control characters, line and paragraph separators, format characters (they reorder or hide text) and lone surrogates.
 * Format characters include the joiners of some scripts and emoji. To escape these too is the smaller harm.
 */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu

/** Writes unsafe characters as `\uXXXX`, as JSON does. */
export function escapeText(text: string): string {
  return text.replace(unsafe, (character) => {
    let escaped = ''
    for (let unit = 0; unit < character.length; unit++) {
      escaped += `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`
    }
    return escaped
  })
}

/**
 * A progress bar on one line of standard error. It overwrites the line and removes it at the end:
 *
 *     retry  [##########----------]  50 %  1,200 of 2,400  12 s left
 *
 * Only a terminal gets the bar. Its text comes from our own source, so it has no terminal commands.
 */
export interface Progress extends Disposable {
  /** `total` undefined: unknown. */
  show(what: string, done: number, total: number | undefined): void
}

const barWidth = 20
/** The shortest time between two updates: users cannot read faster. */
const leastMs = 100

export function createProgress(screen: Output = process.stderr, now: () => number = Date.now): Progress {
  const startedAt = now()
  let shownAt = Number.NEGATIVE_INFINITY
  let lastWhat = ''
  return {
    show(what, done, total) {
      const at = now()
      if (!screen.isTTY || (at - shownAt < leastMs && what === lastWhat)) return
      shownAt = at
      lastWhat = what
      const line = lineOf(what, done, total, at - startedAt)
      screen.write(`\r${line.slice(0, (screen.columns || 80) - 1)}\u001b[K`)
    },
    [Symbol.dispose]() {
      if (shownAt > 0) screen.write('\r\u001b[K')
    },
  }
}

/** Returns the text of the bar. */
export function lineOf(what: string, done: number, total: number | undefined, elapsedMs: number): string {
  const count = (number: number) => Math.round(number).toLocaleString('en-US')
  if (total === undefined || total <= 0) return `${what}  ${count(done)}`
  const part = Math.min(1, done / total)
  const full = Math.round(part * barWidth)
  const bar = `[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}]`
  const words = [what, bar, `${Math.floor(part * 100)} %`, `${count(done)} of ${count(total)}`]
  // Show no time at the beginning, when the estimate would be wrong.
  if (part > 0.02 && part < 1 && elapsedMs > 1_000)
    words.push(`${Math.ceil(((elapsedMs / part) * (1 - part)) / 1_000)} s left`)
  return words.join('  ')
}

export type Cell = string | number | null

/**
 * Prints rows under their heads, in aligned columns; numbers are aligned to the right. On a terminal no line exceeds its
 * width: long cells end in an ellipsis. Elsewhere nothing is cut, because a program or a user may copy the text. A head
 * that begins with `=` is over ids, which are cut last.
 */
export function printTable(
  printer: Printer,
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  const columns = heads.map((head, at): Column => {
    const cells = rows.map((row) => row[at])
    const isNumeric =
      cells.some(isNumber) && cells.every((cell) => typeof cell !== 'string' || isNumber(cell))
    const isId = head.startsWith('=')
    return { head: isId ? head.slice(1) : head, align: isNumeric ? 'right' : 'left', isId }
  })
  const texts = rows.map((row) => row.map((cell) => escapeText(cell === null ? '-' : String(cell))))
  const { columns: width = Number.POSITIVE_INFINITY } = printer
  for (const line of layOutTable(columns, texts, width))
    printer.line((widthOf(line) <= width ? line : intoCells(line, width)).trimEnd())
}

export interface Column {
  readonly head: string
  readonly align: 'left' | 'right'
  /** A column of ids is cut last, because users copy ids. @default false */
  readonly isId?: boolean
}

const gap = '  '

/** Lays out a table in aligned columns: a line with the heads, then a line for each row. */
export function layOutTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  available: number,
): readonly string[] {
  const widths = columnWidths(columns, rows, available)
  const textOf = (cells: readonly string[]) =>
    cells.map((cell, at) => intoCells(cell, widths[at]!, columns[at]!.align)).join(gap)
  return [columns.map(({ head }) => head), ...rows].map(textOf)
}

/** Makes each column as wide as its widest cell. If that is too wide, the widest columns shrink first. */
export function columnWidths(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  available: number,
): readonly number[] {
  const widths = columns.map(({ head }, at) =>
    Math.max(widthOf(head), ...rows.map((cells) => widthOf(cells[at] ?? ''))),
  )
  const ids = columns.flatMap(({ isId }, at) => (isId ? [at] : []))
  return fitWidths(widths, available - gap.length * (columns.length - 1), ids)
}

/** Prints a page of a list as a table, or `none`. A hint tells how to read the next page. */
export function printList<Item>(
  printer: Printer,
  { items, cursor = null }: { readonly items: readonly Item[]; readonly cursor?: string | null },
  none: string,
  heads: readonly string[],
  rowOf: (item: Item) => readonly Cell[],
): void {
  if (items.length === 0) printer.line(none)
  else printTable(printer, heads, items.map(rowOf))
  if (cursor !== null) printer.hint(`there may be more; continue with --cursor ${cursor}`)
}

export type Fields = Readonly<Record<string, string | Date | null>>

/** Prints names and values; null is left out. A value may have several lines. */
export function printFields(printer: Printer, fields: Fields): void {
  for (const [name, value] of Object.entries(fields)) {
    if (value === null) continue
    const lines = typeof value === 'string' ? value.split('\n') : [value.toISOString()]
    for (const [at, line] of lines.entries()) printer.line((at === 0 ? name : '').padEnd(14) + line)
  }
}

/** Whether a cell has a number, or an estimate such as ~12000. */
function isNumber(cell: Cell | undefined): boolean {
  return typeof cell === 'number' || (typeof cell === 'string' && /^~\d+$/.test(cell))
}

export function instant(at: number | null): Date | null {
  return at === null ? null : new Date(at)
}

/** Shows a span roughly: 12 s, 3 min, 5 h, 2 d. */
export function showSpan(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1_000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`
}

/**
 * The number of terminal cells of a text. Chinese, Japanese and Korean characters, full-width forms and emoji have two;
 * marks over another character have none.
 */
export function widthOf(text: string): number {
  // Most names are ASCII, and every cell of every frame is measured.
  if (/^[ -~]*$/.test(text)) return text.length
  let width = 0
  for (const character of text) width += widthOfCharacter(character)
  return width
}

const zero = /[\p{Mn}\p{Me}]/u

function widthOfCharacter(character: string): number {
  if (character <= '~') return 1
  return zero.test(character) ? 0 : eastAsianWidth(character.codePointAt(0)!)
}

/** Returns the text in exactly `width` cells: filled with spaces, or cut with an ellipsis. */
export function intoCells(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const own = widthOf(text)
  if (own <= width) {
    const space = ' '.repeat(width - own)
    return align === 'left' ? text + space : space + text
  }
  if (width <= 0) return ''
  let kept = ''
  let used = 0
  for (const character of text) {
    const next = widthOfCharacter(character)
    if (used + next > width - 1) break
    kept += character
    used += next
  }
  // A wide character that did not fit leaves a free cell.
  return `${kept}…${' '.repeat(width - 1 - used)}`
}

/** A narrower column shows nothing useful. */
const leastWidth = 4

/**
 * Narrows columns until they fit into the available cells, the widest first. Columns at `whole`, such as ids, which people
 * copy, are cut last.
 */
function fitWidths(
  widths: readonly number[],
  available: number,
  whole: readonly number[] = [],
): readonly number[] {
  const fitted = [...widths]
  let over = fitted.reduce((sum, width) => sum + width, 0) - available
  for (const mayCut of [(at: number) => !whole.includes(at), () => true]) {
    while (over > 0) {
      const widest = Math.max(0, ...fitted.filter((_, at) => mayCut(at)))
      if (widest <= leastWidth) break
      fitted[fitted.findIndex((width, at) => width === widest && mayCut(at))]!--
      over--
    }
  }
  return fitted
}
