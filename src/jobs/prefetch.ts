/**
 * How many jobs to claim. Waiting for a round trip between jobs is what makes queues slow; holding many jobs is what
 * makes them unfair, and what a crash takes along. So a worker holds what it is likely to begin within a tenth of a
 * second at the pace it has shown lately: hundreds of jobs of a microsecond, none beyond its slots of an hour.
 */
export interface Prefetch {
  /** A handler was called. */
  begun(): void
  /** How many more to claim now, given what runs and what waits; 0 while more than half of it is still there. */
  room(running: number, buffered: number): number
}

const horizonMs = 100

export function createPrefetch(limits: {
  readonly concurrency: number
  readonly prefetch: number
}): Prefetch {
  const { concurrency, prefetch } = limits
  let begun = 0
  let since = performance.now()
  let perMs = 0

  /** A running average over spans of at least a few milliseconds, that forgets an idle past at once. */
  function pace(): number {
    const now = performance.now()
    const spanMs = now - since
    if (spanMs >= 2 && begun > 0) {
      const fresh = begun / spanMs
      perMs = fresh > perMs ? fresh : (perMs + fresh) / 2
      begun = 0
      since = now
    }
    return perMs
  }

  return {
    begun() {
      begun++
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
