import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { isId } from '../core/ids.ts'

/**
 * A secret is `sbx_<id>_<256 random bits>`: the id in it finds its record, and only its SHA-256 is kept. A salt or a
 * slow hash would add nothing, for 256 random bits cannot be guessed from their digest.
 *
 * Secrets are compared in one place, `sameDigest`, and only by their digests: these have one length, and how far two
 * of them agree says nothing about how far the secrets do.
 */

const prefix = 'sbx_'
const idEnd = prefix.length + 26
const secretChars = idEnd + 1 + 43
const digestBytes = 32

/** A secret that a client presents: the token id in it, and its digest. */
export interface PresentedSecret {
  /** Undefined when it has not the form of a token's secret. */
  readonly id: string | undefined
  readonly digest: string
}

/** A new secret for the token with this id. */
export function createSecret(id: string): string {
  return `${prefix}${id}_${randomBytes(32).toString('base64url')}`
}

/** Accepts any text of any length. */
export function presentSecret(secret: string): PresentedSecret {
  const id = isSecret(secret) ? secret.slice(prefix.length, idEnd) : undefined
  return { id, digest: digestOf(secret) }
}

/** Whether this has the form of a token's secret, so that it is not shown by mistake. */
export function isSecret(text: string): boolean {
  return (
    text.length === secretChars &&
    text.startsWith(prefix) &&
    text.charAt(idEnd) === '_' &&
    isId(text.slice(prefix.length, idEnd))
  )
}

/** SHA-256 of a secret, in hexadecimal; only this is stored. */
export function digestOf(secret: string): string {
  return hash('sha256', secret)
}

/** Whether two digests are equal, in a time that does not depend on where they differ. Never throws. */
export function sameDigest(one: string, other: string): boolean {
  const left = Buffer.from(one, 'hex')
  const right = Buffer.from(other, 'hex')
  // Text that is no digest, as in a damaged row, equals nothing.
  if (left.length !== digestBytes || right.length !== digestBytes) return false
  return timingSafeEqual(left, right)
}
