/**
 * SIGINT and SIGTERM, as a server obeys them: the first asks it to stop, the second ends it at once, and so does a stop
 * that takes too long. Both are heard from the start, so that none is lost while a store is being opened.
 */
export interface StopSignal {
  readonly isAsked: boolean
  /** Settles at the first signal. */
  readonly asked: Promise<void>
}

/** `force` must not come back. `limitMs` runs from the first signal. */
export function listenForStop(limitMs: number, force: (why: string) => never): StopSignal {
  let isAsked = false
  const { promise, resolve } = Promise.withResolvers<void>()
  const heard = () => {
    if (isAsked) force('A second signal came')
    isAsked = true
    // It must not keep a process that has nothing else to do, but it outlives the server on purpose: whatever still
    // holds the process then is ended by it.
    setTimeout(() => force('Closing took too long'), limitMs).unref()
    resolve()
  }
  process.on('SIGINT', heard).on('SIGTERM', heard)
  return {
    get isAsked() {
      return isAsked
    },
    asked: promise,
  }
}
