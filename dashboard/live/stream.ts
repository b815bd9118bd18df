import { useEffect } from 'react'
import { type Client, events, isSignalboxError } from '../../src/http/client/index.ts'
import { signOut } from '../shell/session.ts'
import { connectionBack, liveness } from './connection.ts'
import { hint } from './hints.ts'
import { askWhetherLost, queryClient, type Topic } from './queries.ts'

/** What may have changed when the number of jobs in a queue did. */
const jobTopics: readonly Topic[] = ['overview', 'queues', 'jobs', 'job', 'bulk']

/**
 * Reads `GET /v1/events` while the tab is seen and the reader has not paused. An event is a hint to ask again. A stream
 * that breaks says little: a proxy that is tired of it cuts it, too, and the server when one may no longer read it. Where
 * the next does not open either, the server is asked, and what comes of that says whether it is lost (queries.ts). One that
 * opens says that it is back.
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
        // What came in between is not told again.
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
    // Without a stream the page polls: that is enough.
  }
}
