/**
 * SIGINT and SIGTERM, as a server obeys them: the first asks it to stop, the second ends it at once, and so does a stop
 * that takes too long. Both are heard from the start, so that none is lost while a store is being opened.
 *
 * One Ctrl+C may come twice: the terminal sends it to all its processes, and `npm start` passes it on to its child. So a
 * signal of the same kind right after the first is the same one.
 */
export interface StopSignal {
  readonly isAsked: boolean
  /** Settles at the first signal, with its name. */
  readonly asked: Promise<NodeJS.Signals>
}

/** Sooner than a person presses a key again. */
const echoMs = 500

/** `force` must not come back. `limitMs` runs from the first signal. */
export function listenForStop(limitMs: number, force: (why: string) => never): StopSignal {
  let first: { readonly signal: NodeJS.Signals; readonly at: number } | undefined
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>()
  const heard = (signal: NodeJS.Signals) => {
    const at = performance.now()
    if (first !== undefined) {
      if (signal === first.signal && at - first.at < echoMs) return
      force('A second signal arrived')
    }
    first = { signal, at }
    // It must not keep a process that has nothing else to do, but it outlives the server on purpose: whatever still
    // holds the process then is ended by it.
    setTimeout(() => force('Closing took too long'), limitMs).unref()
    resolve(signal)
  }
  process.on('SIGINT', heard).on('SIGTERM', heard)
  return {
    get isAsked() {
      return first !== undefined
    },
    asked: promise,
  }
}
