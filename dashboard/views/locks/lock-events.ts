import { useEffect, useRef, useState, useSyncExternalStore } from 'react'
import type { WireLockEvent } from '../../../src/http/client/index.ts'
import { useLiveness } from '../../live/connection.ts'
import { hint } from '../../live/hints.ts'
import { serverNow } from '../../live/server-clock.ts'
import { useClient } from '../../shell/session.ts'

/** An event of a wait queue, and when this page received it. */
export interface Happening {
  readonly event: WireLockEvent
  readonly at: number
}

/** How many are kept. */
const most = 50

/**
 * The lock's events while the page is visible, newest first. Each event refetches the wait queue. The stream closes while
 * the page is hidden or paused, and resumes after the last event. Mount it with the lock as React key.
 */
export function useHappenings(operation: string, resource: string): readonly Happening[] {
  const client = useClient()
  const { paused } = useLiveness()
  const isHidden = useSyncExternalStore(followVisibility, () => document.hidden)
  const lastId = useRef(0)
  const [happenings, setHappenings] = useState<readonly Happening[]>([])

  useEffect(() => {
    if (paused || isHidden) return
    const ending = new AbortController()
    const options = { operation, resource, lastEventId: lastId.current, signal: ending.signal }
    const seen = (event: WireLockEvent) => {
      if (ending.signal.aborted) return
      lastId.current = event.id
      setHappenings((before) => [{ event, at: serverNow() }, ...before].slice(0, most))
      hint('locks')
    }
    // Without the stream the page polls, and the poll reports the error.
    client.locks.watch(options, seen).catch(() => undefined)
    return () => ending.abort()
  }, [client, operation, resource, paused, isHidden])

  return happenings
}

function followVisibility(changed: () => void): () => void {
  document.addEventListener('visibilitychange', changed)
  return () => document.removeEventListener('visibilitychange', changed)
}
