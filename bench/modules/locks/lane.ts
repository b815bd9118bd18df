/** One way to take and give back locks, driven alike. */
export interface LockLane extends AsyncDisposable {
  /** Takes the lock of that name and gives it back at once. */
  pair(name: string): Promise<void>
  /** Waits for the lock of that name; what it answers gives it back. */
  hold(name: string, caller: number): Promise<() => Promise<void>>
}

/** Pairs a second of free keys, with so many callers at once, each with keys of its own. */
export async function measurePairs(lane: LockLane, callers: number, pairs: number): Promise<number> {
  const run = async (count: number) => {
    let left = count
    await Promise.all(
      Array.from({ length: callers }, async (_, caller) => {
        while (left-- > 0) await lane.pair(`key-${caller}`)
      }),
    )
  }
  await run(Math.min(pairs, 2_000))
  const startedAt = performance.now()
  await run(pairs)
  return pairs / ((performance.now() - startedAt) / 1_000)
}

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
