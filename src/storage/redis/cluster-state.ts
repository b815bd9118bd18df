import { crc32 } from 'node:zlib'
import type {
  ClusterKind,
  ClusterRecord,
  ClusterStore,
  ClusterWrite,
} from '../../dispatch/cluster/cluster-store.ts'
import { createNonce } from '../token.ts'
import type { Connection } from './connection.ts'
import { decodeNames, encodeName, separator, shardCount } from './keys.ts'
import type { Recovery } from './recovery.ts'
import {
  lookForClusterStatesScript,
  pruneClusterStateScript,
  readClusterStateScript,
  writeClusterStateScript,
} from './scripts/cluster-state.ts'

/** What cluster states in Redis are made of; one set for all namespaces. */
export interface RedisClusterStateParts {
  readonly connection: Pick<Connection, 'run' | 'send'>
  readonly recovery: Pick<Recovery, 'runId'>
}

/** The cluster state of one namespace. Every step is a script in scripts/cluster-state.ts; here its arguments are put in order. */
export function createRedisClusterState(
  { connection, recovery }: RedisClusterStateParts,
  namespace: string,
): ClusterStore {
  const encoded = encodeName(namespace)
  // Never to be changed: a cluster state would be looked for where it is not.
  const shard = crc32(encoded) % shardCount
  const key = (kind: string) => `signalbox:{sb:${shard}}:${kind}:${encoded}`
  const rows = key('fleetrows')
  const keys = [key('fleet'), rows, key('fleetversions'), key('fleetremoved')]

  return {
    async read(since, limit) {
      const args = [serverClock, `${since}`, `${limit}`]
      const page = await connection.run<PageReply>(readClusterStateScript, keys, args, args)
      const [now, isReset, ...found] = page
      const listed: ClusterRecord[] = []
      for (let at = 0; at < found.length; at += 2) listed.push(decodeRow(found[at]!, found[at + 1]!))
      return { rows: listed, now, isReset: isReset === 1 }
    },

    async find(kind, key) {
      const name = nameOf(kind, key)
      const words = ['HGET', rows, name]
      const found = await connection.send<string | null>(words, words)
      const row = found === null ? undefined : decodeRow(name, found)
      return row?.doc === null ? undefined : row
    },

    async write(writes) {
      if (writes.length === 0) return []
      const said = key('fleetsaid') + separator + createNonce()
      const args = [serverClock, firstTime, recovery.runId, encoded, ...writes.flatMap(encodeWrite)]
      const versions = await connection.run<string>(
        writeClusterStateScript,
        [...keys, fleetsKey(shard), said],
        args,
        args.with(1, secondTime),
      )
      return versions.split(',').map((version) => (version === '' ? null : Number(version)))
    },

    prune(limit, olderThanMs) {
      const args = [serverClock, `${limit}`, `${olderThanMs}`]
      return connection.run<number>(pruneClusterStateScript, keys, args, args)
    },
  }
}

/** Up to `limit` namespaces that have nodes or tasks for nodes. */
export async function listDispatched(
  { connection, recovery }: { connection: Pick<Connection, 'run'>; recovery: Pick<Recovery, 'isClustered'> },
  limit: number,
): Promise<readonly string[]> {
  const keys = Array.from({ length: shardCount }, (_, shard) => fleetsKey(shard))
  const groups = recovery.isClustered ? keys.map((key) => [key]) : [keys]
  const args = [`${limit}`]
  const found = await Promise.all(
    groups.map((group) => connection.run<readonly string[]>(lookForClusterStatesScript, group, args, args)),
  )
  return found.flat().slice(0, limit).flatMap(decodeNames)
}

/** How much there is to place in each namespace of a shard. */
function fleetsKey(shard: number): string {
  return `signalbox:{sb:${shard}}:fleets`
}

const serverClock = ''
const firstTime = '0'
const secondTime = '1'

type PageReply = readonly [now: number, isReset: number, ...namesAndRows: string[]]

function nameOf(kind: ClusterKind, key: string): string {
  return kind + separator + encodeName(key)
}

function encodeWrite({ kind, key, seen, doc, forMs }: ClusterWrite): readonly string[] {
  const isForGood = doc === null || forMs === null
  const isPlaced = kind === 'node' || kind === 'demand'
  return [
    ...[nameOf(kind, key), `${seen}`, doc === null ? '-' : `+${doc}`],
    ...[isForGood ? '' : `${forMs}`, isPlaced ? '1' : '0'],
  ]
}

function decodeRow(name: string, row: string): ClusterRecord {
  const [kind, key = ''] = decodeNames(name)
  const versionEnd = row.indexOf(separator)
  const docAt = row.indexOf(separator, versionEnd + 1) + 1
  const expiresAt = row.slice(versionEnd + 1, docAt - 1)
  return {
    kind: kind as ClusterKind,
    key,
    version: Number(row.slice(0, versionEnd)),
    doc: row[docAt] === '-' ? null : row.slice(docAt + 1),
    expiresAt: expiresAt === '' ? null : Number(expiresAt),
  }
}
