import { randomBytes } from 'node:crypto'

/**
 * A job's token: a number that rises with every lease of the job, for ever, and an unguessable nonce. The number shows
 * which lease is newer. The nonce proves that the token was not made up.
 */
export interface Token {
  /** Text, because it may exceed the safe integers. */
  readonly leaseNo: string
  readonly nonce: string
}

export function encodeToken({ leaseNo, nonce }: Token): string {
  return `${leaseNo}.${nonce}`
}

/** The parts of a token. Undefined: the text is not a token, so no lease can match it. */
export function decodeToken(token: string): Token | undefined {
  const [, leaseNo, nonce] = /^(\d{1,18})\.([0-9a-f]{16})$/.exec(token) ?? []
  return leaseNo === undefined || nonce === undefined ? undefined : { leaseNo, nonce }
}

/** A new nonce: 64 random bits as 16 lower-case hexadecimal digits. */
export function createNonce(): string {
  // Draws many nonces at a time, because most of the cost is per draw.
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

/** The error of a job whose last lease expired, as JSON text. It is the same on every engine. */
export const expiredError: string = JSON.stringify({
  code: 'lease_expired',
  message: 'The lease ran out: its worker died, hung or lost the store, and no attempts are left.',
})
