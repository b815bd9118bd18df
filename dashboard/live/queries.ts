import {
  keepPreviousData,
  QueryCache,
  QueryClient,
  type UseQueryResult,
  useQuery,
} from '@tanstack/react-query'
import { isSignalboxError } from '../../src/http/client/index.ts'
import { signOut } from '../shell/session.ts'
import { createStored, type Stored } from '../shell/stored.ts'
import { connectionBack, connectionLost, useLiveness } from './connection.ts'
import { lossOf } from './loss.ts'

/**
 * What the page knows of the server. Polling is the truth: each query is asked again by itself while somebody looks and
 * has not paused; hints from the stream (stream.ts) only make it sooner. The client tries again where that is safe, so
 * queries do not.
 */
export type Topic =
  | 'overview'
  | 'queues'
  | 'jobs'
  | 'job'
  | 'bulk'
  | 'schedules'
  | 'locks'
  | 'once'
  | 'monitor'
  | 'nodes'
  | 'tasks'
  | 'contention'
  | 'audit'
  | 'tokens'
  | 'me'

/** Its first part is the topic: what it is about, for hints and for acts that change it. */
export type LiveKey = readonly [topic: Topic, ...rest: readonly unknown[]]

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: tellTrouble, onSuccess: () => void connectionBack() }),
  defaultOptions: {
    queries: {
      retry: false,
      staleTime: 1_000,
      gcTime: 60_000,
      refetchOnWindowFocus: true,
      networkMode: 'always',
    },
    mutations: { retry: false, networkMode: 'always' },
  },
})

function tellTrouble(error: unknown): void {
  const loss = lossOf(error)
  if (isSignalboxError(error, 'unauthorized')) signOut('ended')
  else if (loss === undefined) connectionBack()
  else connectionLost(loss)
}

/** Something did not come that may have been held up on its way. The page always asks who it is; how that ends tells more. */
export function askWhetherLost(): void {
  void queryClient.invalidateQueries({ queryKey: ['me'] satisfies LiveKey })
}

export interface LiveOptions<Data> {
  /** How long until it is asked again by itself; it may depend on the last answer. @default 5_000 */
  readonly everyMs?: number | ((data: Data | undefined) => number)
  /** False: it is not asked at all. @default true */
  readonly enabled?: boolean
}

/** Something of the server's, kept up to date. What was there is shown until the next answer, also over a new filter. */
export function useLive<Data>(
  key: LiveKey,
  ask: () => Promise<Data>,
  { everyMs = 5_000, enabled = true }: LiveOptions<Data> = {},
): UseQueryResult<Data> {
  const { paused } = useLiveness()
  return useQuery({
    queryKey: key,
    queryFn: ask,
    enabled,
    placeholderData: keepPreviousData,
    // TanStack asks nothing while the tab is hidden, unless told to.
    refetchInterval: ({ state }) => {
      if (paused) return false
      return typeof everyMs === 'number' ? everyMs : everyMs(state.data)
    },
    refetchOnWindowFocus: !paused,
  })
}

/** How often somebody here did something to jobs: what is not a query looks again when it changes. */
export const jobActs: Stored<number> = createStored(0)

/** Something was done that changes this: whoever shows it asks anew. */
export async function changed(...topics: readonly Topic[]): Promise<void> {
  await Promise.all(topics.map((topic) => queryClient.invalidateQueries({ queryKey: [topic] })))
  if (topics.includes('jobs')) jobActs.set(jobActs.get() + 1)
}
