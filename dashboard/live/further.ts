import { useEffect, useRef, useState } from 'react'
import { useClient } from '../shell/session.ts'
import { useStored } from '../shell/stored.ts'
import {
  type JobsPage,
  type JobsQuestion,
  joined,
  mayHaveMore,
  type Walked,
  walkFurther,
} from './further-walk.ts'
import { jobActs, queryClient } from './queries.ts'

/** A list of jobs, looked for further than one answer goes. */
export interface Further {
  /** What to show; undefined as long as nothing is known. */
  readonly page: JobsPage | undefined
  /** Present once one answer was not enough. */
  readonly walked: Walked | undefined
  /** It ended at a bound, before the page was full. */
  readonly canLookOn: boolean
  readonly error: Error | undefined
  lookOn(): void
  stop(): void
}

interface Walk {
  readonly place: string
  readonly first: JobsPage
  readonly walked: Walked
  readonly error?: Error
}

/**
 * Continues a search automatically when the first page is short because the server reached its time limit. It runs once,
 * and again after an action on jobs. Only the first page is polled; polling the rest would cost too much.
 */
export function useFurther(
  asked: JobsQuestion & { readonly limit: number },
  first: JobsPage | undefined,
): Further {
  const client = useClient()
  const place = JSON.stringify(asked)
  const [kept, setWalk] = useState<Walk>()
  const walk = kept?.place === place ? kept : undefined
  const ending = useRef<AbortController>(undefined)
  const acts = useStored(jobActs)
  const isShort = first !== undefined && mayHaveMore(first, asked.limit)

  const lookFrom = (start: JobsPage, from: Walked) => {
    ending.current?.abort()
    const own = new AbortController()
    const { signal } = own
    ending.current = own
    const room = asked.limit - start.items.length
    const ask = (cursor: string, limit: number) =>
      // Use the query cache, so that the shell learns when the server is lost; the result is not cached.
      queryClient.fetchQuery({
        queryKey: ['jobs', 'further', { ...asked, cursor, limit }],
        queryFn: () => client.jobs.list({ ...asked, cursor, limit }),
        staleTime: 0,
        gcTime: 0,
      })
    let last = from
    const tell = (walked: Walked) => {
      last = walked
      setWalk({ place, first: start, walked })
    }
    walkFurther(from, room, ask, tell, signal).catch((error: Error) => {
      if (!signal.aborted) setWalk({ place, first: start, walked: { ...last, isLooking: false }, error })
    })
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: once for what is listed, whatever else is new
  useEffect(() => {
    if (!isShort) return
    const { cursor, scanned = 0 } = first
    lookFrom(first, { items: [], cursor, scanned, isLooking: true })
    return () => {
      ending.current?.abort()
      setWalk(undefined)
    }
  }, [place, isShort, acts])

  if (!isShort || walk === undefined) return { page: first, ...still }
  const { walked, error } = walk
  const hasRoom = walk.first.items.length + walked.items.length < asked.limit
  return {
    page: pageOf(first, walk),
    walked,
    canLookOn: !walked.isLooking && walked.cursor !== null && hasRoom,
    error,
    lookOn: () => lookFrom(walk.first, walked),
    stop() {
      ending.current?.abort()
      setWalk({ ...walk, walked: { ...walked, isLooking: false } })
    },
  }
}

/** Nothing is looked for, and nothing has to be. */
const still = {
  ...{ walked: undefined, canLookOn: false, error: undefined },
  ...{ lookOn: () => undefined, stop: () => undefined },
}

function pageOf(now: JobsPage, { first, walked }: Walk): JobsPage {
  const items = joined(now.items, [...first.items, ...walked.items])
  return { ...now, items: [...items], cursor: walked.cursor, scanned: walked.scanned }
}
