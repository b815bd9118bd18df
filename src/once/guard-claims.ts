import { randomBytes } from 'node:crypto'
import { inCallerTransaction } from '../core/caller-transaction.ts'
import type { Clock } from '../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import type { ClaimAnswer, GuardEnd, GuardStanding, GuardStore } from './guard-store.ts'
import type { ClaimTerms, ResolvedOnceOptions } from './once-options.ts'
import type { OnceTally } from './once-tally.ts'

export interface ClaimParts extends ResolvedOnceOptions {
  readonly store: GuardStore
  readonly tally: OnceTally
  readonly clock: Clock
}

/** A call that claims keys, all with the same terms. */
interface ClaimCall {
  readonly call: string
  readonly keys: readonly string[]
  readonly terms: ClaimTerms
  readonly tx: unknown
}

/** Claims keys and answers in their order. Answers are counted. If the store does not answer, the policy decides. */
export function claimKeys(parts: ClaimParts, request: ClaimCall): Promise<readonly ClaimAnswer[]> {
  return inCallerTransaction(parts.store, request.tx, async () => {
    const { call, keys, terms, tx } = request
    const { store, tally, timeoutMs } = parts
    // At-most-once: without the store it is unknown whether a claim is the first.
    const policy = terms.mode === 'at-most-once' ? 'closed' : parts.whenDown
    let standings: readonly GuardStanding[]
    try {
      const asks = keys.map((key) => ({ ...terms, key }))
      const onLate =
        tx === undefined
          ? (answer: readonly GuardStanding[]) => undoClaims(parts, request, answer)
          : undefined
      standings = await askWithin(parts, call, () => store.claim(asks, tx), onLate)
    } catch (error) {
      if (tx !== undefined || !isDown(error)) throw error
      tally.degraded(call, policy, error, keys.length)
      return keys.map(() => degradedClaim(policy, timeoutMs))
    }
    for (const [index, standing] of standings.entries()) tally.claimed(terms.space, keys[index]!, standing)
    const wrong = standings.findIndex(({ status }) => status === 'mismatch')
    if (wrong !== -1) {
      // The caller gets an error instead of the tokens of the other claims.
      if (tx === undefined) await undoClaims(parts, request, standings)
      throw mismatch(keys[wrong]!)
    }
    return standings.map(answerOf)
  })
}

/** Undoes claims whose tokens no caller got. If that fails, the lease of the claim ends it. */
async function undoClaims(
  parts: ClaimParts,
  { keys, terms: { space } }: ClaimCall,
  standings: readonly GuardStanding[],
): Promise<void> {
  const ends = standings.flatMap((standing, index): readonly GuardEnd[] => {
    if (standing.status !== 'run') return []
    const { token, attempt } = standing
    // `failed` keeps the count of earlier attempts.
    const end = attempt > 1 ? 'failed' : 'released'
    return [{ space, key: keys[index]!, token, end, result: null }]
  })
  if (ends.length > 0) await askWithin(parts, 'fail', () => parts.store.settle(ends)).catch(() => undefined)
}

function answerOf(standing: GuardStanding): ClaimAnswer {
  switch (standing.status) {
    case 'running':
      return { status: 'running', retryInMs: standing.leaseEndsInMs }
    case 'done':
      return { status: 'done', result: standing.result === null ? null : JSON.parse(standing.result) }
    case 'mismatch':
      throw new TypeError('a mismatch is thrown before it is answered')
    default:
      return standing
  }
}

function degradedClaim(policy: 'open' | 'closed', retryInMs: number): ClaimAnswer {
  return policy === 'open'
    ? { status: 'run', token: createDegradedToken(), attempt: 1, degraded: true }
    : { status: 'running', retryInMs, degraded: true }
}

function mismatch(key: string): SignalboxError {
  return new SignalboxError(
    'fingerprint_mismatch',
    `The key ${JSON.stringify(key)} was claimed with another fingerprint, so it belongs to another request. Use another key.`,
    { details: { key } },
  )
}

/**
 * Calls a store that may not answer. Every call has a deadline. A later answer goes to `onLate`, which can undo it.
 */
export function askWithin<Answer>(
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
  call: string,
  ask: () => Promise<Answer>,
  onLate?: (answer: Answer) => unknown,
): Promise<Answer> {
  // One promise instead of `Promise.race`, because every event makes a claim.
  return new Promise((resolve, reject) => {
    let isOver = false
    const timer = clock.setTimeout(() => {
      isOver = true
      reject(tookTooLong(call, timeoutMs))
    }, timeoutMs)
    ask().then(
      (answer) => {
        clock.clearTimeout(timer)
        if (isOver) onLate?.(answer)
        else resolve(answer)
      },
      (error) => {
        clock.clearTimeout(timer)
        // After the deadline this has no effect: the caller already has its error.
        reject(error)
      },
    )
  })
}

function tookTooLong(call: string, timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'timeout',
    `once.${call} had no answer from its store within ${timeoutMs} ms; whether the store made the change is unknown. Try again, or raise once.timeoutMs.`,
    { details: { call, timeoutMs } },
  )
}

/** Whether an error means that the store did not answer. */
export function isDown(error: unknown): boolean {
  return (
    isSignalboxError(error, 'store_unavailable') ||
    isSignalboxError(error, 'store_busy') ||
    isSignalboxError(error, 'commit_unknown') ||
    isSignalboxError(error, 'timeout')
  )
}

const degradedPrefix = 'degraded.'

/** Creates the token of a claim that the store does not know. No store creates such tokens. */
function createDegradedToken(): string {
  return degradedPrefix + randomBytes(8).toString('hex')
}

export function isDegradedToken(token: string): boolean {
  return token.startsWith(degradedPrefix)
}
