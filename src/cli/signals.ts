/**
 * SIGINT and SIGTERM of a server. The first signal starts the stop. A second signal ends the process at once, and so does
 * a stop that takes too long. The listeners exist from the start, so that no signal is lost while a store opens.
 *
 * One Ctrl+C may arrive twice: the terminal sends it to all its processes, and `npm start` forwards it to its child. So
 * the same signal shortly after the first counts as the first.
 */
export interface StopSignal {
  readonly isAsked: boolean
  /** Settles at the first signal, with its name. */
  readonly asked: Promise<NodeJS.Signals>
}

/** Shorter than the time between two key presses of a user. */
const echoMs = 500

/** `force` must not return. `limitMs` starts at the first signal. */
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
    // The timer keeps no process alive. But it outlives the server, so that it ends a process that something still holds.
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
