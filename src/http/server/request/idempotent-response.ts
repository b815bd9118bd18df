import { createHash } from 'node:crypto'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { GuardEnd, GuardStanding, GuardStore } from '../../../once/index.ts'
import { createToken, mutates, type Route } from '../../contract/index.ts'
import type { Answer, Incoming } from '../call.ts'

/**
 * The Idempotency-Key: a client that repeats a request with the same key gets the first outcome, and the effect happens
 * once. The key is bound to the caller, the route and the body. The store writes the key together with the effect;
 * where it cannot, `answerOnce` keeps it in a guard.
 */

/** How long the server keeps a key. */
export const keepMs = 86_400_000

const header = 'idempotency-key'
const visible = /^[\x21-\x7e]{1,255}$/

/** Reads the key of a request that changes something. */
export function readRequestKey(route: Route, incoming: Pick<Incoming, 'header'>): string | undefined {
  if (!mutates(route)) return undefined
  const key = incoming.header(header)
  if (key === undefined) return undefined
  if (route.id === createToken.id) throw keyNotAccepted()
  if (visible.test(key)) return key
  throw invalidArgument(
    'The header Idempotency-Key must be 1 to 255 visible ASCII characters without spaces.',
  )
}

/** A hash of the route and the body, to which the key is bound. */
export function fingerprintOf(incoming: Pick<Incoming, 'method' | 'path'>, body: Uint8Array): string {
  // Neither a method nor a path contains a newline, so two different requests have different texts.
  return createHash('sha256').update(`${incoming.method}\n${incoming.path}\n`).update(body).digest('hex')
}

function keyNotAccepted(): SignalboxError {
  return invalidArgument(
    'This route does not accept an Idempotency-Key, because the server does not keep the secret that it would have to repeat. Leave the key out. If you did not get the answer, revoke the token.',
  )
}

interface KeyedRequest {
  readonly caller: string
  readonly key: string
  readonly fingerprint: string
}

/**
 * Handles a request with an Idempotency-Key: calls `handle` once for a key and repeats its answer afterwards.
 *
 * No store can write the effect of such a request together with the key: locks and guards may be in a Redis, a report is
 * many transactions, and nodes get messages over their sockets. So a separate guard keeps the key:
 *
 *     claim the key ──▶ the call ──▶ the answer, kept for a day
 *       │ used by another request: 422  └ the call threw, or the caller must ask again: the key is free again
 *       │ in progress: 409
 *       └ done: the first answer
 *
 * If a server dies between effect and answer, the key stays in progress until the guard's lease ends. A repeated
 * request then runs as if it had no key: a repeated acquire finds its lock, and a repeated report is a duplicate.
 *
 * `whenDown` says what happens when the guard store does not answer. Requests for guards are handled without the key,
 * because guards have their own policy for that.
 */
export async function answerOnce(
  guards: GuardStore,
  { caller, key, fingerprint }: KeyedRequest,
  handle: () => Promise<Answer>,
  whenDown: 'refuse' | 'handle' = 'refuse',
): Promise<Answer> {
  const digest = createHash('sha256')
    .update(JSON.stringify([caller, key]))
    .digest('hex')
  const ask = { space: 'request', key: digest, leaseMs, keepMs, mode: 'at-least-once', fingerprint } as const
  let standing: GuardStanding | undefined
  try {
    standing = (await guards.claim([ask]))[0]
  } catch (error) {
    if (whenDown === 'refuse' || !isSignalboxError(error) || error.status < 503) throw error
    return handle()
  }
  if (standing?.status === 'done') return JSON.parse(standing.result!) as Answer
  if (standing?.status === 'mismatch') throw keyMismatch(key)
  if (standing?.status !== 'run') throw keyInProgress(key)
  const { token } = standing
  const end = (how: Pick<GuardEnd, 'end' | 'result'>) =>
    guards.settle([{ space: ask.space, key: digest, token, ...how }])
  let answer: Answer
  try {
    answer = await handle()
  } catch (error) {
    // The caller needs this error. If the release fails, the lease frees the key later.
    await end(free).catch(() => undefined)
    throw error
  }
  const kept = keptText(answer)
  // The effect is done, so the caller gets the answer even if the guard cannot be settled.
  await end(kept === undefined ? free : { end: 'done', result: kept }).catch(() => undefined)
  return answer
}

/** Longer than any request may take. */
const leaseMs = 60_000
/** The server does not keep longer answers. */
const maxKeptChars = 262_144

const free = { end: 'released', result: null } as const

/** With these answers the client has to ask again and must get the new state, so the server does not keep them. */
const temporaryStatuses: ReadonlySet<unknown> = new Set(['queued', 'refused', 'running', 'busy'])

function keptText(answer: Answer): string | undefined {
  if (!('body' in answer)) return undefined
  // The effect exists already, so this must not throw for any body.
  const status = (answer.body as { readonly status?: unknown } | null | undefined)?.status
  if (temporaryStatuses.has(status)) return undefined
  const text = JSON.stringify(answer)
  return text.length > maxKeptChars ? undefined : text
}

function keyMismatch(key: string): SignalboxError {
  return new SignalboxError(
    'idempotency_mismatch',
    `The Idempotency-Key "${key}" was used before, for another route or another body; nothing was done. Use a new key for a new request.`,
    { details: { key } },
  )
}

function keyInProgress(key: string): SignalboxError {
  return new SignalboxError(
    'in_progress',
    `A request with the Idempotency-Key "${key}" is still in progress. Retry with the same key in a moment.`,
    { details: { key } },
  )
}
