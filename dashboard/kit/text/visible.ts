/**
 * Invisible characters: control characters, direction marks, line separators, lone surrogates. The two joiners stay,
 * because words and emoji need them.
 */
const shapeless = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** The same text with a shape for all that has none: `␊` for a line feed, `⟨U+202E⟩` for a mark of direction. */
export function visible(text: string): string {
  return text.replaceAll(shapeless, shapeOf)
}

const briefChars = 72

/** As `visible`, with its middle left out where it is long: for a sentence that is to stay one. */
export function brief(text: string): string {
  if (text.length <= briefChars) return visible(text)
  return visible(`${text.slice(0, briefChars - 21)}…${text.slice(-20)}`)
}

/** As `visible`, but lines stay lines: for text of several. */
export function visibleLines(text: string): string {
  return text.replaceAll(shapeless, (character) =>
    character === '\n' || character === '\t' ? character : shapeOf(character),
  )
}

function shapeOf(character: string): string {
  const code = character.codePointAt(0)!
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '␡'
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`
}
