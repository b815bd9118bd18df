import type { Connection as PlainConnection } from 'mysql2'
import type { Connection } from 'mysql2/promise'
import { type CopyLook, pageChars } from '../../copy-end.ts'
import { readShape } from '../../copy-shape.ts'
import type { CopyNumbers, CopyRow, CopyTable } from '../../copy-tables.ts'
import { nowMs } from '../connection/clock.ts'
import { toStoreError } from '../connection/failures.ts'
import { mariadbShapes } from './copy-shapes.ts'

/** A database at one moment, on a connection of its own that is in a transaction. */
export class MariadbLook implements CopyLook {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async count(table: CopyTable): Promise<number> {
    const { from, where } = readShape(table, mariadbShapes[table.name])
    const [rows] = await this.#connection.query(`SELECT COUNT(*) AS count FROM ${from} WHERE ${where}`)
    return Number((rows as unknown as [{ count: string }])[0].count)
  }

  async *read(
    table: CopyTable,
    after: readonly string[] | null,
    pageRows: number,
  ): AsyncGenerator<readonly CopyRow[]> {
    const { columns, key, from, where } = readShape(table, mariadbShapes[table.name])
    const keys = key.map(({ sql }) => sql)
    const behind = after === null ? '' : `AND (${onward(keys)})`
    const values = after === null ? [] : after.flatMap((_, index) => after.slice(0, index + 1))
    // The driver's promises have no streams; the connection beneath them has.
    const stream = (this.#connection as unknown as { readonly connection: PlainConnection }).connection
      .query({
        sql: `SELECT ${columns.join(', ')} FROM ${from} WHERE ${where} ${behind} ORDER BY ${keys.join(', ')}`,
        values,
        rowsAsArray: true,
      })
      .stream({ highWaterMark: 1_000 })
    let page: CopyRow[] = []
    let chars = 0
    try {
      for await (const row of stream as AsyncIterable<CopyRow>) {
        for (const cell of row) chars += cell?.length ?? 0
        page.push(row)
        if (page.length < pageRows && chars < pageChars) continue
        yield page
        page = []
        chars = 0
      }
    } catch (error) {
      throw toStoreError(error, 'copy')
    }
    if (page.length > 0) yield page
  }

  async numbers(): Promise<CopyNumbers> {
    const [rows] = await this.#connection.query(
      `SELECT GREATEST((SELECT COALESCE(MAX(lease_no), 0) FROM job_queue),
                       (SELECT COALESCE(MAX(lease_no), 0) FROM job_history)) AS lease_no,
              GREATEST((SELECT COALESCE(MAX(last_token), 0) FROM lock_shard),
                       (SELECT COALESCE(MAX(token), 0) FROM lock_queue)) AS lock_token`,
    )
    const [row] = rows as unknown as [{ lease_no: string; lock_token: string }]
    return { leaseNo: Number(row.lease_no), lockToken: Number(row.lock_token) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection.destroy()
  }
}

/** Behind a key, in words that MariaDB finds ranges of an index by. */
function onward(keys: readonly string[]): string {
  return keys
    .map(
      (key, index) =>
        `(${[...keys.slice(0, index).map((same) => `${same} = ?`), `${key} > ?`].join(' AND ')})`,
    )
    .join(' OR ')
}

/** Leases that are live now, those that end last first. */
export const leases: string = `
SELECT a.*, a.ends_at - ${nowMs} AS rest_ms FROM (
  SELECT CONCAT('job ', queue, '/', id) AS \`of\`, worker_id AS holder, lease_ends_at AS ends_at
  FROM job_queue WHERE state = 'running'
  UNION ALL
  SELECT CONCAT('guard ', space, '/', guard_key), 'whoever claimed it', ends_at FROM once_guard WHERE status = 'running'
  UNION ALL
  SELECT CONCAT('channel ', channel), 'a sender', lease_ends_at FROM monitor_channel WHERE token IS NOT NULL
  UNION ALL
  SELECT CONCAT(kind, ' ', row_key), 'itself', expires_at
  FROM fleet_row WHERE kind IN ('server', 'node') AND doc IS NOT NULL
  UNION ALL
  SELECT CONCAT('lock ', operation, ' ', resource), holder_node, lease_ends_at
  FROM lock_queue WHERE holder_node IS NOT NULL
) a WHERE a.ends_at > ${nowMs} ORDER BY a.ends_at DESC LIMIT 20`
