/**
 * The time as the modules see it: a reading and a timer, nothing else. Code that waits takes a Clock, so a test
 * can hand in one that it moves by hand (see fake-clock.ts).
 */
export interface Clock {
  /** Milliseconds since some fixed moment; only differences mean something. */
  now(): number
  /** Calls back once, `ms` from now. The handle's `unref()` is used when it has one. */
  setTimeout(callback: () => void, ms: number): unknown
  /** Takes back a timer that has not fired. */
  clearTimeout(handle: unknown): void
}

/** The process's monotonic clock and timers; a step of the wall clock changes nothing here. */
export const systemClock: Clock = {
  now: () => performance.now(),
  // Looked up at each call, so that tools which replace the global timers are obeyed.
  // Rounded up: Node cuts fractions off, and a timer that fires early only has to be set again.
  setTimeout: (callback, ms) => setTimeout(callback, Math.ceil(ms)),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
}

/** The same for work in the background: it keeps no process alive that has nothing else to do. */
export const patientClock: Clock = {
  ...systemClock,
  setTimeout(callback, ms) {
    const timer = systemClock.setTimeout(callback, ms) as { unref?: () => void }
    timer.unref?.()
    return timer
  },
}

/** What `work` comes to. If that takes longer than `ms`: what `late` answers or throws, and the work's own end is ignored. */
export async function within<Value, Late = never>(
  ms: number,
  work: Value | PromiseLike<Value>,
  late: () => Late,
  clock: Clock = systemClock,
): Promise<Value | Late> {
  const over = Promise.withResolvers<void>()
  const timer = clock.setTimeout(over.resolve, ms)
  try {
    return await Promise.race([work, over.promise.then(late)])
  } finally {
    clock.clearTimeout(timer)
  }
}
