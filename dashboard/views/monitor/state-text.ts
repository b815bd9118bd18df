/** No more of a state is shown in a line. */
const shownChars = 200

/** A state in one line: as JSON, shortened. A plain word needs no quotes; what could be taken for another value keeps them. */
export function stateText(state: unknown): string {
  const isWord = typeof state === 'string' && state !== '' && !isJson(state)
  const text = isWord ? state : (JSON.stringify(state) ?? 'null')
  return text.length > shownChars ? `${text.slice(0, shownChars)}…` : text
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
