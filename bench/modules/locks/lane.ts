/** One way to take and give back locks, driven alike. */
export interface LockLane extends AsyncDisposable {
  /** Takes the lock of that name and gives it back at once. */
  pair(name: string): Promise<void>
  /** Waits for the lock of that name; what it answers gives it back. */
  hold(name: string, caller: number): Promise<() => Promise<void>>
}

/** Acquire and release pairs a second of free keys, with this many callers at once, each with separate keys. */
export async function measurePairs(lane: LockLane, callers: number, pairs: number): Promise<PairFigures> {
  const took: number[] = []
  const run = async (count: number) => {
    let left = count
    await Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        while (left-- > 0) {
          const startedAt = performance.now()
          await lane.pair(`key-${caller}`)
          took.push(performance.now() - startedAt)
        }
      }),
    )
  }
  await run(Math.min(pairs, 2_000))
  took.length = 0
  const startedAt = performance.now()
  await run(pairs)
  const rate = pairs / ((performance.now() - startedAt) / 1_000)
  took.sort((a, b) => a - b)
  return { rate, p99: took[Math.floor(took.length * 0.99)]! }
}

/** Pairs a second, and what the slowest hundredth of them took. */
export type PairFigures = { readonly rate: number; readonly p99: number }

/**
 * Hand-overs on one key that all callers want: from giving it back until the next one has it. Each caller holds it for a
 * moment and asks again, so that there are always as many waiting.
 */
export async function measureHandOver(
  lane: LockLane,
  callers: number,
  handOvers: number,
): Promise<{ p50: number; p99: number }> {
  const took: number[] = []
  let releasedAt: number | undefined
  let left = handOvers
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      while (left > 0) {
        const release = await lane.hold('contended', caller)
        if (releasedAt !== undefined) took.push(performance.now() - releasedAt)
        left--
        await new Promise((resolve) => setTimeout(resolve, 2))
        releasedAt = performance.now()
        await release()
      }
    }),
  )
  took.sort((a, b) => a - b)
  const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))]!
  return { p50: at(0.5), p99: at(0.99) }
}
