/**
 * What may stand in a log: no secret, and nothing that could pose as another line or as a command to a terminal.
 * Secrets are recognised by their looks and by the names beside them, wherever in a text they stand; too much is
 * hidden rather than too little. Every pattern is bounded, so that no text takes long to look through.
 */

export const hidden = '[redacted]'

/** The text without secrets: our own tokens, bearer and basic credentials, passwords in URLs and beside their names. */
export function redact(text: string): string {
  if (!suspicious.test(text)) return text
  return hideUrlCredentials(text)
    .replace(ownToken, `sbx_${hidden}`)
    .replace(credentials, `$1 ${hidden}`)
    .replace(assignment, `$1$2${hidden}`)
}

/** Whether a field of this name holds a secret, whatever it looks like. */
export function isSecretName(name: string): boolean {
  return secretName.test(name)
}

/** The text as a JSON string that is inert wherever it is shown: one line, no control, no change of direction. */
export function quote(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text).replace(treacherous, escapeUnit)
}

/**
 * In every word, what stands between the first `://` and the last `@`: slashes and signs included, for not everybody
 * encodes them. Word by word, for one pattern would look at the same characters again from every `://`.
 */
function hideUrlCredentials(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(/[^\s"'<>]+/g, (word) => {
    const begin = word.indexOf('://')
    const end = word.lastIndexOf('@')
    return begin === -1 || end < begin ? word : `${word.slice(0, begin)}://${hidden}${word.slice(end)}`
  })
}

/** One look that says whether the others are worth their while. */
const suspicious = /sbx|:\/\/|bearer|basic|passw|pwd|secret|token|key|cookie|authorization/i
/** A token, also with its underscores percent-encoded. */
const ownToken = /sbx(?:_|%5f)[\w%-]*/gi
const credentials = /\b(bearer|basic)\s{1,8}[^\s,;"']+/gi
const secretWord = String.raw`(?:set-)?cookie|(?:proxy-)?authorization|passw(?:or)?d|pwd|secret|(?:\w{1,32}[-_])?token|(?:api|private)[-_]?key`
const assignment = new RegExp(String.raw`\b(${secretWord})(["']?\s{0,8}[=:]\s{0,8}["']?)[^\s&"',;]+`, 'gi')
const secretName = new RegExp(`^(?:${secretWord}|digest|idempotency-key)$`, 'i')

const plain = /^[\w\-./~:%@ ]*$/
/**
 * What JSON leaves as it is and a terminal or a reader may not: DEL and C1 controls, line separators, marks that turn
 * the direction of text or have no width.
 */
const treacherous =
  /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
