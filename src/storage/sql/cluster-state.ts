import { hash } from 'node:crypto'
import type {
  ClusterKind,
  ClusterPage,
  ClusterRecord,
  ClusterStore,
  ClusterWrite,
} from '../../dispatch/cluster/cluster-store.ts'
import { isClusterReset } from '../cluster-state.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import { readNamespaces, readOne } from './operations.ts'
import { last, type Operation, one, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * The cluster state of one namespace. A row is found by the hash of its key, because the key may be too wide for an index.
 *
 * Each writer first raises `fleet_board.version` by the number of its writes. This locks the row until the commit, so
 * writers follow each other, and readers see versions in the order in which writers took them. A write that is too late
 * leaves a gap in the versions.
 */
export function createClusterStore(database: Database, namespace: string): ClusterStore {
  return {
    read: (since, limit) => database.run(readRows, [namespace, since, limit]),
    find: (kind, key) => database.run(findRow, [namespace, kind, key]),
    write: (writes) => database.run(writeRows, [namespace, writes]),
    prune: (limit, olderThanMs) => database.run(pruneRows, [namespace, limit, olderThanMs]),
  }
}

const stored = columns<ClusterRecord>({
  ...{
    kind: 'text',
    key: ['text', 'row_key'],
    version: 'integer',
    doc: 'text | null',
    expiresAt: 'integer | null',
  },
})

const selectAfter = statement(
  'cluster_read',
  { namespace: 'text', since: 'integer', limit: 'integer' },
  (d) => `
SELECT ${stored.names} FROM @fleet_row ${d.byIndex('fleet_row_version')}
WHERE namespace = :namespace AND version > :since ORDER BY version LIMIT :limit`,
)

const selectReach = statement(
  'cluster_reach',
  { namespace: 'text' },
  (d) => `
SELECT ${d.now} AS now, max(version) AS version, max(forgotten) AS forgotten
FROM @fleet_board WHERE namespace = :namespace`,
)

interface ReachRow {
  readonly now: number | string
  readonly version: number | string | null
  readonly forgotten: number | string | null
}

/**
 * Reads the rows first, and then the versions of the board. If rows were deleted in between, this page or the next read
 * counts as a reset, so the reader never misses a removal.
 */
const readRows = operation({
  name: 'read the cluster state',
  isRead: true,
  *procedure(namespace: string, since: number, limit: number) {
    let from = since
    let most = limit
    for (;;) {
      const [found, reach] = yield* run(
        selectAfter({ namespace, since: from, limit: most }),
        selectReach({ namespace }),
      )
      const rows = found!.rows.map(stored.decode)
      const { now, version, forgotten } = reach!.rows[0] as ReachRow
      const page: ClusterPage = { rows, now: Number(now), isReset: from !== since }
      if (isClusterReset(from, { version: Number(version ?? 0), forgotten: Number(forgotten ?? 0) })) {
        from = 0
        continue
      }
      // A reader cannot continue from below the deleted versions, so the first page reads beyond them.
      const isFirst = from === 0 && Number(forgotten ?? 0) > 0
      if (!isFirst || rows.length < most || (rows.at(-1)?.version ?? 0) > Number(forgotten)) return page
      most = Math.max(1, most * 2)
    }
  },
})

const selectOne = statement(
  'cluster_find',
  { namespace: 'text', kind: 'text', hash: 'text' },
  () => `
SELECT ${stored.names} FROM @fleet_row
WHERE namespace = :namespace AND kind = :kind AND key_hash = :hash AND removed_at IS NULL`,
)

const findRow = readOne(
  'find a row of the cluster state',
  (namespace: string, kind: ClusterKind, key: string) =>
    selectOne({ namespace, kind, hash: hashClusterKey(key) }),
  stored.decode,
)

const raiseVersion = statement(
  'cluster_raise',
  { namespace: 'text', count: 'integer' },
  (d) => `
${d.upsert({
  into: '@fleet_board',
  columns: 'namespace, version, forgotten',
  source: 'VALUES (:namespace, :count, 0)',
  key: 'namespace',
  set: { version: 'old.version + new.version' },
})} RETURNING version`,
)

// The lock on the board row makes it safe to read the row and then write it.
const upsertRows = statement(
  'cluster_write',
  {
    namespace: 'text',
    rows: {
      ...{ kind: 'text', hash: 'text', row_key: 'text', seen: 'integer', doc: 'text | null' },
      ...{ for_ms: 'integer | null', back: 'integer' },
    },
  },
  (d) => `
${d.upsert({
  into: '@fleet_row',
  columns: 'namespace, kind, key_hash, row_key, version, doc, expires_at, removed_at',
  source: `
SELECT :namespace, v.kind, v.hash, v.row_key,
  (SELECT version FROM @fleet_board WHERE namespace = :namespace) - v.back, v.doc,
  CASE WHEN v.doc IS NOT NULL THEN ${d.now} + v.for_ms END, CASE WHEN v.doc IS NULL THEN ${d.now} END
FROM :rows
WHERE coalesce((
  SELECT CASE WHEN r.version = v.seen OR v.seen = 0 AND r.removed_at IS NOT NULL THEN 1 ELSE 0 END
  FROM @fleet_row r WHERE r.namespace = :namespace AND r.kind = v.kind AND r.key_hash = v.hash
), CASE WHEN v.seen = 0 THEN 1 ELSE 0 END) = 1`,
  key: 'namespace, kind, key_hash',
  set: {
    version: 'new.version',
    doc: 'new.doc',
    expires_at: 'new.expires_at',
    removed_at: 'new.removed_at',
  },
})} RETURNING version`,
)

const writeRows = operation({
  name: 'write to the cluster state',
  connectionGroup: 'waiting',
  *procedure(namespace: string, writes: readonly ClusterWrite[]) {
    const count = writes.length
    if (count === 0) return []
    const batches = splitByKey(writes.map((write, nr) => encodeWrite(write, count - 1 - nr)))
    const [raised, ...written] = yield* last(
      run(raiseVersion({ namespace, count }), ...batches.map((rows) => upsertRows({ namespace, rows }))),
    )
    const first = Number((raised!.rows[0] as VersionRow).version) - count + 1
    const taken = new Set(
      written.flatMap(({ rows }) => (rows as VersionRow[]).map((row) => Number(row.version))),
    )
    return writes.map((_, nr) => (taken.has(first + nr) ? first + nr : null))
  },
})

type EncodedWrite = ReturnType<typeof encodeWrite>

/** `back` is the distance from this write's version to the last version of the call. */
function encodeWrite({ kind, key, seen, doc, forMs }: ClusterWrite, back: number) {
  // No row has a version below zero.
  const safeSeen = Number.isSafeInteger(seen) ? seen : -1
  return { kind, hash: hashClusterKey(key), row_key: key, seen: safeSeen, doc, for_ms: forMs, back }
}

/** Splits writes into batches in which each key occurs once: a write must see the earlier writes of its key. */
function splitByKey(writes: readonly EncodedWrite[]): readonly (readonly EncodedWrite[])[] {
  const batches: EncodedWrite[][] = []
  let keys = new Set<string>()
  for (const write of writes) {
    const key = `${write.kind} ${write.hash}`
    if (batches.length === 0 || keys.has(key)) {
      batches.push([])
      keys = new Set()
    }
    keys.add(key)
    batches.at(-1)!.push(write)
  }
  return batches
}

const lockBoard = statement(
  'cluster_lock',
  { namespace: 'text' },
  (d) => `SELECT version FROM @fleet_board WHERE namespace = :namespace ${d.forUpdate}`,
)

// Keeps the newest row: a reader at the end of the cluster state is then above all deleted versions.
const selectRemoved = statement(
  'cluster_removed',
  { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
  (d) => `
SELECT version FROM @fleet_row ${d.byIndex('fleet_row_removed')}
WHERE namespace = :namespace AND removed_at < ${d.now} - :olderThanMs AND version < (
  SELECT version FROM @fleet_row ${d.byIndex('fleet_row_version')}
  WHERE namespace = :namespace ORDER BY version DESC LIMIT 1)
ORDER BY removed_at, version LIMIT :limit`,
)

const forget = statement(
  'cluster_forget',
  { namespace: 'text', version: 'integer' },
  (d) => `
UPDATE @fleet_board SET forgotten = ${d.greatest('forgotten', ':version')} WHERE namespace = :namespace`,
)

const deleteRows = statement(
  'cluster_prune',
  { namespace: 'text', versions: 'integer[]' },
  () => 'DELETE FROM @fleet_row WHERE namespace = :namespace AND version IN (:versions)',
)

const pruneRows = operation({
  name: 'prune the cluster state',
  connectionGroup: 'waiting',
  *procedure(namespace: string, limit: number, olderThanMs: number) {
    const [, found] = yield* run(lockBoard({ namespace }), selectRemoved({ namespace, olderThanMs, limit }))
    const versions = (found!.rows as readonly VersionRow[]).map(({ version }) => Number(version))
    if (versions.length === 0) return 0
    const newest = versions.reduce((most, version) => Math.max(most, version))
    yield* last(run(forget({ namespace, version: newest }), deleteRows({ namespace, versions })))
    return versions.length
  },
  upkeep: {
    *isNeeded(namespace: string, _limit: number, olderThanMs: number) {
      return (yield* one(selectRemoved({ namespace, olderThanMs, limit: 1 }))) !== undefined
    },
    otherwise: 0,
  },
})

// A subquery with LIMIT stays a look-up per namespace, whatever statistics the planner has.
const selectDispatched = statement(
  'cluster_namespaces',
  { limit: 'integer' },
  (d) => `
SELECT namespace FROM @fleet_board board WHERE (
  SELECT 1 FROM @fleet_row r ${d.byIndex('PRIMARY')}
  WHERE r.namespace = board.namespace AND r.kind IN ('node', 'demand') AND r.removed_at IS NULL LIMIT 1) = 1
ORDER BY namespace LIMIT :limit`,
)

/** Lists up to `limit` namespaces that have nodes or tasks for nodes. */
export const listDispatchedNamespaces: Operation<readonly [limit: number], readonly string[]> =
  readNamespaces('list namespaces with nodes', selectDispatched)

export function hashClusterKey(key: string): string {
  return hash('sha256', key, 'base64url')
}

interface VersionRow {
  readonly version: number | string
}
