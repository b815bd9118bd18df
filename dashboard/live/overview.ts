import type { UseQueryResult } from '@tanstack/react-query'
import type { WireOverview } from '../../src/http/client/index.ts'
import { useClient } from '../shell/session.ts'
import { queryClient, useLive } from './queries.ts'
import { type LiveQueue, soonerWhileCounting, waitMs, withEmptied } from './queues.ts'

const keepMs = 3_600_000
const key = ['overview'] as const

export type LiveOverview = Omit<WireOverview, 'queues'> & { readonly queues: readonly LiveQueue[] }

/** The overview. Of the history it asks only for new samples, and appends them to the known ones. */
export function useOverview(): UseQueryResult<LiveOverview> {
  const client = useClient()
  const ask = async (): Promise<LiveOverview> => {
    const known = queryClient.getQueryData<LiveOverview>(key)
    // The last step was incomplete.
    const since = known?.history.samples.at(-1)?.at
    const answer = await client.overview.get({ waitMs, ...(since === undefined ? {} : { since }) })
    const queues = withEmptied(known?.queues ?? [], { ...answer, lines: answer.queues })
    const fresh = { ...answer, queues }
    return known === undefined || since === undefined ? fresh : join(known, fresh, since)
  }
  return useLive(key, ask, {
    everyMs: (data) => soonerWhileCounting(5_000, { ...data, lines: data?.queues ?? [] }),
  })
}

type Samples = WireOverview['history']['samples']

function join(known: LiveOverview, fresh: LiveOverview, since: number): LiveOverview {
  const from = fresh.at - keepMs
  const kept = known.history.samples.filter(({ at }) => at >= from && at < since)
  const samples: Samples = [...kept, ...fresh.history.samples]
  return { ...fresh, history: { ...fresh.history, samples } }
}
