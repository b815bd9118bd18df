import { escapeText, type Printer } from './print.ts'
import { fitWidths, intoCells, widthOf } from './width.ts'

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
