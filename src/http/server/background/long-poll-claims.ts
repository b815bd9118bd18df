import { type Clock, systemClock } from '../../../core/clock.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import { type JobsNotifier, queueTopic } from '../../../jobs/index.ts'
import type { ClaimWait, LongPollClaims } from '../call.ts'
import { ClaimQueue } from './claim-queue.ts'

/** How waiting claims are looked after. */
export interface LongPollClaimsOptions {
  /** How often a line looks without being woken for, give or take a quarter. @default 1_000 */
  readonly pollMs?: number
  /** How long a claim that is under way when its time is over may still bring jobs. @default 2_000 */
  readonly lateMs?: number
  readonly clock?: Clock
  readonly random?: () => number
}

export const longPollClaimsDefaults: Required<LongPollClaimsOptions> = {
  pollMs: 1_000,
  lateMs: 2_000,
  clock: systemClock,
  random: Math.random,
}

/** Makes the long-poll claims of one namespace, over its notifier. */
export function createLongPollClaims(
  notifier: JobsNotifier,
  options?: LongPollClaimsOptions,
): LongPollClaims {
  const given = withDefaults<Required<LongPollClaimsOptions>>(
    'createLongPollClaims',
    options,
    longPollClaimsDefaults,
  )
  whole('createLongPollClaims.pollMs', given.pollMs, { min: 1, max: 2 ** 31 - 1 })
  whole('createLongPollClaims.lateMs', given.lateMs, { max: 2 ** 31 - 1 })
  const lines = new Map<string, ClaimQueue>()
  let isClosed = false

  function lineOf(queues: readonly string[], kinds: readonly string[] | undefined): ClaimQueue {
    const topics = [...new Set(queues)].sort().map(queueTopic)
    const key = JSON.stringify([topics, kinds && [...new Set(kinds)].sort()])
    const found = lines.get(key)
    if (found) return found
    const line = new ClaimQueue(notifier, topics, given, () => lines.delete(key))
    lines.set(key, line)
    return line
  }

  return {
    async wait(request, waitMs, signal, claim) {
      if (signal.aborted) return []
      // Whoever does not wait stands in no line, and after `close` nobody waits.
      if (waitMs <= 0 || isClosed) return claimOnce(request, signal, claim)
      return lineOf(request.queues, request.kinds).wait(request, waitMs, signal, claim)
    },
    close() {
      isClosed = true
      for (const line of [...lines.values()]) line.close()
    },
  }
}

async function claimOnce<Claimed>(
  { giveBack }: ClaimWait<Claimed>,
  signal: AbortSignal,
  claim: () => Promise<readonly Claimed[]>,
): Promise<readonly Claimed[]> {
  const jobs = await claim()
  if (!signal.aborted || jobs.length === 0 || giveBack === undefined) return jobs
  // Where that fails the lease runs out, and the job is back in line then.
  await giveBack(jobs).catch(() => undefined)
  return []
}
