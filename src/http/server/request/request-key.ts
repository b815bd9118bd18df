import { createHash } from 'node:crypto'
import { SignalboxError } from '../../../core/errors.ts'
import { createToken, type Route } from '../../contract/index.ts'
import type { Incoming } from '../call.ts'

/**
 * The Idempotency-Key: whoever sends a request again with the same one gets the first outcome, and nothing is done
 * twice. It is bound to the caller, to the route and to the body, and written by the store together with the effect, or
 * where no store can, beside it (idempotent-response.ts).
 */

/** How long it is kept. */
export const keepMs = 86_400_000

const header = 'idempotency-key'
const visible = /^[\x21-\x7e]{1,255}$/

/** The key of a request that changes something; undefined when it has none. */
export function readRequestKey(route: Route, incoming: Pick<Incoming, 'header'>): string | undefined {
  if (!route.mutates) return undefined
  const key = incoming.header(header)
  if (key === undefined) return undefined
  if (route.id === createToken.id) throw notKept()
  if (visible.test(key)) return key
  throw new SignalboxError(
    'invalid_argument',
    'The header Idempotency-Key must be 1 to 255 visible ASCII characters without spaces.',
  )
}

/** What the key is bound to, besides its caller. */
export function fingerprintOf(incoming: Pick<Incoming, 'method' | 'path'>, body: Uint8Array): string {
  // Neither a method nor a path holds a newline, so no two requests read the same.
  return createHash('sha256').update(`${incoming.method}\n${incoming.path}\n`).update(body).digest('hex')
}

function notKept(): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    'An Idempotency-Key is not taken here: to repeat the answer, the secret would have to be kept. Leave it out, and revoke a token that you did not get.',
  )
}
