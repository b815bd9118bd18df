import { eastAsianWidth } from 'get-east-asian-width'
import { escapeText, type Printer } from './print.ts'

export type Cell = string | number | null

/**
 * Rows under their heads, in columns that are aligned; numbers stand right. On a terminal no line is longer than it is
 * wide: long cells end in an ellipsis. Elsewhere nothing is cut, because a program or a person may copy it. A head that
 * begins with `=` stands over ids, which are cut last.
 */
export function printTable(
  printer: Printer,
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  const names = heads.map((head) => head.replace(/^=/, ''))
  const whole = heads.flatMap((head, at) => (head.startsWith('=') ? [at] : []))
  const texts = rows.map((row) => row.map((cell) => escapeText(cell === null ? '-' : String(cell))))
  const own = names.map((head, at) => Math.max(widthOf(head), ...texts.map((row) => widthOf(row[at] ?? ''))))
  const { columns = Number.POSITIVE_INFINITY } = printer
  const widths = fitWidths(own, columns - gap.length * (names.length - 1), whole)
  const aligns = names.map((_, at) =>
    rows.some((row) => typeof row[at] === 'number') && rows.every((row) => typeof row[at] !== 'string')
      ? ('right' as const)
      : ('left' as const),
  )
  for (const row of [names, ...texts]) {
    const line = row.map((cell, at) => intoCells(cell, widths[at]!, aligns[at])).join(gap)
    printer.line((widthOf(line) <= columns ? line : intoCells(line, columns)).trimEnd())
  }
}

const gap = '  '

/** How long ago or ahead, roughly: 12 s, 3 min, 5 h, 2 d. */
export function showSpan(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1_000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`
}

/**
 * How many cells of a terminal a text takes. Chinese, Japanese and Korean characters, full-width forms and emoji take
 * two; marks that are written over the character before them take none.
 */
export function widthOf(text: string): number {
  // Names are mostly ASCII, and this is asked for every cell of every frame.
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

/** The text in exactly so many cells: filled with spaces, or cut with an ellipsis. */
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
  // A wide character that did not fit leaves a cell over.
  return `${kept}…${' '.repeat(width - 1 - used)}`
}

/** A column narrower than this shows nothing that helps. */
const leastWidth = 4

/**
 * Narrows columns until they fit into so many cells: the widest gives way first. Columns at `whole`, such as ids, which
 * people copy, are cut only when nothing else is left to cut.
 */
export function fitWidths(
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
