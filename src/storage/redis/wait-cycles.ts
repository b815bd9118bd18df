import type { LockKey, WaitingHolder } from '../../locks/index.ts'
import { maxWaitingHolders } from '../sql/locks/wait-queue-key.ts'
import { decodeRequester, decodeWait, type Keyring, shardCount } from './keys.ts'
import type { RedisLockParts } from './locks.ts'
import { lookForWaitsScript } from './scripts/looks.ts'
import { anyTimes, asItIs } from './stepper.ts'

/** How many are looked up by one script: each is searched for in all shards, and others wait meanwhile. */
const lookedUpTogether = 16

/** Where those who hold these wait queues wait. */
export async function findWaitingHolders(
  parts: RedisLockParts,
  keyring: Keyring,
  keys: readonly LockKey[],
): Promise<readonly WaitingHolder[]> {
  const { stepper } = parts
  const replies = await Promise.all(
    keys.map((key) => stepper.step(keyring.locate(key), 'holding', [], anyTimes, undefined, asItIs)),
  )
  const held = replies.flatMap(([, , , , [status, holder, token]], index) => {
    if (status !== 'held') return []
    const { operation, resource } = keys[index]!
    return [{ holds: { operation, resource }, holder: holder as string, token: token as number }]
  })
  const holders = [...new Set(held.map(({ holder }) => holder))]
  const waits = new Map<string, readonly string[]>()
  for (let from = 0; from < holders.length; from += lookedUpTogether) {
    const some = holders.slice(from, from + lookedUpTogether)
    const found = await lookUp(parts, keyring, some)
    for (const [index, holder] of some.entries()) waits.set(holder, found[index]!)
  }
  return held
    .flatMap(({ holds, holder, token }) => {
      const who = decodeRequester(holder)
      return waits.get(holder)!.map((wait): WaitingHolder => {
        const { key: waitsFor, seq } = decodeWait(wait)
        return { who, holds, token, waitsFor, seq }
      })
    })
    .slice(0, maxWaitingHolders)
}

/** The waits of each, out of all shards. */
async function lookUp(
  { connection, recovery }: RedisLockParts,
  keyring: Keyring,
  holders: readonly string[],
): Promise<readonly (readonly string[])[]> {
  const keys = Array.from({ length: shardCount }, (_, shard) => keyring.waits(shard))
  const groups = recovery.isClustered ? keys.map((key) => [key]) : [keys]
  const pages = await Promise.all(
    groups.map((group) =>
      connection.run<readonly (readonly string[])[]>(lookForWaitsScript, group, holders, holders),
    ),
  )
  return holders.map((_, index) => pages.flatMap((page) => page[index]!))
}
