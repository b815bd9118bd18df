import { SignalboxError } from '../../core/errors.ts'
import { type Client, runScript } from './client.ts'
import type { Greeter } from './connection.ts'
import { shardCount, shardKey } from './keys.ts'
import type { Script } from './scripts/script.ts'
import { greetShardsScript, lookAtShardsScript } from './scripts/shard.ts'

/**
 * The recovery grace. A Redis that restarts, or a replica that takes over, may have lost the last writes, among them
 * grants whose holders continue to work. Every start has a new run id, and every shard stores the run id to which it
 * belongs. A client compares the two right after it connects. If they differ, the shard grants nothing for the longest
 * lease that was requested recently, anywhere or by this process. During that grace no lease expires, and a holder that
 * renews with a token newer than any in the wait queue becomes the holder again. So:
 *
 * - Promised: when the server returns with all data except the last moments (an append-only file, a replica), no key is
 *   granted to two holders at once, and tokens continue to rise, because they are never below the time in microseconds.
 * - Promised: holders that renew during the grace keep their grants, even grants that were lost.
 * - Not promised: positions in the wait queue, outcomes and releases of the lost moments. A lost waiter asks again and
 *   waits behind the others. A lost release takes effect at the end of the grace. Some waiters do not get the outcome
 *   and must check for themselves.
 * - Not promised: the whole lease of a lost grant that was longer than any other recent one, until its own process
 *   reconnects.
 * - Not promised: any exclusion by the server alone when all its data is lost. Processes that knew the old server keep
 *   the grace for the longest lease that they requested; a new process that connects first knows of none.
 * - Not promised: exclusion when the server's clock goes back by more than the grace, or when two servers accept writes
 *   at once (a partition with a fail-over). Then the fencing token decides, as everywhere.
 */
export class Recovery implements Greeter {
  /** Warnings about unsafe settings of the server. */
  readonly warnings: string[] = []
  #isClustered = false
  #runId: string | undefined
  #longestMs = 0
  #longestBeforeMs = 0
  #longestSince = 0

  /** On a cluster a script may use the keys of one shard only. */
  get isClustered(): boolean {
    return this.#isClustered
  }

  /** The run id of the server that was greeted last. */
  get runId(): string {
    return this.#runId ?? ''
  }

  /** A caller requested a lease of this length. */
  recordTtl(ms: number): void {
    if (ms <= this.#longestMs && performance.now() - this.#longestSince < dayMs) return
    if (performance.now() - this.#longestSince >= dayMs) {
      this.#longestBeforeMs = this.#longestMs
      this.#longestMs = 0
      this.#longestSince = performance.now()
    }
    this.#longestMs = Math.max(this.#longestMs, ms)
  }

  async greet(client: Client): Promise<void> {
    const facts = await readServer(client)
    const weaknesses = await judgeServer(client, facts)
    this.warnings.splice(0, this.warnings.length, ...weaknesses)
    this.#isClustered = facts.isClustered
    const { runId } = facts
    const shards = (await this.#inAll<[string, number][]>(client, lookAtShardsScript, [])).flat()
    const isElsewhere = this.#runId !== undefined && this.#runId !== runId
    const knownMs = isElsewhere ? Math.max(this.#longestMs, this.#longestBeforeMs) : 0
    const isChanged = isElsewhere || shards.some(([run]) => run !== '' && run !== runId)
    if (isChanged || shards.some(([run]) => run !== runId)) {
      const graceMs = isChanged ? Math.max(knownMs, ...shards.map(([, ttlMs]) => ttlMs)) : 0
      await this.#inAll(client, greetShardsScript, ['', runId, `${graceMs}`])
    }
    this.#runId = runId
  }

  async isKnown(client: Client): Promise<boolean> {
    const { runId, isReplica } = await readServer(client)
    return runId === this.#runId && !isReplica
  }

  async #inAll<Reply>(client: Client, script: Script, args: readonly string[]): Promise<readonly Reply[]> {
    const groups = this.#isClustered ? shardKeys.map((key) => [key]) : [shardKeys]
    return Promise.all(groups.map((keys) => runScript<Reply>(client, script, keys, args)))
  }
}

const shardKeys: readonly string[] = Array.from({ length: shardCount }, (_, shard) => shardKey(shard))
const dayMs = 86_400_000

/** Facts about a Redis server. */
interface ServerFacts {
  readonly version: string
  /** Differs after every start, and on every server. */
  readonly runId: string
  readonly isReplica: boolean
  readonly isClustered: boolean
  readonly evictionPolicy: string
  readonly hasAppendOnlyFile: boolean
}

/** Uses INFO, which is allowed where CONFIG is not. */
async function readServer(client: Client): Promise<ServerFacts> {
  const info = String(await client.sendCommand(['INFO']))
  const fact = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
  return {
    version: fact('redis_version'),
    runId: fact('run_id'),
    isReplica: fact('role') === 'slave',
    isClustered: fact('cluster_enabled') === '1',
    evictionPolicy: fact('maxmemory_policy'),
    hasAppendOnlyFile: fact('aof_enabled') === '1',
  }
}

/** Refuses a Redis on which locks could vanish. Returns warnings about other unsafe settings. */
async function judgeServer(
  client: Client,
  { version, isReplica, isClustered, evictionPolicy, hasAppendOnlyFile }: ServerFacts,
): Promise<readonly string[]> {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < 6 || (major === 6 && minor < 2)) {
    throw new SignalboxError(
      'engine_unsupported',
      `This Redis is version ${version}; Signalbox needs 6.2 or newer. Upgrade the server.`,
    )
  }
  if (evictionPolicy !== 'noeviction') {
    throw new SignalboxError(
      'engine_unsupported',
      `This Redis removes keys when its memory is full (maxmemory-policy ${evictionPolicy}), and locks among them. Set maxmemory-policy to noeviction.`,
    )
  }
  if (isReplica) {
    // It may have been the primary until a moment ago: the next connection may find its successor.
    throw new SignalboxError(
      'store_unavailable',
      'This Redis is a replica and takes no writes. Give the address of the primary.',
    )
  }
  if (isClustered) await refuseParts(client)
  if (hasAppendOnlyFile) return []
  return [
    'Redis runs without an append-only file (appendonly no): a restart loses all locks, positions in the wait queue, and pools, cordons and drains of nodes. Set appendonly to yes.',
  ]
}

/** Refuses a single node of a cluster: it has only some of the slots, and this client does not follow redirections. */
async function refuseParts(client: Client): Promise<void> {
  const info = String(await client.sendCommand(['CLUSTER', 'INFO']))
  if (/^cluster_size:1\r?$/m.test(info)) return
  throw new SignalboxError(
    'engine_unsupported',
    'This address is one node of a Redis Cluster of several. Give the address of a Redis, or of a proxy, that serves all keys.',
  )
}
