/**
 * How many jobs to claim. Waiting for a round trip between jobs is what makes queues slow; holding many jobs is what
 * makes them unfair, and what a crash takes along. So a worker holds what it is likely to begin within a tenth of a
 * second at the pace it has shown lately: hundreds of jobs of a microsecond, none beyond its slots of an hour.
 *
 * The pace is that of handlers that ended. Counting those that began would take the first jobs, which all begin at
 * once, for a pace, and a worker of ten slots would sit on hundreds of jobs of an hour.
 */
export interface Prefetch {
  /** A handler came free of its job. */
  ended(): void
  /** How many more to claim now, given what runs and what waits; 0 while more than half of it is still there. */
  room(running: number, buffered: number): number
}

const horizonMs = 100

export function createPrefetch(
  limits: { readonly concurrency: number; readonly prefetch: number },
  now: () => number = () => performance.now(),
): Prefetch {
  const { concurrency, prefetch } = limits
  let ended = 0
  let since = now()
  let perMs = 0

  /** A running average over spans of at least a few milliseconds, that takes up a faster pace at once. */
  function pace(): number {
    const at = now()
    const spanMs = at - since
    if (spanMs >= 2 && ended > 0) {
      const fresh = ended / spanMs
      perMs = fresh > perMs ? fresh : (perMs + fresh) / 2
      ended = 0
      since = at
      return perMs
    }
    // None ended for longer than a claim takes: whatever the pace was, it is now at most one in that time.
    return ended === 0 && spanMs > horizonMs / 4 ? Math.min(perMs, 1 / spanMs) : perMs
  }

  return {
    ended() {
      ended++
    },
    room(running, buffered) {
      const ahead = Math.min(prefetch, Math.ceil(pace() * horizonMs))
      const free = concurrency - running
      if (free <= 0 && (ahead === 0 || buffered > ahead / 2)) return 0
      if (buffered > ahead / 2 + free) return 0
      return Math.max(0, concurrency + ahead - running - buffered)
    },
  }
}
