import type { QueryResultRow } from 'pg'
import type {
  FleetKind,
  FleetPage,
  FleetRow,
  FleetStore,
  FleetWrite,
} from '../../dispatch/cluster/fleet-store.ts'
import { hashFleetKey } from '../sql/fleet-key.ts'
import { decodeFleetRow, type StoredFleetRow } from '../sql/fleet-row.ts'
import { nowMs } from './connection/columns.ts'
import type { Connections, Statement } from './connection/connection.ts'

/**
 * The fleet's board on Postgres. A call is one statement; migrations/baseline-server.ts says how writers follow each other.
 * They wait for each other on the connections of lines, where they keep no job waiting.
 */
export class PostgresFleet implements FleetStore {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #statements: FleetStatements

  constructor(connections: Connections, namespace: string, statements: FleetStatements) {
    this.#connections = connections
    this.#namespace = namespace
    this.#statements = statements
  }

  async read(since: number, limit: number): Promise<FleetPage> {
    const values = [this.#namespace, since, limit]
    const { rows } = await this.#connections.run<ReadRow>(this.#statements.read, values)
    const [{ now, is_reset: isReset }] = rows as [ReadRow]
    return { rows: rows.filter(isRow).map(decodeFleetRow), now: Number(now), isReset }
  }

  async find(kind: FleetKind, key: string): Promise<FleetRow | undefined> {
    const values = [this.#namespace, kind, hashFleetKey(key)]
    const { rows } = await this.#connections.run<StoredFleetRow & QueryResultRow>(
      this.#statements.find,
      values,
    )
    return rows[0] && decodeFleetRow(rows[0])
  }

  async write(writes: readonly FleetWrite[]): Promise<readonly (number | null)[]> {
    const values = [
      this.#namespace,
      writes.map(({ kind }) => kind),
      writes.map(({ key }) => key),
      writes.map(({ key }) => hashFleetKey(key)),
      writes.map(({ seen }) => (Number.isSafeInteger(seen) ? seen : noVersion)),
      writes.map(({ doc }) => doc),
      writes.map(({ forMs }) => forMs),
    ]
    const rows = await this.#inLine<{ took: string | null }>(this.#statements.write, values)
    return rows.map(({ took }) => (took === null ? null : Number(took)))
  }

  async prune(limit: number, olderThanMs: number): Promise<number> {
    const values = [this.#namespace, limit, olderThanMs]
    const [row] = await this.#inLine<{ gone: number }>(this.#statements.prune, values)
    return row!.gone
  }

  async #inLine<Row extends QueryResultRow>(
    statement: Statement,
    values: unknown[],
  ): Promise<readonly Row[]> {
    const { rows } = await this.#connections.useWaiting((client) =>
      this.#connections.send<Row>(client, statement, values),
    )
    return rows
  }
}

/** What no row has. */
const noVersion = -1

/** Every statement on the board; namespaces share them. */
export type FleetStatements = Record<'read' | 'find' | 'write' | 'prune' | 'dispatched', Statement>

/** Of a page without rows there is one row all the same, with a null for a version. */
interface ReadRow extends Partial<StoredFleetRow> {
  readonly now: string
  readonly is_reset: boolean
}

function isRow(row: ReadRow): row is ReadRow & StoredFleetRow {
  return row.version !== null
}

/** The statements for a schema, whose name comes quoted. */
export function fleetStatements(s: string): FleetStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_fleet_${name}`, text })
  return {
    // From below what was forgotten nobody could go on, so a page that starts at the beginning goes beyond it.
    read: named(
      'read',
      `
SELECT clock.now, judged.is_reset, r.kind, r.row_key, r.version, r.doc, r.expires_at
FROM (SELECT ${nowMs} AS now) clock
CROSS JOIN (
  SELECT coalesce(max(version), 0) AS version, coalesce(max(forgotten), 0) AS forgotten
  FROM ${s}.fleet_board WHERE namespace = $1
) board
CROSS JOIN LATERAL (
  SELECT $2::bigint > 0 AND ($2 < board.forgotten OR $2 > board.version) AS is_reset
) judged
CROSS JOIN LATERAL (SELECT CASE WHEN judged.is_reset THEN 0 ELSE $2 END AS since) start
LEFT JOIN LATERAL (
  SELECT * FROM ${s}.fleet_row WHERE namespace = $1 AND version > start.since
  ORDER BY version
  LIMIT CASE WHEN start.since > 0 OR board.forgotten = 0 THEN $3::bigint ELSE greatest($3, (
    SELECT count(*) + 1 FROM ${s}.fleet_row WHERE namespace = $1 AND version <= board.forgotten
  )) END
) r ON true
ORDER BY r.version`,
    ),
    find: named(
      'find',
      `
SELECT kind, row_key, version, doc, expires_at FROM ${s}.fleet_row
WHERE namespace = $1 AND kind = $2 AND key_hash = $3 AND removed_at IS NULL`,
    ),
    write: named(
      'write',
      `
SELECT took FROM ${s}.signalbox_write_fleet($1, $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[],
  $7::bigint[])`,
    ),
    // The limit keeps this a look-up for each board, whatever the planner knows of the rows.
    dispatched: named(
      'dispatched',
      `
SELECT board.namespace FROM ${s}.fleet_board board
CROSS JOIN LATERAL (
  SELECT FROM ${s}.fleet_row
  WHERE namespace = board.namespace AND kind IN ('node', 'demand') AND removed_at IS NULL LIMIT 1
) r
ORDER BY board.namespace LIMIT $1`,
    ),
    prune: named('prune', `SELECT ${s}.signalbox_prune_fleet($1, $2::integer, $3::bigint) AS gone`),
  }
}
