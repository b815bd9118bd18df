import { busy, isBusy } from './failures.ts'

/**
 * Trying again while another process has the file. The tries are spread at random so that processes do not meet in
 * step, and stay close together: the lock is free for some microseconds between two commits of a busy neighbour, and
 * who asks seldom never finds it so.
 */
export function pauseMs(tries: number): number {
  return (0.5 + Math.random()) * Math.min(8, 1 + tries / 4)
}

/**
 * Does `work` at once, or as soon as the file is not busy; `store_busy` when `deadline` (of performance.now) passes.
 * `check` is called before each further try and may throw.
 */
export async function whenFree<Value>(
  work: () => Value,
  deadline: number,
  check?: () => void,
): Promise<Value> {
  for (let tries = 0; ; tries++) {
    try {
      return work()
    } catch (error) {
      if (!isBusy(error)) throw error
      if (performance.now() >= deadline) throw busy(error)
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs(tries)))
    check?.()
  }
}

/** Tries again, after a pause, what answers undefined while the file is busy; the rest as above. */
export async function untilFree<Value>(
  work: () => Value | undefined,
  waitMs: number,
  check?: () => void,
): Promise<Value> {
  const deadline = performance.now() + waitMs
  for (let tries = 0; performance.now() < deadline; tries++) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs(tries)))
    check?.()
    const value = work()
    if (value !== undefined) return value
  }
  throw busy()
}
