import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { decodeError } from '../decode-job.ts'

/**
 * The fingerprint of an error: errors with the same one have the same cause, as far as that can be told. It is made of
 * the kind of the job, the error's name, its message without what differs from job to job, and the first frame of its
 * stack that is the user's own. Frames count by function and file, without lines and folders: a new release keeps the
 * group.
 *
 * `error` is the JSON text that a store keeps. The answer has 16 hexadecimal digits.
 */
export function fingerprintError(kind: string, error: string): string {
  const { name = '', code, message, stack } = decodeError(error)!
  // A lost attempt and the job that died of it say it in different words.
  const isLost = code === 'lease_expired'
  const said = isLost ? code : normaliseMessage(String(message))
  const parts = [kind, name, said, typeof stack === 'string' ? ownFrame(stack) : '']
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
}

/** As much of a stack as an attempt keeps. */
const maxStack = 3_000
/** Where this package is, when it runs from its own source: those frames are not the user's. */
const packageRoot = fileURLToPath(new URL('../../', import.meta.url))

/** The first frame of the user's own code, as `function (folder/file)`; empty: none is. */
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
 * Replaces what differs between two errors of the same cause: quoted values, dates, addresses, ids, hexadecimal and
 * other numbers. The words stay, so two messages are the same text when they say the same about different things.
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

/** In this order: each sees what those before it left. No pattern can take longer than its text is long. */
const rules: readonly (readonly [pattern: RegExp, word: string])[] = [
  [/"[^"\n]{0,500}"|`[^`\n]{0,500}`|“[^”\n]{0,500}”|«[^»\n]{0,500}»/g, '<value>'],
  // An apostrophe inside a word quotes nothing.
  [/(?<!\w)'[^'\n]{0,500}'(?!\w)/g, '<value>'],
  [/[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}/g, '<address>'],
  [new RegExp(String.raw`\b(?:${date}|\d{1,2}:\d{2}:\d{2}(?:\.\d{1,9})?)`, 'g'), '<date>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<id>'],
  [/\b0x[0-9a-f]+\b/gi, '<n>'],
]

/** Ids, hashes and tokens. Words such as "sha256" are none; that "utf8mb4" is taken for one does no harm. */
function isId(word: string): boolean {
  const digitRuns = word.match(/\d+/g) ?? []
  if (digitRuns.length >= 2) return true
  const isHex = /^[0-9a-f]+$/i.test(word) && /[a-f]/i.test(word)
  return digitRuns.length === 1 && (isHex || (word.length >= 10 && digitRuns[0]!.length >= 2))
}
