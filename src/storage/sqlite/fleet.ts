import type {
  FleetKind,
  FleetPage,
  FleetRow,
  FleetStore,
  FleetWrite,
} from '../../dispatch/cluster/fleet-store.ts'
import { decodeFleetRow, type FleetReach, isFleetReset, type StoredFleetRow } from '../sql/fleet-row.ts'
import { type Connection, readNow } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import type { Writer } from './writing/writer.ts'

/**
 * The fleet's board of one namespace in SQLite. Writers are one after the other, so the order of versions is the order
 * of commits; a reader sees one state of the file, and so never a row without those before it.
 */
export interface SqliteFleetOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  /** Throws when the store was closed. */
  check(): void
}

export function createSqliteFleet({ namespace, writer, reader, check }: SqliteFleetOptions): FleetStore {
  return {
    async read(since, limit) {
      check()
      return reader.read((connection) => readFleet(connection, namespace, since, limit))
    },
    async find(kind, key) {
      check()
      return reader.read((connection) => findFleetRow(connection, namespace, kind, key))
    },
    async write(writes) {
      check()
      if (writes.length === 0) return []
      return writer.write({ operation: 'writeFleet', namespace, args: [writes] })
    },
    async prune(limit, olderThanMs) {
      check()
      // Nearly always there is nothing to do, and then nobody needs the writer.
      const isDue = await reader.read((connection) =>
        isFleetOld(connection, namespace, readNow(connection) - olderThanMs),
      )
      return isDue ? writer.write({ operation: 'pruneFleet', namespace, args: [limit, olderThanMs] }) : 0
    },
  }
}

const columns = 'kind, row_key, version, doc, expires_at'

function readFleet(connection: Connection, namespace: string, since: number, limit: number): FleetPage {
  const now = readNow(connection)
  const reach = readReach(connection, namespace)
  const isReset = isFleetReset(since, reach)
  const from = isReset ? 0 : since
  const rows = connection.all<StoredFleetRow>(
    `SELECT ${columns} FROM fleet_row WHERE namespace = ?1 AND version > ?2 ORDER BY version LIMIT ?3 + 0`,
    namespace,
    from,
    from === 0 ? Math.max(limit, countUpTo(connection, namespace, reach.forgotten) + 1) : limit,
  )
  return { rows: rows.map(decodeFleetRow), now, isReset }
}

/** From below what was forgotten nobody could go on, so a page that starts at the beginning goes beyond it. */
function countUpTo(connection: Connection, namespace: string, version: number): number {
  const sql = 'SELECT count(*) AS count FROM fleet_row WHERE namespace = ?1 AND version <= ?2'
  return connection.get<{ count: number }>(sql, namespace, version)!.count
}

function readReach(connection: Connection, namespace: string): FleetReach {
  const sql = 'SELECT version, forgotten FROM fleet_board WHERE namespace = ?1'
  return connection.get<FleetReach>(sql, namespace) ?? { version: 0, forgotten: 0 }
}

function findFleetRow(
  connection: Connection,
  namespace: string,
  kind: FleetKind,
  key: string,
): FleetRow | undefined {
  const row = connection.get<StoredFleetRow>(
    `SELECT ${columns} FROM fleet_row
     WHERE namespace = ?1 AND kind = ?2 AND row_key = ?3 AND removed_at IS NULL`,
    namespace,
    kind,
    key,
  )
  return row && decodeFleetRow(row)
}

export function writeFleet(
  connection: Connection,
  namespace: string,
  writes: readonly FleetWrite[],
  now: number,
): readonly (number | null)[] {
  const { version: before } = readReach(connection, namespace)
  let version = before
  const upsert = connection.prepare(
    `INSERT INTO fleet_row (namespace, kind, row_key, version, expires_at, removed_at, doc)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
     ON CONFLICT (namespace, kind, row_key) DO UPDATE SET version = excluded.version,
       expires_at = excluded.expires_at, removed_at = excluded.removed_at, doc = excluded.doc
     WHERE version = ?8 OR (?8 = 0 AND removed_at IS NOT NULL)`,
  )
  const versions = writes.map(({ kind, key, seen, doc, forMs }) => {
    // Where there is no row nothing stands in the way of the insert, whatever was seen.
    if (seen !== 0 && !hasRow(connection, namespace, kind, key)) return null
    const expiresAt = doc === null || forMs === null ? null : now + forMs
    const removedAt = doc === null ? now : null
    const { changes } = upsert.run(namespace, kind, key, version + 1, expiresAt, removedAt, doc, seen)
    return changes === 1 ? ++version : null
  })
  if (version > before) {
    connection.run(
      `INSERT INTO fleet_board (namespace, version, forgotten) VALUES (?1, ?2, 0)
       ON CONFLICT (namespace) DO UPDATE SET version = excluded.version`,
      namespace,
      version,
    )
  }
  return versions
}

function hasRow(connection: Connection, namespace: string, kind: FleetKind, key: string): boolean {
  const sql = 'SELECT 1 FROM fleet_row WHERE namespace = ?1 AND kind = ?2 AND row_key = ?3'
  return connection.get(sql, namespace, kind, key) !== undefined
}

/** The newest row of all stays: whoever has read the board to its end is then above what was forgotten. */
const removed = `FROM fleet_row WHERE namespace = ?1 AND removed_at < ?2
  AND version < (SELECT version FROM fleet_board WHERE namespace = ?1)`

function isFleetOld(connection: Connection, namespace: string, cutoff: number): boolean {
  return connection.get(`SELECT 1 ${removed} LIMIT 1`, namespace, cutoff) !== undefined
}

export function pruneFleet(connection: Connection, namespace: string, limit: number, cutoff: number): number {
  const gone = connection.all<{ version: number }>(
    `DELETE FROM fleet_row
     WHERE fleet_row IN (SELECT fleet_row ${removed} ORDER BY removed_at, version LIMIT ?3) RETURNING version`,
    namespace,
    cutoff,
    limit,
  )
  if (gone.length > 0) {
    connection.run(
      'UPDATE fleet_board SET forgotten = max(forgotten, ?2) WHERE namespace = ?1',
      namespace,
      gone.reduce((highest, { version }) => Math.max(highest, version), 0),
    )
  }
  return gone.length
}

/** Up to `limit` namespaces that have nodes or tasks for nodes. */
export function listDispatched(connection: Connection, limit: number): readonly string[] {
  return connection
    .all<{ namespace: string }>(
      `SELECT namespace FROM fleet_board board WHERE EXISTS (
         SELECT 1 FROM fleet_row
         WHERE namespace = board.namespace AND kind IN ('node', 'demand') AND removed_at IS NULL)
       ORDER BY namespace LIMIT ?`,
      limit,
    )
    .map(({ namespace }) => namespace)
}
