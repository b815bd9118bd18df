import { useEffect, useState } from 'react'
import type { WireTaskEvent } from '../../../src/http/client/index.ts'
import { useLiveness } from '../../live/connection.ts'
import { hint } from '../../live/hints.ts'
import { useClient } from '../../shell/session.ts'

/** How many of the newest are kept. */
const most = 100

/** An event, with its place among all. */
export type SeenEvent = WireTaskEvent & {
  readonly nth: number
  /** It tells how the task stood, not that something happened just then. */
  readonly isPresent: boolean
}

/** What happens to a task while it is looked at and has not ended. */
export function useTaskEvents(taskId: string, isOver: boolean): readonly SeenEvent[] {
  const client = useClient()
  const { paused } = useLiveness()
  const [events, setEvents] = useState<readonly SeenEvent[]>([])
  useEffect(() => {
    if (isOver || paused) return
    const ending = new AbortController()
    let isPresent = true
    const seen = (event: WireTaskEvent) => {
      const wasPresent = isPresent
      isPresent = false
      setEvents((before) => {
        const nth = (before[0]?.nth ?? 0) + 1
        // After a reconnect the stream repeats the current state.
        if (wasPresent && before[0] !== undefined) return before
        return [{ ...event, nth, isPresent: wasPresent }, ...before].slice(0, most)
      })
      if (event.type !== 'progress') hint('tasks')
    }
    const onBreak = () => {
      isPresent = true
    }
    // Without a stream the page still polls.
    client.dispatch.watch(taskId, seen, { signal: ending.signal, onBreak }).catch(() => undefined)
    return () => ending.abort()
  }, [client, taskId, isOver, paused])
  return events
}
