import type { UseQueryResult } from '@tanstack/react-query'
import type { WireQueues } from '../../src/http/client/index.ts'
import { useClient } from '../shell/session.ts'
import { useLive } from './queries.ts'

/** So long the server may count before it answers with what it knows: a page with a gap is better than none. */
export const waitMs = 100
/** So soon it is asked again where nothing is known yet, and where old counts are shown meanwhile. */
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

/** Every queue with the number of its jobs by state. */
export function useQueues(everyMs: number = 2_000): UseQueryResult<WireQueues> {
  const client = useClient()
  return useLive(['queues'], () => client.jobs.queues({ waitMs }), {
    everyMs: (data) => soonerWhileCounting(everyMs, { ...data, lines: data?.items ?? [] }),
  })
}
