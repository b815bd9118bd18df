import { hash } from 'node:crypto'
import { encodeJson } from '../core/json.ts'

/**
 * Names for things that are too long, or too free, to be keys. Parts are written one after the other, each behind its
 * length, so that ('a:b', 'c') and ('a', 'b:c') are two; states in one canonical form, so that the order of a crawler's
 * fields is no change.
 */

/** SHA-256 of the parts in their order, in hexadecimal. Different parts, different names. */
export function digestParts(parts: readonly string[]): string {
  return hash('sha256', parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join(''), 'hex')
}

/** SHA-256 of a state's canonical form, in hexadecimal. */
export function digestState(name: string, state: unknown, ignore?: readonly string[]): string {
  return digestParts(['state.1', canonicalJson(name, state, ignore)])
}

/**
 * A JSON value as text that is the same for equal values: properties in order of their names, none that is undefined,
 * none that `ignore` names. An ignored one is named by its path, `updatedAt` or `offer.seenAt`; an array on the way
 * stands for each of its items. Throws as every value of a user's: `invalid_argument`, `too_large`.
 */
export function canonicalJson(name: string, value: unknown, ignore: readonly string[] = []): string {
  const text = encodeJson(name, value)
  if (value === undefined || value === null || typeof value !== 'object') return text
  return write(value, new Set(ignore), '')
}

/** What was encoded before is sound: plain, not too deep, not too large. */
function write(value: unknown, ignore: ReadonlySet<string>, path: string): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map((item) => write(item, ignore, path)).join(',')}]`
  const fields = value as Readonly<Record<string, unknown>>
  const written: string[] = []
  for (const key of Object.keys(fields).sort()) {
    const inner = path === '' ? key : `${path}.${key}`
    if (fields[key] === undefined || ignore.has(inner)) continue
    written.push(`${JSON.stringify(key)}:${write(fields[key], ignore, inner)}`)
  }
  return `{${written.join(',')}}`
}
