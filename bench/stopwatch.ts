/** How contestants count: a rate over a while, a rate of one long run, and bytes held. */

/** How long a contestant warms up and is timed. */
export interface Pace {
  readonly warmMs: number
  readonly timedMs: number
}

/** The pace of a round that repeats a small piece of work. */
export function paceOf(quick: boolean): Pace {
  return quick ? { warmMs: 150, timedMs: 250 } : { warmMs: 300, timedMs: 700 }
}

/**
 * Millions of operations a second. `batch` does `operationsPerBatch` of them and should take a few milliseconds, so
 * that reading the clock and the one await between batches are lost in it.
 */
export async function rateOf(
  pace: Pace,
  operationsPerBatch: number,
  batch: () => void | Promise<void>,
): Promise<number> {
  const run = async (ms: number): Promise<number> => {
    const startedAt = performance.now()
    let batchCount = 0
    let elapsed = 0
    for (; elapsed < ms; elapsed = performance.now() - startedAt) {
      await batch()
      batchCount++
    }
    return millionsPerSecond(batchCount * operationsPerBatch, elapsed)
  }
  await run(pace.warmMs)
  return run(pace.timedMs)
}

/** Millions a second of work that is done once, on a heap that was just cleaned. */
export async function rateOfOne(operations: number, work: () => void | Promise<void>): Promise<number> {
  collect()
  const startedAt = performance.now()
  await work()
  return millionsPerSecond(operations, performance.now() - startedAt)
}

export function millionsPerSecond(operations: number, ms: number): number {
  return operations / ms / 1_000
}

/**
 * Bytes held after a collection. Typed arrays keep their elements outside the heap proper; leaving `external` out
 * would make them look free.
 */
export function bytesHeld(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

function collect(): void {
  if (!globalThis.gc) throw new Error('Memory is measured with --expose-gc only.')
  // The second pass takes what the first one's finalisers let go.
  globalThis.gc()
  globalThis.gc()
}
