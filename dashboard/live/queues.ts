import type { UseQueryResult } from '@tanstack/react-query'
import type { WireQueueStats, WireQueues } from '../../src/http/client/index.ts'
import { useClient } from '../shell/session.ts'
import { type Emptied, keepEmptied } from './emptied.ts'
import { queryClient, useLive } from './queries.ts'
import { serverNow } from './server-clock.ts'

/** How long the server may count before it answers with older counts: a page with a gap is better than none. */
export const waitMs = 100
/** How soon the page asks again: without any counts, and while it shows old ones. */
const againMs = { unknown: 100, known: 1_000 } as const

/** How long until the next question, given what the last answer said of its counts. */
export function soonerWhileCounting(
  everyMs: number,
  {
    counting = false,
    lines,
  }: { readonly counting?: boolean | undefined; readonly lines: readonly unknown[] },
): number {
  if (!counting) return everyMs
  return Math.min(everyMs, lines.length === 0 ? againMs.unknown : againMs.known)
}

/** A queue with the number of its jobs by state; one that ran dry a moment ago has none. */
export type LiveQueue = WireQueueStats & Emptied

/** The queues of the newest answer, and those that ran dry within the last minutes, by name. */
export function withEmptied(
  before: readonly LiveQueue[],
  { lines, counting = false }: { readonly lines: readonly WireQueueStats[]; readonly counting?: boolean },
): readonly LiveQueue[] {
  // A queue that is not counted yet is not empty.
  if (counting && lines.length === 0) return before
  const all = keepEmptied(
    before,
    lines,
    serverNow(),
    ({ queue }) => queue,
    ({ queue }) => dry(queue),
  )
  return all.toSorted((a, b) => (a.queue < b.queue ? -1 : 1))
}

/** A queue without jobs. */
export function dry(queue: string): WireQueueStats {
  const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0, oldestReadyAt: null }
  return { queue, ...none, approximate: false, paused: false, limits: null }
}

export type LiveQueues = Omit<WireQueues, 'items'> & { readonly items: readonly LiveQueue[] }

/** Every queue with the number of its jobs by state. */
export function useQueues(everyMs: number = 2_000): UseQueryResult<LiveQueues> {
  const client = useClient()
  const ask = async (): Promise<LiveQueues> => {
    const before = queryClient.getQueryData<LiveQueues>(['queues'])
    const fresh = await client.jobs.queues({ waitMs })
    return { ...fresh, items: withEmptied(before?.items ?? [], { ...fresh, lines: fresh.items }) }
  }
  return useLive(['queues'], ask, {
    everyMs: (data) => soonerWhileCounting(everyMs, { ...data, lines: data?.items ?? [] }),
  })
}
