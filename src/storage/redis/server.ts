import { SignalboxError } from '../../core/errors.ts'
import type { Client } from './client.ts'

/** What a Redis says of itself. */
export interface ServerFacts {
  readonly version: string
  /** Another one after every start, and on every server. */
  readonly runId: string
  readonly isReplica: boolean
  readonly isClustered: boolean
  readonly evictionPolicy: string
  readonly hasAppendOnlyFile: boolean
}

/** By INFO, which is allowed where CONFIG is not. */
export async function readServer(client: Client): Promise<ServerFacts> {
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

/** Refuses a Redis on which locks would vanish; answers what is weak about it, in words. */
export async function judgeServer(
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
    // Perhaps a primary until a moment ago: the next connection may find its successor.
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
