import type { Printer } from './print.ts'

/** Rows under their heads, each column as wide as its widest text; nothing is cut, for it may be copied. */
export function printTable(
  printer: Printer,
  heads: readonly string[],
  rows: readonly (readonly (string | number | null)[])[],
): void {
  const texts = [heads, ...rows.map((row) => row.map((cell) => (cell === null ? '-' : String(cell))))]
  const widths = heads.map((_, at) => Math.max(...texts.map((row) => [...(row[at] ?? '')].length)))
  for (const row of texts) {
    const cells = row.map((cell, at) => cell + ' '.repeat(Math.max(0, widths[at]! - [...cell].length)))
    printer.line(cells.join('  ').trimEnd())
  }
}

/** How long ago or ahead, roughly: 12 s, 3 min, 5 h, 2 d. */
export function showSpan(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1_000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`
}
