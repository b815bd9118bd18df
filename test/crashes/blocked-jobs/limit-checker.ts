import type { QueueLimits } from '../../../src/jobs/index.ts'
import type { Attempt } from './attempts.ts'

/** What ran at one instant, as the database said. */
export interface Sample {
  readonly at: number
  readonly running: readonly {
    readonly job: string
    readonly limitKey: string | null
    readonly claimedAt: number
  }[]
}

export interface LimitFindings {
  readonly complaints: readonly string[]
  /** The most that ran at once, of one key and of all, and the most that started within the span of the rate. */
  readonly most: { readonly ofKey: number; readonly ofQueue: number; readonly inSpan: number }
  readonly claims: number
}

/** Whether at any instant more lived than the limits allow, or more started in any span than the rate allows. */
export function checkLimits(
  attempts: readonly Attempt[],
  samples: readonly Sample[],
  limits: QueueLimits,
): LimitFindings {
  const complaints: string[] = []
  const most = { ofKey: 0, ofQueue: 0, inSpan: 0 }
  const look = (at: number, running: readonly { readonly limitKey: string | null }[]) => {
    most.ofQueue = Math.max(most.ofQueue, running.length)
    if (running.length > (limits.concurrency ?? Number.POSITIVE_INFINITY))
      complaints.push(`${running.length} ran at ${at}`)
    for (const [key, own] of Map.groupBy(running, ({ limitKey }) => limitKey)) {
      if (key === null) continue
      most.ofKey = Math.max(most.ofKey, own.length)
      if (own.length > (limits.perKey?.concurrency ?? Number.POSITIVE_INFINITY))
        complaints.push(`${own.length} of ${key} ran at ${at}`)
    }
  }
  // Nothing begins to be too many but by a claim.
  for (const { claimedAt } of attempts)
    look(
      claimedAt,
      attempts.filter((other) => other.claimedAt <= claimedAt && claimedAt < other.endsAt),
    )
  for (const { at, running } of samples) look(at, running)

  const claims = claimsOf(attempts, samples)
  const counted = [
    ['all', claims.map(({ claimedAt }) => claimedAt), limits.rate] as const,
    ...Array.from(
      Map.groupBy(claims, ({ limitKey }) => limitKey),
      ([key, own]) =>
        [key ?? '', key === null ? [] : own.map(({ claimedAt }) => claimedAt), limits.perKey?.rate] as const,
    ),
  ]
  for (const [whose, starts, rate] of counted) {
    if (!rate) continue
    for (const [first, at] of starts.entries()) {
      const inSpan = starts.slice(first).findIndex((other) => other >= at + rate.perMs)
      const count = inSpan < 0 ? starts.length - first : inSpan
      most.inSpan = Math.max(most.inSpan, count)
      if (count > rate.count)
        complaints.push(`${count} of ${whose} started in the ${rate.perMs} ms from ${at}`)
    }
  }
  return { complaints, most, claims: claims.length }
}

interface Claim {
  readonly job: string
  readonly limitKey: string | null
  readonly claimedAt: number
}

/** Every claim that is known of, also of those whose worker died before it began, in order. */
function claimsOf(attempts: readonly Attempt[], samples: readonly Sample[]): readonly Claim[] {
  const known = new Map<string, Claim>()
  for (const claim of [...attempts, ...samples.flatMap(({ running }) => running)])
    known.set(`${claim.job} ${claim.claimedAt}`, claim)
  return [...known.values()].sort((a, b) => a.claimedAt - b.claimedAt)
}
