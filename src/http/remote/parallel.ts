import { isSignalboxError } from '../../core/errors.ts'

/**
 * Asks for each of the items, so many at a time; answers in order. What fails for one item is thrown when all the
 * others have been asked for. What would fail for every item (the server is away, the token is not taken) ends it
 * sooner: nothing further is begun. It is thrown when those under way have ended, so nobody is left to fail unheard.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  maxInFlight: number,
  ask: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = new Array(items.length)
  const failures: unknown[] = []
  let next = 0

  async function walk(): Promise<void> {
    while (next < items.length) {
      const index = next++
      try {
        results[index] = await ask(items[index]!)
      } catch (error) {
        failures.push(error)
        if (concernsAll(error)) next = items.length
      }
    }
  }

  await Promise.all(Array.from({ length: Math.min(maxInFlight, items.length) }, walk))
  if (failures.length > 0) throw failures.find(concernsAll) ?? failures[0]
  return results
}

function concernsAll(error: unknown): boolean {
  return !isSignalboxError(error) || [401, 403, 429, 503, 504].includes(error.status)
}
