/**
 * Goes off when something falls due that this process knows of: a retry after its back-off, a job it added with a delay.
 * Only a shortcut: whatever is missed here is found by the next poll, so it keeps a bounded number of instants.
 */
export interface Alarm {
  set(inMs: number): void
  clear(): void
}

const maxInstants = 1_000
/** The store's clock decides what is due and has whole milliseconds; a wake-up that comes early would find nothing. */
const slackMs = 2

export function createAlarm(wake: () => void, onSpent: () => void = () => undefined): Alarm {
  let instants: number[] = []
  let timer: NodeJS.Timeout | undefined
  let timerAt = Number.POSITIVE_INFINITY

  function arm(at: number): void {
    if (at >= timerAt) return
    clearTimeout(timer)
    timerAt = at
    timer = setTimeout(fire, Math.max(1, at - performance.now()))
    timer.unref()
  }

  function fire(): void {
    timerAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    instants = instants.filter((at) => at > now)
    wake()
    if (instants.length > 0) arm(Math.min(...instants))
    else onSpent()
  }

  return {
    set(inMs) {
      if (instants.length >= maxInstants) return
      const at = performance.now() + inMs + slackMs
      instants.push(at)
      arm(at)
    },
    clear() {
      clearTimeout(timer)
      timerAt = Number.POSITIVE_INFINITY
      instants = []
    },
  }
}
