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
import { ofAllShards, runOnShards, type ShardParts } from './looks.ts'
import type { Recovery } from './recovery.ts'
import { clockText, createScript } from './scripts/script.ts'

/**
 * The cluster state of a namespace. KEYS: its metadata (a hash of the newest version, the newest deleted version, and
 * the run of the server that wrote last), its rows (a hash), their versions (a sorted set), and the times at which rows
 * were removed (a sorted set). All are in one slot.
 *
 * A row is one text: version, expiry time or nothing, and + with the document, or - for a removed row.
 *
 * A version is the time in microseconds, or the last version plus one if that is higher. So versions rise even after a
 * loss of data: a restarted server gives versions above all earlier ones. The first write of a run marks all lower
 * versions as deleted, so a reader of lost rows starts again.
 */
const boardText = `
local board, rows, versions, removed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local function known(name)
  return tonumber(redis.call('HGET', board, name) or 0)
end

local function whole(number)
  return string.format('%.0f', number)
end
`

/** ARGV: the clock, since, limit. Returns the time, whether the page is a reset, and each row after its name. */
const readClusterStateScript = createScript(
  clockText,
  boardText,
  `
local since, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local forgotten = known('forgotten')
local isReset = since > 0 and (since < forgotten or since > known('version'))
if isReset then since = 0 end
-- A reader cannot continue below the deleted version, so a page that starts at the beginning reads beyond it.
if since == 0 and forgotten > 0 then
  limit = math.max(limit, redis.call('ZCOUNT', versions, '-inf', whole(forgotten)) + 1)
end
local page = { now, isReset and 1 or 0 }
local names = redis.call('ZRANGEBYSCORE', versions, '(' .. whole(since), '+inf', 'LIMIT', 0, whole(limit))
for from = 1, #names, 500 do
  local to = math.min(#names, from + 499)
  for i, row in ipairs(redis.call('HMGET', rows, unpack(names, from, to))) do
    page[#page + 1] = names[from + i - 1]
    page[#page + 1] = row
  end
end
return page
`,
)

/**
 * ARGV: the clock, whether the call is a repetition, the run of the server, the namespace. Then for each write: its
 * name, the version seen, the document as in a row, the time to live or nothing, and whether the row is of a node or a
 * task to place. KEYS 5, a sorted set, counts these rows for each namespace of the shard.
 *
 * Returns the versions, joined by commas; a write that was too late has an empty version. KEYS 6 keeps the answer for a
 * while, for a caller that lost it and repeats the call.
 */
const writeClusterStateScript = createScript(
  clockText,
  boardText,
  `
if ARGV[2] == '1' then
  local said = redis.call('GET', KEYS[6])
  if said then return said end
end
local version, forgotten, run = known('version'), known('forgotten'), ARGV[3]
-- The clock does not advance within a script, but versions must.
version = math.max(version, micros - 1)
if redis.call('HGET', board, 'run') ~= run then
  version = version + 1
  forgotten = version
end
local answers = {}
local isWritten = false
local placed = 0
for at = 5, #ARGV, 5 do
  local name, seen, doc, forMs = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local its = tonumber(redis.call('ZSCORE', versions, name) or 0)
  local isThere = its > 0 and not redis.call('ZSCORE', removed, name)
  if seen == its or (seen == 0 and not isThere) then
    version = version + 1
    isWritten = true
    local text = whole(version)
    local expiresAt = forMs ~= '' and whole(now + tonumber(forMs)) or ''
    redis.call('HSET', rows, name, text .. '\\31' .. expiresAt .. '\\31' .. doc)
    redis.call('ZADD', versions, text, name)
    if doc == '-' then
      redis.call('ZADD', removed, whole(now), name)
    else
      redis.call('ZREM', removed, name)
    end
    if ARGV[at + 4] == '1' then placed = placed + (doc == '-' and 0 or 1) - (isThere and 1 or 0) end
    answers[#answers + 1] = text
  else
    answers[#answers + 1] = ''
  end
end
local said = table.concat(answers, ',')
if isWritten then
  redis.call('HSET', board, 'version', whole(version), 'forgotten', whole(forgotten), 'run', run)
  redis.call('SET', KEYS[6], said, 'PX', 30000)
  if placed ~= 0 and tonumber(redis.call('ZINCRBY', KEYS[5], placed, ARGV[4])) <= 0 then
    redis.call('ZREM', KEYS[5], ARGV[4])
  end
end
return said
`,
)

/**
 * ARGV: the clock, the limit, and the minimum age. Returns the number of deleted rows. It keeps the newest row, so that
 * a reader at the end of the cluster state is above the deleted version.
 */
const pruneClusterStateScript = createScript(
  clockText,
  boardText,
  `
local limit, before = tonumber(ARGV[2]), now - tonumber(ARGV[3])
local version, forgotten = known('version'), known('forgotten')
local count = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', removed, '-inf', '(' .. whole(before), 'LIMIT', 0, limit + 1)) do
  local its = tonumber(redis.call('ZSCORE', versions, name))
  if count < limit and its < version then
    redis.call('HDEL', rows, name)
    redis.call('ZREM', versions, name)
    redis.call('ZREM', removed, name)
    forgotten = math.max(forgotten, its)
    count = count + 1
  end
end
if count > 0 then redis.call('HSET', board, 'forgotten', whole(forgotten)) end
return count
`,
)

/** KEYS: of shards, the counts of rows to place. ARGV: limit. Returns the names of namespaces with such rows. */
const lookForClusterStatesScript = createScript(`
local limit = tonumber(ARGV[1])
local found = {}
for i = 1, #KEYS do
  if #found >= limit then break end
  for _, namespace in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], 1, '+inf', 'LIMIT', 0, limit - #found)) do
    found[#found + 1] = namespace
  end
end
return found
`)

/** The shared parts of cluster states in Redis, for all namespaces. */
export interface RedisClusterStateParts {
  readonly connection: Pick<Connection, 'run' | 'send'>
  readonly recovery: Pick<Recovery, 'runId'>
}

/** The cluster state of one namespace. Every step is a script. */
export function createRedisClusterState(
  { connection, recovery }: RedisClusterStateParts,
  namespace: string,
): ClusterStore {
  const encoded = encodeName(namespace)
  // Never change this: the store would look for a cluster state in the wrong shard.
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
      const command = ['HGET', rows, name]
      const found = await connection.send<string | null>(command, command)
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

/** Lists up to `limit` namespaces with nodes or with tasks for nodes. */
export async function listDispatched(parts: ShardParts, limit: number): Promise<readonly string[]> {
  const args = [`${limit}`]
  const found = await runOnShards<readonly string[]>(
    parts,
    lookForClusterStatesScript,
    ofAllShards(fleetsKey),
    args,
  )
  return found.flat().slice(0, limit).flatMap(decodeNames)
}

/** The counts of rows to place, for each namespace of a shard. */
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
