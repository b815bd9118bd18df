import { hash } from 'node:crypto'
import { checkJson, checkJsonSize, encodeJson } from '../core/json.ts'

/**
 * Names for values that are too long or too varied to be keys. Each part is written after its length, so that
 * ('a:b', 'c') and ('a', 'b:c') differ. States are written in one canonical form, so that the order of fields makes no
 * difference.
 */

/** SHA-256 of the parts in their order, in hexadecimal. Different parts give different names. */
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
 * Writes a JSON value as text that is the same for equal values. Properties are sorted by name. Undefined and ignored
 * properties are left out. `ignore` has paths such as `updatedAt` or `offer.seenAt`; the path of an array applies to
 * each of its items. Throws `invalid_argument`, `too_large`.
 */
export function canonicalJson(name: string, value: unknown, ignore: readonly string[] = []): string {
  if (value === undefined || value === null || typeof value !== 'object') return encodeJson(name, value)
  checkJson(name, value)
  const whole = checkJsonSize(name, write(value, undefined, ''))
  return ignore.length === 0 ? whole : write(value, new Set(ignore), '')
}

/** Writes a checked value: plain JSON that is not too deep. The path is needed only if fields are ignored. */
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
  // No item has fields to sort, and one call for all items is several times faster than one per item.
  if (values.every((item) => typeof item !== 'object' || item === null)) return JSON.stringify(values)
  return `[${values.map((item) => write(item, ignore, path)).join(',')}]`
}
