import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { connect } from '../ground.ts'
import { createRandom, type Random } from '../random.ts'
import type { Counts } from '../stage.ts'
import { checkedHistory } from './lock-history.ts'
import { startLockServers } from './lock-servers.ts'

export interface LockKillsOptions {
  readonly seed: number
  readonly operations: number
  readonly kills: number
}

/**
 * Ten clients, two servers on one store, which are killed with -9 and started again, and connections that are cut when a
 * call has just gone out. Every wait queue's history must be one that a single wait queue could have given.
 */
export async function killLockServers(
  { url, namespace }: { readonly url: string; readonly namespace: string },
  { seed, operations, kills }: LockKillsOptions,
): Promise<Counts> {
  await using servers = await startLockServers({
    url,
    namespace,
    count: 2,
    random: createRandom(seed + 1),
    cutShare: 0.02,
    storeIsQuiet: () => storeIsQuiet(url),
  })

  async function harm(random: Random): Promise<Counts> {
    // Until there are wait queues to speak of.
    await sleep(500)
    for (let kill = 0; kill < kills; kill++) {
      await sleep(random.whole(50, 500))
      // Now and then both at once: then no server answers for a while.
      const hit = random() < 0.2 ? [0, 1] : [random.whole(0, 1)]
      await Promise.all(hit.map((index) => servers.killAndReplace(index, random.whole(0, 150))))
    }
    return { kills }
  }

  const counts = await checkedHistory({ seed, operations, door: (client) => servers.door(client), harm })
  const { accidents, errors, cuts } = servers
  if (accidents.length > 0) throw new Error(accidents.join('\n'))
  // A store may be busy for a moment; one that mostly refuses has shown nothing.
  if (errors.length > operations / 50) throw new Error(`${errors.length} calls failed: ${errors[0]}`)
  return { ...counts, cuts, errors: errors.length }
}

/** Waits until whatever a dead process had sent to the store has been dealt with there. */
async function storeIsQuiet(url: string): Promise<void> {
  // SQLite is in the process, and dies with it.
  if (url.startsWith('sqlite')) return
  if (url.startsWith('redis')) return await passRedis(url)
  // A statement that the server has read is carried out, also when it first has to wait for a row.
  await sleep(300)
  const sessions = url.startsWith('postgres')
    ? `SELECT concat(pid, query_start) AS name FROM pg_stat_activity
       WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`
    : `SELECT concat(query_id, '') AS name FROM information_schema.processlist
       WHERE db = database() AND command <> 'Sleep' AND id <> connection_id()`
  await using caller = await connect(url)
  const busy = async () => (await caller.exec(sessions)).map(({ name }) => name)
  for (let rest = await busy(); rest.length > 0; ) {
    await sleep(5)
    const still = await busy()
    rest = rest.filter((name) => still.includes(name))
  }
}

/**
 * What a dead process had sent lies in Redis's sockets already, and is read by its next round; an answer to the last of
 * three questions is from a later one.
 */
async function passRedis(url: string): Promise<void> {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    for (let round = 0; round < 3; round++) await client.ping()
  } finally {
    client.destroy()
  }
}
