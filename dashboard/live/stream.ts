import { useEffect } from 'react'
import { type Client, events, isSignalboxError } from '../../src/http/client/index.ts'
import { signOut } from '../shell/session.ts'
import { connectionBack, liveness } from './connection.ts'
import { hint } from './hints.ts'
import { askWhetherLost, queryClient, type Topic } from './queries.ts'

/** What may have changed when the number of jobs in a queue did. */
const jobTopics: readonly Topic[] = ['overview', 'queues', 'jobs', 'job', 'bulk']

/**
 * Reads `GET /v1/events` while the tab is visible and live updates are not paused. An event is a hint to refetch. A broken
 * stream alone proves nothing: a proxy may cut it, or the server may after a token ends. If the next stream does not open
 * either, a query decides whether the server is lost (queries.ts). A stream that opens shows that the server is back.
 */
export function useStream(client: Client): void {
  useEffect(() => {
    let ending: AbortController | undefined
    const look = () => {
      const wanted = !document.hidden && !liveness.get().paused
      if (wanted && ending === undefined) {
        ending = new AbortController()
        void read(client, ending.signal)
      } else if (!wanted) {
        ending?.abort()
        ending = undefined
      }
    }
    look()
    const unsubscribe = liveness.subscribe(look)
    document.addEventListener('visibilitychange', look)
    return () => {
      unsubscribe()
      document.removeEventListener('visibilitychange', look)
      ending?.abort()
    }
  }, [client])
}

async function read(client: Client, signal: AbortSignal): Promise<void> {
  let isOpen = false
  try {
    await client.stream(events, {
      signal,
      onOpen() {
        isOpen = true
        // The stream does not repeat events that it missed.
        if (connectionBack()) void queryClient.invalidateQueries()
      },
      onEvent({ type }) {
        if (type === 'queues' || type === 'reset') for (const topic of jobTopics) hint(topic)
      },
      onBreak() {
        if (!isOpen) askWhetherLost()
        isOpen = false
      },
    })
  } catch (error) {
    if (isSignalboxError(error, 'unauthorized')) signOut('ended')
    // Without a stream the page still polls.
  }
}
