import { liveness } from './connection.ts'
import { queryClient, type Topic } from './queries.ts'

/** At most so often is a topic asked for again because of hints. */
export const hintEveryMs = 1_000

/**
 * Turns hints into refetches at a bounded rate: the first at once, later ones within a second together at its end. No
 * refetch happens while the tab is hidden or live updates are paused.
 */
export function createHints(
  ask: (topic: Topic) => void,
  everyMs: number = hintEveryMs,
): (topic: Topic) => void {
  const askedAt = new Map<Topic, number>()
  const timers = new Map<Topic, ReturnType<typeof setTimeout>>()

  return (topic) => {
    if (timers.has(topic)) return
    const leftMs = (askedAt.get(topic) ?? Number.NEGATIVE_INFINITY) + everyMs - performance.now()
    const now = () => {
      timers.delete(topic)
      askedAt.set(topic, performance.now())
      ask(topic)
    }
    if (leftMs <= 0) now()
    else timers.set(topic, setTimeout(now, leftMs))
  }
}

/** Hints for the queries of this page. */
export const hint: (topic: Topic) => void = createHints((topic) => {
  if (document.hidden || liveness.get().paused) return
  // A request in flight is enough; a second one would return the same data.
  void queryClient.invalidateQueries({ queryKey: [topic] }, { cancelRefetch: false })
})
