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

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u
const zero = /[\p{Mn}\p{Me}]/u

function widthOfCharacter(character: string): number {
  if (character <= '~') return 1
  if (zero.test(character)) return 0
  return wide.test(character) ? 2 : 1
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
