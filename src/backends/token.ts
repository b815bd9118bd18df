import { randomBytes } from 'node:crypto'

/**
 * A job's token: a number that rises with every lease of the job, for ever, and a nonce that cannot be guessed.
 * The number says which lease is newer, the nonce that it was not made up.
 */
export interface Token {
  /** Kept as text: it may outgrow the safe integers. */
  readonly leaseNo: string
  readonly nonce: string
}

export function encodeToken({ leaseNo, nonce }: Token): string {
  return `${leaseNo}.${nonce}`
}

/** The parts of a token, or undefined when it is none: then no lease can match it. */
export function decodeToken(token: string): Token | undefined {
  const [, leaseNo, nonce] = /^(\d{1,18})\.([0-9a-f]{16})$/.exec(token) ?? []
  return leaseNo === undefined || nonce === undefined ? undefined : { leaseNo, nonce }
}

/** A new nonce: 64 random bits as 16 lower-case hexadecimal digits. */
export function createNonce(): string {
  return randomBytes(8).toString('hex')
}
