import type { UseQueryResult } from '@tanstack/react-query'
import type { WireOverview } from '../../src/http/client/index.ts'
import { useClient } from '../shell/session.ts'
import { queryClient, useLive } from './queries.ts'
import { soonerWhileCounting, waitMs } from './queues.ts'

const keepMs = 3_600_000
const key = ['overview'] as const

/** How everything stands. Of the history only what is new is asked for, and put behind what is known. */
export function useOverview(): UseQueryResult<WireOverview> {
  const client = useClient()
  const ask = async () => {
    const known = queryClient.getQueryData<WireOverview>(key)
    // The last step was still under way.
    const since = known?.history.samples.at(-1)?.at
    const fresh = await client.overview.get({ waitMs, ...(since === undefined ? {} : { since }) })
    return known === undefined || since === undefined ? fresh : join(known, fresh, since)
  }
  return useLive(key, ask, {
    everyMs: (data) => soonerWhileCounting(5_000, { ...data, lines: data?.queues ?? [] }),
  })
}

type Samples = WireOverview['history']['samples']

function join(known: WireOverview, fresh: WireOverview, since: number): WireOverview {
  const from = fresh.at - keepMs
  const kept = known.history.samples.filter(({ at }) => at >= from && at < since)
  const samples: Samples = [...kept, ...fresh.history.samples]
  return { ...fresh, history: { ...fresh.history, samples } }
}
