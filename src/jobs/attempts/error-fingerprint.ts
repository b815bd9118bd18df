import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { decodeError } from '../decode-job.ts'

/**
 * The fingerprint of an error: errors with the same fingerprint most likely have the same cause. It is a hash of the
 * job's kind, the error's name, its message without the parts that differ from job to job, and the first frame of the
 * user's own code. A frame counts by function and file, without line and folder, so that a new release keeps the group.
 *
 * `error` is the JSON text that a store keeps. The answer has 16 hexadecimal digits.
 */
export function fingerprintError(kind: string, error: string): string {
  const { name = '', code, message, stack } = decodeError(error)!
  // A lost attempt, and the job that died of it, have different messages.
  const isLost = code === 'lease_expired'
  const said = isLost ? code : normaliseMessage(String(message))
  const parts = [kind, name, said, typeof stack === 'string' ? ownFrame(stack) : '']
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
}

/** The length of the stack that an attempt stores. */
const maxStack = 3_000
/** The folder of this package, if it runs from its source: frames in it are not the user's. */
const packageRoot = fileURLToPath(new URL('../../', import.meta.url))

/** The first frame of the user's own code, as `function (folder/file)`; empty: no such frame. */
export function ownFrame(stack: string): string {
  for (const line of stack.slice(0, maxStack).split('\n')) {
    const frame = /^\s+at (?:async )?(?:(.{1,300}) \()?([^()]{1,1000}?)(?::\d+){1,2}\)?$/.exec(line)
    if (frame === null) continue
    const [, call = '', location = ''] = frame
    if (!isOwn(location)) continue
    const file = location.replace(/^file:\/\//, '').replace(/\?.*$/, '')
    return normaliseMessage(`${call.replace(/ \[as .*\]$/, '')} (${file.split(/[\\/]/).slice(-2).join('/')})`)
  }
  return ''
}

function isOwn(location: string): boolean {
  if (location.startsWith('node:') || location === '<anonymous>' || location === 'native') return false
  if (/[\\/]node_modules[\\/]/.test(location)) return false
  return !location.replace(/^file:\/\//, '').startsWith(packageRoot)
}

/**
 * Replaces the parts that differ between two errors of the same cause: quoted values, dates, addresses, ids,
 * hexadecimal and other numbers. The words stay, so messages with equal words give the same text.
 *
 *     Order 4711 of "Ann" not found      ──▶  Order <n> of <value> not found
 *     timeout after 30.5 s (req_8fK29xQ1) ──▶ timeout after <n> s (<id>)
 */
export function normaliseMessage(message: string): string {
  let text = message.slice(0, maxRead)
  for (const [pattern, word] of rules) text = text.replace(pattern, word)
  text = text.replace(/\w{6,}/g, (word) => (isId(word) ? '<id>' : word))
  text = text.replace(/[-+]?\d+(?:[.,:]\d+)*/g, '<n>')
  return text.replace(/\s+/g, ' ').trim().slice(0, maxKept)
}

const maxRead = 2_000
const maxKept = 300

const date = String.raw`\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?`

/** Applied in this order, each to the result of the previous one. The time of each pattern is linear in the text. */
const rules: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/"[^"\n]{0,500}"|`[^`\n]{0,500}`|“[^”\n]{0,500}”|«[^»\n]{0,500}»/g, '<value>'],
  // An apostrophe inside a word is no quotation mark.
  [/(?<!\w)'[^'\n]{0,500}'(?!\w)/g, '<value>'],
  [/[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}/g, '<address>'],
  [new RegExp(String.raw`\b(?:${date}|\d{1,2}:\d{2}:\d{2}(?:\.\d{1,9})?)`, 'g'), '<date>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<id>'],
  [/\b0x[0-9a-f]+\b/gi, '<n>'],
]

/**
 * Whether a word is an id, a hash or a token. Words such as "sha256" are not; counting "utf8mb4" as an id does no harm.
 */
function isId(word: string): boolean {
  const digitRuns = word.match(/\d+/g) ?? []
  if (digitRuns.length >= 2) return true
  const isHex = /^[0-9a-f]+$/i.test(word) && /[a-f]/i.test(word)
  return digitRuns.length === 1 && (isHex || (word.length >= 10 && digitRuns[0]!.length >= 2))
}
