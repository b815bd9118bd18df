import { useEffect, useRef, useState, useSyncExternalStore } from 'react'
import type { WireLockEvent } from '../../../src/http/client/index.ts'
import { useLiveness } from '../../live/connection.ts'
import { hint } from '../../live/hints.ts'
import { serverNow } from '../../live/server-clock.ts'
import { useClient } from '../../shell/session.ts'

/** What happened in a line, and when this page heard of it. */
export interface Happening {
  readonly event: WireLockEvent
  readonly at: number
}

/** So many are kept. */
const most = 50

/**
 * What happens in a line while somebody looks, newest first; and each makes the line be asked for again. The stream
 * ends while the page is hidden or paused, and goes on after the last event that was seen. Use it under a key of the line.
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
    // Without the stream the page polls, and polling says what is wrong.
    client.locks.watch(options, seen).catch(() => undefined)
    return () => ending.abort()
  }, [client, operation, resource, paused, isHidden])

  return happenings
}

function followVisibility(changed: () => void): () => void {
  document.addEventListener('visibilitychange', changed)
  return () => document.removeEventListener('visibilitychange', changed)
}
