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
 * The page's data from the server. Polling guarantees updates: each query repeats while the page is visible and not paused.
 * Hints from the stream (stream.ts) only make it sooner. The client retries where that is safe, so queries do not.
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
  | 'workers'
  | 'series'
  | 'errors'
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
    // TanStack does not poll while the tab is hidden, unless configured to.
    refetchInterval: ({ state }) => {
      if (paused) return false
      return typeof everyMs === 'number' ? everyMs : everyMs(state.data)
    },
    refetchOnWindowFocus: !paused,
  })
}

/** Counts actions on jobs from this page: parts that are not queries reload when it changes. */
export const jobActs: Stored<number> = createStored(0)

/** Counts what the reader did on this page: tables that stand still show what came of it. */
export const ownActs: Stored<number> = createStored(0)

/** An action changed this: the views that show it reload. */
export async function changed(...topics: readonly Topic[]): Promise<void> {
  await Promise.all(topics.map((topic) => queryClient.invalidateQueries({ queryKey: [topic] })))
  ownActs.set(ownActs.get() + 1)
  if (topics.includes('jobs')) jobActs.set(jobActs.get() + 1)
}

/** The reader asked for the present: everything reloads, and tables that stand still show it. */
export async function refresh(): Promise<void> {
  await queryClient.invalidateQueries()
  ownActs.set(ownActs.get() + 1)
}
