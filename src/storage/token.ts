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
  // Drawn many at a time: most of what a draw costs is to be made at all.
  if (drawnAt === drawn.length) {
    drawn = randomBytes(8 * noncesAtOnce).toString('hex')
    drawnAt = 0
  }
  drawnAt += 16
  return drawn.slice(drawnAt - 16, drawnAt)
}

const noncesAtOnce = 512
let drawn = ''
let drawnAt = 0

/** The error of a job whose last attempt's lease ran out, as JSON text; the same on every engine. */
export const expiredError: string = JSON.stringify({
  code: 'lease_expired',
  message: 'The lease ran out: its worker died, hung or lost the store, and no attempts are left.',
})
