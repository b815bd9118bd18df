import { inCallerTransaction } from '../core/caller-transaction.ts'
import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'
import type { ClaimAnswer } from './guard.ts'
import { askWithin, createDegradedToken, isDown } from './guard-deadline.ts'
import type { GuardEnd, GuardStanding, GuardStore } from './guard-store.ts'
import type { ClaimTerms, ResolvedOnceOptions } from './once-options.ts'
import type { OnceTally } from './once-tally.ts'

interface ClaimsParts extends ResolvedOnceOptions {
  readonly store: GuardStore
  readonly tally: OnceTally
  readonly clock: Clock
}

/** Claims keys, all on the same terms, and answers in their order. */
type Claims = (
  call: string,
  keys: readonly string[],
  terms: ClaimTerms,
  tx: unknown,
) => Promise<readonly ClaimAnswer[]>

/** From asking the store to the caller's answer: counted, and by the policy where the store has none. */
export function createClaims({ store, tally, clock, whenDown, timeoutMs }: ClaimsParts): Claims {
  const within = { clock, timeoutMs }

  async function claimKeys(
    call: string,
    keys: readonly string[],
    terms: ClaimTerms,
    tx: unknown,
  ): Promise<readonly ClaimAnswer[]> {
    let standings: readonly GuardStanding[]
    try {
      const asks = keys.map((key) => ({ ...terms, key }))
      const late =
        tx === undefined ? (answer: readonly GuardStanding[]) => letGo(keys, terms, answer) : undefined
      standings = await askWithin(within, call, () => store.claim(asks, tx), late)
    } catch (error) {
      if (tx !== undefined || !isDown(error)) throw error
      tally.degraded(call, whenDown, error, keys.length)
      return keys.map(() => degradedClaim(whenDown, timeoutMs))
    }
    for (const [index, standing] of standings.entries()) tally.claimed(terms.space, keys[index]!, standing)
    const wrong = standings.findIndex(({ status }) => status === 'mismatch')
    if (wrong !== -1) {
      // Nobody will hear of the claims that took.
      if (tx === undefined) await letGo(keys, terms, standings)
      throw mismatch(keys[wrong]!)
    }
    return standings.map(answerOf)
  }

  /** Undoes claims whose tokens nobody was given. What cannot be undone runs out by itself. */
  async function letGo(
    keys: readonly string[],
    { space }: ClaimTerms,
    standings: readonly GuardStanding[],
  ): Promise<void> {
    const ends = standings.flatMap((standing, index): readonly GuardEnd[] => {
      if (standing.status !== 'run') return []
      const { token, attempt } = standing
      // The attempts before stay counted.
      const end = attempt > 1 ? 'failed' : 'released'
      return [{ space, key: keys[index]!, token, end, result: null }]
    })
    if (ends.length > 0) await askWithin(within, 'fail', () => store.settle(ends)).catch(() => undefined)
  }

  return (call, keys, terms, tx) => inCallerTransaction(store, tx, () => claimKeys(call, keys, terms, tx))
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
    `The key ${JSON.stringify(key)} was claimed with another fingerprint, so it stands for something else. Use another key.`,
    { details: { key } },
  )
}
