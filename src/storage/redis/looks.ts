import type { LockKey, WaitingHolder, WaitQueueQuery } from '../../locks/index.ts'
import { compareBytes } from '../compare-bytes.ts'
import { maxWaitingHolders } from '../sql/locks/wait-queue-record.ts'
import type { ScriptRunner } from './connection.ts'
import {
  type DueEntry,
  decodeDue,
  decodeKey,
  decodeRequester,
  decodeWait,
  encodeKey,
  type Keyring,
  operationRange,
  shardCount,
} from './keys.ts'
import type { RedisLockParts } from './locks.ts'
import type { Recovery } from './recovery.ts'
import { clockText, createScript, type Script } from './scripts/script.ts'
import { anyTimes } from './stepper.ts'

/** Searches all shards for due wait queues, busy wait queues, and holders that wait. */

/** The parts that a search needs. */
export interface ShardParts {
  readonly connection: ScriptRunner
  readonly recovery: Pick<Recovery, 'isClustered'>
}

/** Runs a script on one key of each shard. On a cluster a script may use only one shard, so each shard gets its own. */
export function runOnShards<Reply>(
  { connection, recovery }: ShardParts,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<readonly Reply[]> {
  const groups = recovery.isClustered ? keys.map((key) => [key]) : [keys]
  return Promise.all(groups.map((group) => connection.run<Reply>(script, group, args, args)))
}

/** One key of each shard, starting with shard `first`. */
export function ofAllShards(keyOf: (shard: number) => string, first = 0): readonly string[] {
  return Array.from({ length: shardCount }, (_, nr) => keyOf((first + nr) % shardCount))
}

/** Due entries of some shards (KEYS), at most ARGV 2: wait queues, and their waiters. */
const lookForDueScript: Script = createScript(
  clockText,
  `
local limit = tonumber(ARGV[2])
local found = {}
for i = 1, #KEYS do
  if #found >= limit then break end
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', now, 'LIMIT', 0, limit - #found)) do
    found[#found + 1] = entry
  end
end
return found
`,
)

/**
 * Finds due wait queues and waiters. `first` is another shard each time, so that a full shard does not hide those after
 * it.
 */
export async function findDue(
  parts: RedisLockParts,
  keyring: Keyring,
  limit: number,
  first: number,
): Promise<readonly DueEntry[]> {
  const keys = ofAllShards((shard) => keyring.due(shard), first)
  const args = [parts.stepper.clock, `${limit}`]
  const found = await runOnShards<readonly string[]>(parts, lookForDueScript, keys, args)
  return found.flat().slice(0, limit).map(decodeDue)
}

/** Names of busy wait queues of each of some shards (KEYS), from one name (ARGV 1) to another (2), at most ARGV 3. */
const lookForBusyScript: Script = createScript(`
local pages = {}
for i = 1, #KEYS do
  pages[i] = redis.call('ZRANGEBYLEX', KEYS[i], ARGV[1], ARGV[2], 'LIMIT', 0, tonumber(ARGV[3]))
end
return pages
`)

/** The number of names to read from a shard at once if most of them may not match the search. */
const searchPage = 500

/**
 * The wait queues with a holder or waiters of all shards, by operation and then resource: yields pages of keys until
 * there are no more. Changes by the caller between two pages may affect later pages.
 */
export async function* pagesOfBusy(
  parts: RedisLockParts,
  keyring: Keyring,
  { operation, search, limit, after }: WaitQueueQuery,
): AsyncGenerator<readonly LockKey[]> {
  const range = operation === undefined ? { from: '-', to: '+' } : operationRange(operation)
  // Names are spread evenly over shards, so this is nearly always enough for a page.
  const count = search === undefined ? Math.ceil(limit / shardCount) * 2 + 4 : searchPage
  let from = after === undefined ? range.from : laterOf(range.from, `(${encodeKey(after)}`)
  while (true) {
    const args = [from, range.to, `${count}`]
    const keys = ofAllShards((shard) => keyring.busy(shard))
    // From each shard, in byte order.
    const pages = (
      await runOnShards<readonly (readonly string[])[]>(parts, lookForBusyScript, keys, args)
    ).flat()
    const names = mergePages(pages, count)
    const found = names.map(decodeKey)
    yield search === undefined ? found : found.filter(({ resource }) => resource.includes(search))
    if (pages.every((page) => page.length < count)) return
    from = `(${names.at(-1)!}`
  }
}

/**
 * Merges the names of all pages into one order, up to where it is complete: after the end of a full page its shard may
 * have more names.
 */
function mergePages(pages: readonly (readonly string[])[], count: number): readonly string[] {
  const ends = pages.filter((page) => page.length === count).map((page) => page.at(-1)!)
  const end = ends.length === 0 ? undefined : ends.reduce((a, b) => (compareBytes(a, b) < 0 ? a : b))
  const names = pages.flat().sort(compareBytes)
  return end === undefined ? names : names.filter((name) => compareBytes(name, end) <= 0)
}

/** The later of two range starts. The first includes its name, the second does not. */
function laterOf(first: string, second: string): string {
  if (first === '-') return second
  return compareBytes(second.slice(1), first.slice(1)) >= 0 ? second : first
}

/**
 * The positions of some requesters (ARGV) in the wait queues of some shards (KEYS), up to 100 for each in each shard.
 */
const lookForWaitsScript: Script = createScript(`
local found = {}
for i = 1, #ARGV do found[i] = {} end
for k = 1, #KEYS do
  if redis.call('EXISTS', KEYS[k]) == 1 then
    for i = 1, #ARGV do
      local from, to = '[' .. ARGV[i] .. '\\30', '(' .. ARGV[i] .. '\\31'
      for _, wait in ipairs(redis.call('ZRANGEBYLEX', KEYS[k], from, to, 'LIMIT', 0, 100)) do
        found[i][#found[i] + 1] = wait
      end
    end
  end
end
return found
`)

/** The number of holders that one script looks up. Each is searched in all shards, and other callers wait meanwhile. */
const lookedUpTogether = 16

/** Finds where the holders of these wait queues wait. */
export async function findWaitingHolders(
  parts: RedisLockParts,
  keyring: Keyring,
  keys: readonly LockKey[],
): Promise<readonly WaitingHolder[]> {
  const { stepper } = parts
  const replies = await Promise.all(
    keys.map((key) => stepper.step(keyring.locate(key), 'holding', [], anyTimes)),
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
    const keys = ofAllShards((shard) => keyring.waits(shard))
    const pages = await runOnShards<readonly (readonly string[])[]>(parts, lookForWaitsScript, keys, some)
    for (const [index, holder] of some.entries())
      waits.set(
        holder,
        pages.flatMap((page) => page[index]!),
      )
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
