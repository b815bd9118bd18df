import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import type { Store } from '../engine-store.ts'
import { createFreeClaim } from './free-claim.ts'
import { claimWithin } from './limit-claim.ts'

/**
 * Claiming from queues without limits, all of them together, and from those with limits, each by itself. Where there
 * are both, each kind comes first every other time, so that neither takes everything. Which queues have limits is known
 * from the last time; a claim that did not know is told on its way.
 */
export function createClaim(store: Store): (request: ClaimRequest) => Promise<readonly ClaimedRecord[]> {
  const { idle, limited } = store.memory
  const free = createFreeClaim(store)

  async function claimLimited(
    queues: readonly string[],
    request: ClaimRequest,
  ): Promise<readonly ClaimedRecord[]> {
    let claimed: readonly ClaimedRecord[] = []
    for (const queue of limited.inRotation(queues)) {
      if (claimed.length >= request.limit) break
      const more = () => claimWithin(store, queue, { ...request, limit: request.limit - claimed.length })
      claimed = await andAlso(claimed, more)
    }
    return claimed
  }

  /** What was handed out must reach its claimer, whatever becomes of the rest; unless it is all one transaction. */
  async function andAlso(
    first: readonly ClaimedRecord[],
    more: () => Promise<readonly ClaimedRecord[]>,
  ): Promise<readonly ClaimedRecord[]> {
    try {
      return [...first, ...(await more())]
    } catch (error) {
      if (first.length === 0 || store.calls.isOne) throw error
      return first
    }
  }

  async function claimAny(
    distinct: readonly string[],
    request: ClaimRequest,
  ): Promise<readonly ClaimedRecord[]> {
    const known = distinct.filter((queue) => limited.has(queue))
    const isFirst = known.length > 0 && (known.length === distinct.length || limited.comeFirst())
    const first = isFirst ? await claimLimited(known, request) : []
    const isAll = isFirst && distinct.every((queue) => limited.has(queue))
    if (isAll || first.length >= request.limit) return first
    return andAlso(first, async () => {
      const left = request.limit - first.length
      const { jobs, limited: named } = await free.claim(distinct, { ...request, limit: left })
      for (const queue of distinct) limited.note(queue, named.includes(queue))
      const others = named.filter((queue) => !isFirst || !known.includes(queue))
      if (others.length === 0 || jobs.length >= left) return jobs
      return andAlso(jobs, () => claimLimited(others, { ...request, limit: left - jobs.length }))
    })
  }

  return async function claim(request) {
    store.schema.refuse()
    const { queues, kinds, limit } = request
    if (limit < 1 || queues.length === 0 || kinds?.length === 0) return []
    const distinct = [...new Set(queues)]
    const key = JSON.stringify([distinct, kinds])
    if (idle.has(key) && !(await free.anything(distinct, kinds))) return []
    const claimed = await claimAny(distinct, request)
    if (claimed.length > 0) idle.delete(key)
    else if (idle.size < 1_000) idle.add(key)
    return claimed
  }
}
