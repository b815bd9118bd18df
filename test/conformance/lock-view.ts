/** Answers about wait queues as the walk compares them: instants only as far as two clocks can agree on them. */

import type { WaitQueueSummary, WaitQueueView } from '../../src/locks/index.ts'
import type { HolderView, Notified, Standing } from '../../src/locks/rules/index.ts'

/** Much longer than a walk takes, much shorter than a distant time. */
const nearMs = 100_000_000

/** The notified requests in a fixed order, because their order is not promised. */
export function notifiedView({ requesters, everyone, changed, lapsed }: Notified): {
  readonly requesters: readonly string[]
  readonly everyone: boolean
  readonly changed: boolean
  readonly lapsed: boolean
} {
  const names = requesters.map(({ node, requestId }) => JSON.stringify([node, requestId]))
  return { requesters: names.toSorted(), everyone, changed, lapsed: lapsed === true }
}

export function standingView(standing: Standing | undefined, now: number): unknown {
  switch (standing?.status) {
    case 'granted':
      return { status: 'granted', attempt: standing.attempt, ends: instant(standing.expiresAt, now) }
    case 'refused':
      return { status: 'refused', holder: holderView(standing.holder, now) }
    default:
      return standing
  }
}

export function summaryView(
  { operation, resource, holder, waiterCount }: WaitQueueSummary,
  now: number,
): unknown {
  return { operation, resource, holder: holderView(holder, now), waiterCount }
}

/**
 * A wait queue without holder, waiters and outcomes may be known or not. Its last end is compared while the contract
 * requires it.
 */
export function queueView(
  view: WaitQueueView | undefined,
  { now, comparesEnd }: { readonly now: number; readonly comparesEnd: boolean },
): unknown {
  const { holder = null, waiters = [], waiterCount = 0, lastOutcome = null } = view ?? {}
  return {
    holder: holderView(holder, now),
    waiterCount,
    waiters: waiters.map(({ since, ...waiter }) => ({ ...waiter, since: instant(since, now) })),
    ...(comparesEnd && { lastOutcome: lastOutcome && { ...lastOutcome, at: instant(lastOutcome.at, now) } }),
  }
}

function holderView(holder: HolderView | null, now: number): unknown {
  if (holder === null) return null
  const { since, expiresAt, ...same } = holder
  return { ...same, since: instant(since, now), ends: instant(expiresAt, now) }
}

function instant(at: number, now: number): 'past' | 'near' | 'far' {
  if (at < now - nearMs) return 'past'
  return at > now + nearMs ? 'far' : 'near'
}
