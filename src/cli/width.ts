import { eastAsianWidth } from 'get-east-asian-width'

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
