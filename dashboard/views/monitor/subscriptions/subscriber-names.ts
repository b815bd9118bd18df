import type { UseQueryResult } from '@tanstack/react-query'
import type { MonitorClient } from '../../../../src/http/client/index.ts'
import { useLive } from '../../../live/queries.ts'
import { useClient } from '../../../shell/session.ts'

export type Subscription = Awaited<ReturnType<MonitorClient['subscriptions']>>[number]

/** All subscriptions; decisions know them by their ids. */
export function useSubscriptions(): UseQueryResult<Subscription[]> {
  const client = useClient()
  return useLive(['monitor', 'subscriptions'], async () => [...(await client.monitor.subscriptions())])
}

/** What a subscription is called; undefined: it has ended. */
export function useNameOf(): (id: string) => string | undefined {
  const { data } = useSubscriptions()
  return (id) => data?.find((one) => one.id === id)?.name
}
