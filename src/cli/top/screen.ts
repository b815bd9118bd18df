/**
 * What is on the terminal, line by line, and how to change it with as little as possible: a line that stays as it is is
 * not written again, so nothing flickers and an idle view costs next to nothing.
 */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** What has to be written so that a terminal that shows `before` shows `after`; '' when nothing has changed. */
export function changes(before: readonly string[], after: readonly string[]): string {
  let written = ''
  const rows = Math.max(before.length, after.length)
  for (let row = 0; row < rows; row++) {
    const line = after[row] ?? ''
    if (before[row] === line) continue
    // Attributes first, for what is erased takes the colour that is set.
    written += `\u001b[${row + 1};1H\u001b[0m\u001b[2K${line}`
  }
  // All at once, where the terminal knows how to; others ignore it.
  return written === '' ? '' : `\u001b[?2026h${written}\u001b[0m\u001b[?2026l`
}

/** Colours and weights. Without colour there are none at all: what is chosen has a mark as well. */
export interface Style {
  strong(text: string): string
  faint(text: string): string
  chosen(text: string): string
  alert(text: string): string
}

export function createStyle(hasColour: boolean): Style {
  const within = (begin: string) => (text: string) => (hasColour ? `\u001b[${begin}m${text}\u001b[0m` : text)
  return { strong: within('1'), faint: within('2'), chosen: within('7'), alert: within('33') }
}
