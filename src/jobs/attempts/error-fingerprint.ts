import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { decodeError } from '../decode-job.ts'
import { normaliseMessage } from './normalise-message.ts'

/**
 * The fingerprint of an error: errors with the same one have the same cause, as far as that can be told. It is made of the
 * kind of the job, the error's name, its message without what differs from job to job, and the first frame of its stack that
 * is the user's own. Frames count by function and file, without lines and folders: a new release keeps the group.
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
