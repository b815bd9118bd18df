/** No more of a state is shown in a line. */
const shownChars = 200

/** A state in one line: as JSON, shortened. */
export function writeState(state: unknown): string {
  const text = JSON.stringify(state) ?? 'null'
  return text.length > shownChars ? `${text.slice(0, shownChars)}…` : text
}

/** Plain words need no quotes; what could be taken for another value keeps them. */
export function readState(json: string): string {
  const word = parse(json)
  return typeof word === 'string' && word !== '' && parse(word) === undefined ? word : json
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    // It was shortened, or is a word.
    return undefined
  }
}
