import type { LockKey, WaitQueueQuery } from '../../locks/index.ts'
import { decodeKey, encodeKey, type Keyring, operationRange, shardCount } from './keys.ts'
import type { RedisLockParts } from './locks.ts'
import { lookForBusyScript } from './scripts/looks.ts'

/** The wait queues that are held or waited for, by operation and then resource, out of all shards. */
export interface BusyQueues {
  /** Pages of keys in order, until there are no more. What is done with them meanwhile may change what follows. */
  pages(query: WaitQueueQuery): AsyncGenerator<readonly LockKey[]>
}

/** How many names are read of a shard at once: more when most of them may not be what is looked for. */
const searchPage = 500

export function createBusyQueues({ connection, recovery }: RedisLockParts, keyring: Keyring): BusyQueues {
  const keys = Array.from({ length: shardCount }, (_, shard) => keyring.busy(shard))

  /** Names from each shard, in the order of bytes. */
  async function read(from: string, to: string, count: number): Promise<readonly (readonly string[])[]> {
    const args = [from, to, `${count}`]
    const groups = recovery.isClustered ? keys.map((key) => [key]) : [keys]
    const pages = await Promise.all(
      groups.map((group) =>
        connection.run<readonly (readonly string[])[]>(lookForBusyScript, group, args, args),
      ),
    )
    return pages.flat()
  }

  return {
    async *pages({ operation, search, limit, after }) {
      const range = operation === undefined ? { from: '-', to: '+' } : operationRange(operation)
      // Names are spread evenly, so this is enough for a page nearly always.
      const count = search === undefined ? Math.ceil(limit / shardCount) * 2 + 4 : searchPage
      let from = after === undefined ? range.from : laterOf(range.from, `(${encodeKey(after)}`)
      while (true) {
        const pages = await read(from, range.to, count)
        const names = mergePages(pages, count)
        const found = names.map(decodeKey)
        yield search === undefined ? found : found.filter(({ resource }) => resource.includes(search))
        if (pages.every((page) => page.length < count)) return
        from = `(${names.at(-1)!}`
      }
    },
  }
}

/**
 * The names of all pages in one order, up to where it is known: beyond the end of a page that was full there may be
 * names of its shard that were not read.
 */
function mergePages(pages: readonly (readonly string[])[], count: number): readonly string[] {
  const ends = pages.filter((page) => page.length === count).map((page) => page.at(-1)!)
  const end = ends.length === 0 ? undefined : ends.reduce((a, b) => (compareBytes(a, b) < 0 ? a : b))
  const names = pages.flat().sort(compareBytes)
  return end === undefined ? names : names.filter((name) => compareBytes(name, end) <= 0)
}

/** As Redis compares. */
function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** The later of two beginnings of a range; the first includes its name, the second does not. */
function laterOf(first: string, second: string): string {
  if (first === '-') return second
  return compareBytes(second.slice(1), first.slice(1)) >= 0 ? second : first
}
