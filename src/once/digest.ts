import { hash } from 'node:crypto'
import { checkJson, checkJsonSize, encodeJson } from '../core/json.ts'

/**
 * Names for things that are too long, or too free, to be keys. Parts are written one after the other, each behind its
 * length, so that ('a:b', 'c') and ('a', 'b:c') are two; states in one canonical form, so that the order of a crawler's
 * fields is no change.
 */

/** SHA-256 of the parts in their order, in hexadecimal. Different parts, different names. */
export function digestParts(parts: readonly string[]): string {
  let text = ''
  for (const part of parts) text += `${Buffer.byteLength(part)}:${part}`
  return hash('sha256', text, 'hex')
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
  if (value === undefined || value === null || typeof value !== 'object') return encodeJson(name, value)
  checkJson(name, value)
  const whole = checkJsonSize(name, write(value, undefined, ''))
  return ignore.length === 0 ? whole : write(value, new Set(ignore), '')
}

/** `value` was checked before: plain JSON, and not too deep. The path is needed only where fields are ignored. */
function write(value: unknown, ignore: ReadonlySet<string> | undefined, path: string): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return writeArray(value, ignore, path)
  const fields = value as Readonly<Record<string, unknown>>
  let text = '{'
  for (const key of Object.keys(fields).sort()) {
    const item = fields[key]
    const inner = ignore === undefined || path === '' ? key : `${path}.${key}`
    if (item === undefined || ignore?.has(inner)) continue
    text += `${text === '{' ? '' : ','}${JSON.stringify(key)}:${write(item, ignore, inner)}`
  }
  return `${text}}`
}

function writeArray(
  values: readonly unknown[],
  ignore: ReadonlySet<string> | undefined,
  path: string,
): string {
  // Nothing in it has fields to be put in order, and one call is several times as quick as one an item.
  if (values.every((item) => typeof item !== 'object' || item === null)) return JSON.stringify(values)
  return `[${values.map((item) => write(item, ignore, path)).join(',')}]`
}
