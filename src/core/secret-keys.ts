import { invalidArgument, type SignalboxError } from './errors.ts'

/**
 * Reads the keys that seal secrets in the store: 32 bytes each, as 64 hexadecimal digits or as base64. In text several
 * are separated by commas. The first one seals; every one of them opens. No message quotes a key.
 */
export function parseSecretKeys(name: string, given: unknown): readonly Uint8Array[] {
  const texts: unknown = typeof given === 'string' ? given.split(',') : given
  if (!Array.isArray(texts) || texts.length === 0 || texts.length > maxKeys)
    throw refused(name, `one to ${maxKeys} keys of ${keyBytes} bytes`)
  return texts.map((one: unknown, at) => {
    const key = typeof one === 'string' ? decode(one.trim()) : undefined
    if (key !== undefined) return key
    const which = texts.length === 1 ? '' : ` (key ${at + 1} of ${texts.length} is not)`
    throw refused(
      name,
      `a key of ${keyBytes} bytes, in base64 or as ${2 * keyBytes} hexadecimal digits${which}`,
    )
  })
}

const keyBytes = 32
const maxKeys = 16

function decode(text: string): Uint8Array | undefined {
  if (/^[0-9a-f]{64}$/i.test(text))
    return Uint8Array.from(text.match(/../g)!, (digits) => Number.parseInt(digits, 16))
  // Base64 of 32 bytes; the alphabet of URLs and a missing `=` are fine.
  if (!/^[\w+/-]{43}=?$/.test(text)) return undefined
  const bytes = atob(text.slice(0, 43).replaceAll('-', '+').replaceAll('_', '/'))
  return bytes.length === keyBytes ? Uint8Array.from(bytes, (char) => char.charCodeAt(0)) : undefined
}

function refused(name: string, allowed: string): SignalboxError {
  return invalidArgument(`${name} must be ${allowed}. Make one with \`openssl rand -base64 32\`.`, name)
}
