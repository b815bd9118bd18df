import { randomBytes } from 'node:crypto'

/** One way to claim keys, driven alike. It throws when a fresh key could not be claimed. */
export interface ClaimLane extends AsyncDisposable {
  /** Claims these keys in one go. */
  claimMany(keys: readonly string[]): Promise<void>
}

export interface ClaimLoad {
  /** Who ask at once, each for its next keys when it has its answer. */
  readonly callers: number
  /** Keys of one call. */
  readonly size: number
  readonly calls: number
}

/** Claims of fresh keys a second. Keys are made beforehand, and come in no order, as digests do. */
export async function measureClaims(lane: ClaimLane, { callers, size, calls }: ClaimLoad): Promise<number> {
  const run = async (asks: readonly (readonly string[])[]) => {
    const rest = asks.values()
    await Promise.all(
      Array.from({ length: callers }, async () => {
        for (const keys of rest) await lane.claimMany(keys)
      }),
    )
  }
  await run(freshKeys(Math.ceil(calls / 10), size))
  const asks = freshKeys(calls, size)
  const startedAt = performance.now()
  await run(asks)
  return (calls * size) / ((performance.now() - startedAt) / 1_000)
}

function freshKeys(calls: number, size: number): string[][] {
  // One draw for all: a draw for each would leave more garbage than the claims themselves.
  const digits = randomBytes(16 * calls * size).toString('hex')
  const keyAt = (nr: number) => digits.slice(32 * nr, 32 * nr + 32)
  return Array.from({ length: calls }, (_, call) =>
    Array.from({ length: size }, (_, at) => keyAt(call * size + at)),
  )
}
