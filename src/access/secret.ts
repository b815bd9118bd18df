import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { isId } from '../core/ids.ts'

/**
 * A secret is `sbx_<id>_<256 random bits>`. The id finds the record, which has only the SHA-256 of the secret. A salt or a
 * slow hash would add nothing, because nobody can guess 256 random bits from their digest.
 *
 * Only `sameDigest` compares secrets, by their digests. Digests have one length, and the common beginning of two digests
 * reveals nothing about the secrets.
 */

const prefix = 'sbx_'
const idEnd = prefix.length + 26
const secretChars = idEnd + 1 + 43
const digestBytes = 32

/** A secret that a client presents: the token id in it, and its digest. */
export interface PresentedSecret {
  /** Undefined: it has not the form of a token's secret. */
  readonly id: string | undefined
  readonly digest: string
}

/** Creates a secret for the token with this id. */
export function createSecret(id: string): string {
  return `${prefix}${id}_${randomBytes(32).toString('base64url')}`
}

/** Accepts any text of any length. */
export function presentSecret(secret: string): PresentedSecret {
  const id = isSecret(secret) ? secret.slice(prefix.length, idEnd) : undefined
  return { id, digest: digestOf(secret) }
}

/** Whether the text has the form of a token's secret. Callers use it to show no secret by mistake. */
export function isSecret(text: string): boolean {
  return (
    text.length === secretChars &&
    text.startsWith(prefix) &&
    text.charAt(idEnd) === '_' &&
    isId(text.slice(prefix.length, idEnd))
  )
}

/** SHA-256 of a secret, in hexadecimal. The store has only this. */
export function digestOf(secret: string): string {
  return hash('sha256', secret)
}

/** Whether two digests are equal. The time does not depend on the place of a difference. Never throws. */
export function sameDigest(one: string, other: string): boolean {
  const left = Buffer.from(one, 'hex')
  const right = Buffer.from(other, 'hex')
  // Text that is no digest, such as in a damaged row, equals nothing.
  if (left.length !== digestBytes || right.length !== digestBytes) return false
  return timingSafeEqual(left, right)
}
