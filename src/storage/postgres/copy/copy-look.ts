import type { Client } from 'pg'
import { type CopyLook, pageChars } from '../../copy-end.ts'
import { type CopyShapes, readShape } from '../../copy-shape.ts'
import type { CopyNumbers, CopyRow, CopyTable } from '../../copy-tables.ts'
import { nowMs } from '../connection/columns.ts'

/** A database at one moment, on a connection of its own that is in a transaction. */
export class PostgresLook implements CopyLook {
  readonly #client: Client
  readonly #s: string
  readonly #shapes: CopyShapes

  constructor(client: Client, s: string, shapes: CopyShapes) {
    this.#client = client
    this.#s = s
    this.#shapes = shapes
  }

  async count(table: CopyTable): Promise<number> {
    const { from, where } = this.#shape(table)
    const { rows } = await this.#client.query(`SELECT count(*) AS count FROM ${from} WHERE ${where}`)
    return Number(rows[0].count)
  }

  async *read(
    table: CopyTable,
    after: readonly string[] | null,
    pageRows: number,
  ): AsyncGenerator<readonly CopyRow[]> {
    const { columns, key, from, where } = this.#shape(table)
    const keys = key.map(({ sql }) => sql).join(', ')
    const literals = (after ?? []).map((value, index) =>
      key[index]!.isWhole ? `${BigInt(value)}` : this.#client.escapeLiteral(value),
    )
    const behind = after === null ? '' : `AND (${keys}) > (${literals.join(', ')})`
    const name = `copy_${table.name}`
    await this.#client.query(
      `DECLARE ${name} NO SCROLL CURSOR FOR
       SELECT ${columns.join(', ')} FROM ${from} WHERE ${where} ${behind} ORDER BY ${keys}`,
    )
    // Rows may be small or large: the next page is as many as would have filled the last.
    let size = Math.min(200, pageRows)
    for (;;) {
      const { rows } = await this.#client.query<(string | null)[]>({
        text: `FETCH ${size} FROM ${name}`,
        rowMode: 'array',
      })
      if (rows.length > 0) yield rows
      if (rows.length < size) break
      let chars = 1
      for (const row of rows) for (const cell of row) chars += cell?.length ?? 0
      size = Math.min(pageRows, Math.max(10, Math.floor((rows.length * pageChars) / chars)))
    }
    await this.#client.query(`CLOSE ${name}`)
  }

  async numbers(): Promise<CopyNumbers> {
    const s = this.#s
    const { rows } = await this.#client.query(
      `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS lease_no,
         greatest((SELECT max(last_token) FROM ${s}.lock_shard), (SELECT max(token) FROM ${s}.lock_queue), 0) AS lock_token
       FROM ${s}.job_lease_no`,
    )
    return { leaseNo: Number(rows[0].lease_no), lockToken: Number(rows[0].lock_token) }
  }

  #shape(table: CopyTable): ReturnType<typeof readShape> {
    return readShape(table, this.#shapes[table.name], {
      place: (name) => `${this.#s}.${name}`,
      truth: (sql) => `${sql}::int`,
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end().catch(() => undefined)
  }
}

/** Leases that are live now, those that end last first. */
export function leasesOf(s: string): string {
  const now = '(SELECT now FROM clock)'
  return `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now)
SELECT a.of, a.holder, a.ends_at, a.ends_at - ${now} AS rest_ms FROM (
  SELECT 'job ' || queue || '/' || id AS of, worker_id AS holder, lease_ends_at AS ends_at
  FROM ${s}.job_queue WHERE lease_no IS NOT NULL AND lease_ends_at > ${now}
  UNION ALL
  SELECT 'guard ' || space || '/' || guard_key, 'whoever claimed it', ends_at
  FROM ${s}.once_guard WHERE status = 'running' AND ends_at > ${now}
  UNION ALL
  SELECT 'channel ' || channel, 'a sender', lease_ends_at
  FROM ${s}.monitor_channel WHERE token IS NOT NULL AND lease_ends_at > ${now}
  UNION ALL
  SELECT kind || ' ' || row_key, 'itself', expires_at
  FROM ${s}.fleet_row WHERE kind IN ('server', 'node') AND doc IS NOT NULL AND expires_at > ${now}
  UNION ALL
  SELECT 'lock ' || operation || ' ' || resource, holder_node, lease_ends_at
  FROM ${s}.lock_queue WHERE holder_node IS NOT NULL AND lease_ends_at > ${now}
) a ORDER BY a.ends_at DESC LIMIT 20`
}
