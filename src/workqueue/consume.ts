/** Two ways to consume a queue that call `done` for you: a runner with N in flight, and an async iteration. */
import type { ResolvedRunOptions, SignalOptions } from './options.ts'
import type { NoWork, Work } from './turn.ts'

/** What it takes to be consumed. */
export interface Source<T> {
  get(options: SignalOptions): Promise<Work<T> | NoWork>
  tryGet(): Work<T> | NoWork | undefined
}

/** What a queue does with an item before `done`, once its handler has settled. */
export interface Aftermath<T> {
  succeeded(work: Work<T>): void
  failed(work: Work<T>): void
}

/** Runs the handler until the queue is shut down and empty, or the signal aborts; see `WorkQueue.run`. */
export async function consume<T>(
  queue: Source<T>,
  handler: (item: T) => unknown,
  { concurrency, signal, onError }: ResolvedRunOptions<T>,
  aftermath?: Aftermath<T>,
): Promise<void> {
  const stopping = new AbortController()
  const ended = Promise.withResolvers<void>()
  const stop = (): void => stopping.abort()
  let running = 0
  /** One wait in line at most. It counts as in flight: the item may be ours before we hear of it. */
  let getting = 0
  let givenUp: { readonly error: unknown } | undefined

  if (signal?.aborted) return
  signal?.addEventListener('abort', stop, { once: true })
  try {
    fill()
    await ended.promise
  } finally {
    signal?.removeEventListener('abort', stop)
  }
  if (givenUp) throw (givenUp as { readonly error: unknown }).error

  function fill(): void {
    while (!stopping.signal.aborted && running + getting < concurrency) {
      const work = queue.tryGet()
      if (work === undefined) {
        standInLine()
        return
      }
      // Empty and shut down. What is in hand may have been added again, so the run goes on while anything runs.
      if (work.shutdown) break
      void attempt(work)
    }
    if (running + getting === 0) ended.resolve()
  }

  function standInLine(): void {
    if (getting > 0) return
    getting = 1
    const left = (): void => {
      getting = 0
      fill()
    }
    queue.get({ signal: stopping.signal }).then((work) => {
      if (!work.shutdown) void attempt(work)
      left()
    }, left)
  }

  async function attempt(work: Work<T>): Promise<void> {
    running++
    let failure: { readonly error: unknown } | undefined
    try {
      await handler(work.item)
    } catch (error) {
      failure = { error }
    }
    try {
      settle(work, failure)
    } catch (error) {
      giveUp(error)
    }
    running--
    fill()
  }

  function settle(work: Work<T>, failure: { readonly error: unknown } | undefined): void {
    try {
      if (failure === undefined) aftermath?.succeeded(work)
      else failed(work, failure.error)
    } finally {
      work[Symbol.dispose]()
    }
  }

  function failed(work: Work<T>, error: unknown): void {
    try {
      onError?.(error, work.item)
    } finally {
      aftermath?.failed(work)
    }
    if (onError === undefined && aftermath === undefined) giveUp(error)
  }

  /** Stops this run, which rejects with the first such error once its other handlers have ended. */
  function giveUp(error: unknown): void {
    givenUp ??= { error }
    stop()
  }
}

/** Item after item; each is done when the next is asked for, and when the loop is left in whatever way. */
export function iterate<T>(queue: Source<T>): AsyncIterableIterator<T> {
  const leaving = new AbortController()
  const turns = takeTurns(queue, leaving.signal)
  return {
    next: () => turns.next(),
    // A generator hears of `return` only between two items; the signal ends a wait for the next one.
    return: () => {
      leaving.abort()
      return turns.return(undefined)
    },
    throw: (error) => {
      leaving.abort()
      return turns.throw(error)
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

async function* takeTurns<T>(queue: Source<T>, leaving: AbortSignal): AsyncGenerator<T, undefined> {
  while (!leaving.aborted) {
    const work = await queue.get({ signal: leaving }).catch(() => undefined)
    if (work === undefined || work.shutdown) return
    try {
      yield work.item
    } finally {
      work[Symbol.dispose]()
    }
  }
}
