import type { UseQueryResult } from '@tanstack/react-query'
import { usePlace } from '../shell/router.tsx'
import { useClient } from '../shell/session.ts'
import { useLive } from './queries.ts'
import { dry, type LiveQueue } from './queues.ts'
import { lastActivity, mergeActivity, type Series } from './series-columns.ts'
import { serverNow } from './server-clock.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The times that charts show; the chosen one is in the address. */
export const ranges = {
  '15m': 15 * minuteMs,
  '1h': hourMs,
  '6h': 6 * hourMs,
  '24h': dayMs,
  '48h': 2 * dayMs,
  '7d': 7 * dayMs,
  '30d': 30 * dayMs,
  '90d': 90 * dayMs,
} as const
export type Range = keyof typeof ranges
const defaultRange: Range = '1h'

export function useRange(): Range {
  const { range } = usePlace().query
  return range !== undefined && Object.hasOwn(ranges, range) ? (range as Range) : defaultRange
}

/** What all processes did with jobs over the chosen time, of one queue or of all. */
export function useSeries(range: Range, queue?: string): UseQueryResult<Series> {
  const client = useClient()
  const spanMs = ranges[range]
  const ask = () =>
    client.metrics.series({
      from: Math.floor(serverNow() - spanMs),
      ...(queue === undefined ? {} : { queue }),
    })
  // A minute ends once a minute, and a longer step shows little of it.
  return useLive(['series', range, queue ?? null], ask, { everyMs: spanMs <= hourMs ? 10_000 : 60_000 })
}

const activeMs = 2 * dayMs

/** Queues that had work within the last 48 hours, with when they had it last: to the minute, and before that to the hour. */
export function useActiveQueues(): ReadonlyMap<string, number> {
  const client = useClient()
  const ask = async () => {
    const now = Math.floor(serverNow())
    const [hours, minutes] = await Promise.all([
      client.metrics.series({ from: now - activeMs, step: '1h', by: 'queue' }),
      client.metrics.series({ from: now - hourMs, step: '1m', by: 'queue' }),
    ])
    return mergeActivity(lastActivity(hours), lastActivity(minutes), hours.now - hourMs)
  }
  const { data } = useLive(['series', 'active'], ask, { everyMs: 60_000 })
  return data ?? none
}

const none: ReadonlyMap<string, number> = new Map()

/** The queues that have jobs, and those that had work of late, by name. */
export function withIdleQueues(
  queues: readonly LiveQueue[],
  active: ReadonlyMap<string, number>,
): readonly LiveQueue[] {
  const there = new Set(queues.map(({ queue }) => queue))
  const idle = [...active.keys()].filter((queue) => queue !== 'other' && !there.has(queue)).map(dry)
  return [...queues, ...idle].toSorted((a, b) => (a.queue < b.queue ? -1 : 1))
}
