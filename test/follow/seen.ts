/**
 * The output that a page shows, against the real output. For values that cannot be the same twice only the shape is
 * compared: ids, instants, spans of time and tokens. `…` matches any text within a line, and alone on a line any lines.
 */

const shapes: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9][0-9a-hjkmnp-tv-z]{25}\b/g, '<id>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?/g, '<instant>'],
  [/\b\d+(\.\d+)? ?(µs|ms|s|min)\b/g, '<span>'],
  [/\bSignalbox \d+\.\d+\.\d+\b/g, 'Signalbox <version>'],
  // The width of a column follows its cells, such as a span.
  [/ {2,}/g, '  '],
  // Epoch milliseconds, and the tokens of locks, which are microseconds.
  [/\b\d{13,16}\b/g, '<number>'],
]

/** Whether all that was printed is what the page shows. */
export function isSeen(shown: string, printed: string): boolean {
  return new RegExp(`^${patternOf(shown)}$`).test(shapeOf(printed))
}

/** Where in what was printed the lines that the page shows end; undefined while they are not there. */
export function findSeen(shown: string, printed: string): number | undefined {
  const pattern = new RegExp(`^${patternOf(shown)}$`, 'm')
  // Line by line, for shapes have other lengths than what they stand for.
  const ends = [...printed.matchAll(/\n|$/g)].map(({ index }) => index)
  return ends.find((end) => pattern.test(shapeOf(printed.slice(0, end))))
}

function patternOf(shown: string): string {
  const lines = shapeOf(shown).split('\n')
  const parts = lines.map((line, at) => {
    const anyLines = line === '…'
    if (at === 0) return anyLines ? '[^]*' : partOf(line)
    return anyLines ? '(?:\\n.*)*' : `\\n${partOf(line)}`
  })
  return parts.join('')
}

function partOf(line: string): string {
  return line.split('…').map(escaped).join('.*')
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

function shapeOf(text: string): string {
  const tidy = text.replace(/[ \t]+$/gm, '').replace(/\n+$/, '')
  return shapes.reduce((shaped, [shape, name]) => shaped.replace(shape, name), tidy)
}
