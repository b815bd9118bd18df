import { createHash } from 'node:crypto'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { GuardEnd, GuardStanding, GuardStore } from '../../../once/index.ts'
import { createToken, mutates, type Route } from '../../contract/index.ts'
import type { Answer, Incoming } from '../call.ts'

/**
 * The Idempotency-Key: a client that sends a request again with the same key gets the first outcome, and nothing happens
 * twice. The key is bound to the caller, the route and the body. The store writes it together with the effect or, where
 * it cannot, beside it (idempotent-response.ts).
 */

/** How long it is kept. */
export const keepMs = 86_400_000

const header = 'idempotency-key'
const visible = /^[\x21-\x7e]{1,255}$/

/** The key of a request that changes something; undefined when it has none. */
export function readRequestKey(route: Route, incoming: Pick<Incoming, 'header'>): string | undefined {
  if (!mutates(route)) return undefined
  const key = incoming.header(header)
  if (key === undefined) return undefined
  if (route.id === createToken.id) throw notKept()
  if (visible.test(key)) return key
  throw invalidArgument(
    'The header Idempotency-Key must be 1 to 255 visible ASCII characters without spaces.',
  )
}

/** What the key is bound to, besides its caller. */
export function fingerprintOf(incoming: Pick<Incoming, 'method' | 'path'>, body: Uint8Array): string {
  // Neither a method nor a path holds a newline, so no two requests read the same.
  return createHash('sha256').update(`${incoming.method}\n${incoming.path}\n`).update(body).digest('hex')
}

function notKept(): SignalboxError {
  return invalidArgument(
    'An Idempotency-Key is not taken here: to repeat the answer, the secret would have to be kept. Leave it out, and revoke a token that you did not get.',
  )
}

/**
 * The Idempotency-Key where no store writes it with the effect: locks and guards may be in a Redis, a report is many
 * transactions, and nodes get messages over their sockets. There a separate guard keeps it beside the effect:
 *
 *     claim the key ──▶ the call ──▶ its answer, for a day
 *       │ another request's: 422        └ it threw, or nothing came of it yet: the key is free again
 *       │ under way: 409
 *       └ done: the first answer
 *
 * A server that dies between effect and answer leaves the key running until the guard's lease ends. The request is then
 * done again, as if it had come without a key: a repeated acquire finds its lock, and a report is a duplicate.
 */
export interface KeyedRequest {
  readonly caller: string
  readonly key: string
  readonly fingerprint: string
}

/**
 * Does what `handle` does unless it was done with this key before; then answers what was answered. `whenDown`: what
 * becomes of a request whose key cannot be looked up. Guards have a policy of their own for that, which `handle` knows.
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
    // What went wrong is what the caller has to know; the key comes free by itself, if later.
    await end(free).catch(() => undefined)
    throw error
  }
  const kept = keptText(answer)
  // It is done, whether or not that could be noted.
  await end(kept === undefined ? free : { end: 'done', result: kept }).catch(() => undefined)
  return answer
}

/** Longer than any request may take. */
const leaseMs = 60_000
/** An answer that is longer is not kept. */
const maxKeptChars = 262_144

const free = { end: 'released', result: null } as const

/** The client waits, was refused or met a running request: it has to ask again, and gets the new state. */
const notYet: ReadonlySet<unknown> = new Set(['queued', 'refused', 'running', 'busy'])

function keptText(answer: Answer): string | undefined {
  if (!('body' in answer)) return undefined
  // Whatever it is: its effect is there by now, so nothing may go wrong here.
  const status = (answer.body as { readonly status?: unknown } | null | undefined)?.status
  if (notYet.has(status)) return undefined
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
    `A request with the Idempotency-Key "${key}" has begun and has not ended yet. Ask again with the same key in a moment.`,
    { details: { key } },
  )
}
