/** Two ways to consume a queue that call `done`: `consume` with N items in flight, and an async iteration. */
import type { ResolvedRunOptions, SignalOptions } from './options.ts'
import type { NoWork, Work } from './turn.ts'

/** What `consume` needs of a queue. */
export interface Source<T> {
  get(options: SignalOptions): Promise<Work<T> | NoWork>
  tryGet(): Work<T> | NoWork | undefined
}

/** The steps of a queue after an item's handler has settled, and before `done`. */
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
  const leaving = new AbortController()
  const ended = Promise.withResolvers<void>()
  let stopped = false
  let laneCount = 0
  /**
   * 1 while the run waits for an item. It counts as a lane, because the item may be taken before the promise
   * resolves.
   */
  let getting = 0
  let givenUp: Failure | undefined

  if (signal?.aborted) return
  signal?.addEventListener('abort', stop, { once: true })
  try {
    fill()
    await ended.promise
  } finally {
    signal?.removeEventListener('abort', stop)
  }
  if (givenUp) throw (givenUp as Failure).error

  /** Opens lanes while there is work, then waits for more. */
  function fill(): void {
    while (!stopped && laneCount + getting < concurrency) {
      const work = tryGet()
      if (work === undefined && stopped) break
      if (work === undefined) {
        waitForWork()
        return
      }
      // The queue is shut down and empty. Items in flight may have been added again, so other lanes continue.
      if (work.shutdown) break
      void lane(work)
    }
    if (laneCount + getting === 0) ended.resolve()
  }

  function waitForWork(): void {
    if (getting > 0) return
    getting = 1
    const endWait = (): void => {
      getting = 0
      fill()
    }
    queue.get({ signal: leaving.signal }).then(
      (work) => {
        if (!work.shutdown) void lane(work)
        endWait()
      },
      (error) => {
        // Either this run stopped, or the caller's store threw.
        if (!stopped) giveUp(error)
        endWait()
      },
    )
  }

  function tryGet(): Work<T> | NoWork | undefined {
    try {
      return queue.tryGet()
    } catch (error) {
      giveUp(error)
      return undefined
    }
  }

  /** Handles items one after the other, until none is queued. */
  async function lane(first: Work<T>): Promise<void> {
    laneCount++
    for (let work: Work<T> | undefined = first; work !== undefined; work = next()) {
      let failure: Failure | undefined
      try {
        await handler(work.item)
      } catch (error) {
        failure = { error }
      }
      settle(work, failure)
    }
    laneCount--
    fill()
  }

  function next(): Work<T> | undefined {
    const work = stopped ? undefined : tryGet()
    return work === undefined || work.shutdown ? undefined : work
  }

  function settle(work: Work<T>, failure: Failure | undefined): void {
    try {
      if (failure === undefined) aftermath?.succeeded(work)
      else failed(work, failure.error)
    } catch (error) {
      giveUp(error)
    }
    try {
      work[Symbol.dispose]()
    } catch (error) {
      giveUp(error)
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

  function stop(): void {
    stopped = true
    leaving.abort()
  }
}

/** A thrown value, which may be undefined. */
interface Failure {
  readonly error: unknown
}

/** Iterates over items. An item is done when the caller requests the next one, or when the loop ends. */
export function iterate<T>(queue: Source<T>): AsyncIterableIterator<T> {
  const leaving = new AbortController()
  const turns = takeTurns(queue, leaving.signal)
  return {
    next: () => turns.next(),
    // A generator notices `return` only between two items; the signal ends a wait for the next one.
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
