import { type CopyLook, type LiveLease, pageChars } from '../../copy-end.ts'
import { readShape } from '../../copy-shape.ts'
import type { Cell, CopyNumbers, CopyRow, CopyTable } from '../../copy-tables.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import { readBootId, readLeaseClock } from '../locks/lease-clock.ts'
import { sqliteShapes } from './copy-shapes.ts'

/** A file at one moment, on a connection of its own that has begun to read. */
export class SqliteLook implements CopyLook {
  readonly #db: Connection

  constructor(db: Connection) {
    this.#db = db
  }

  async count(table: CopyTable): Promise<number> {
    const { from, where } = readShape(table, sqliteShapes[table.name])
    return this.#db.get<{ count: number }>(`SELECT count(*) AS count FROM ${from} WHERE ${where}`)!.count
  }

  async *read(
    table: CopyTable,
    after: readonly string[] | null,
    pageRows: number,
  ): AsyncGenerator<readonly CopyRow[]> {
    const { columns, key, from, where } = readShape(table, sqliteShapes[table.name])
    const keys = key.map(({ sql }) => sql).join(', ')
    const behind = key.map(({ isWhole }) => (isWhole ? 'CAST(? AS INTEGER)' : '?')).join(', ')
    const statement = this.#db.db.prepare(
      `SELECT ${columns.join(', ')} FROM ${from} WHERE ${where}
       ${after === null ? '' : `AND (${keys}) > (${behind})`} ORDER BY ${keys}`,
    )
    statement.setReturnArrays(true)
    const rows = statement.iterate(...(after ?? [])) as unknown as IterableIterator<(Cell | number)[]>
    let page: CopyRow[] = []
    let chars = 0
    for (const row of rows) {
      for (let i = 0; i < row.length; i++) {
        const value = row[i]
        if (typeof value === 'number') row[i] = String(value)
        else if (value !== null) chars += value!.length
      }
      page.push(row as CopyRow)
      if (page.length < pageRows && chars < pageChars) continue
      yield page
      page = []
      chars = 0
    }
    if (page.length > 0) yield page
  }

  async numbers(): Promise<CopyNumbers> {
    return this.#db.get<{ leaseNo: number; lockToken: number }>(
      `SELECT max((SELECT coalesce(max(lease_no), 0) FROM job_queue),
                  (SELECT coalesce(max(lease_no), 0) FROM job_history)) AS leaseNo,
              max((SELECT coalesce(max(last_token), 0) FROM lock_shard),
                  (SELECT coalesce(max(token), 0) FROM lock_queue)) AS lockToken`,
    )!
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#db.abandon()
  }
}

export function readLiveLeases(db: Connection): readonly LiveLease[] {
  const now = readNow(db)
  const boot = db.get<{ value: string }>(`SELECT value FROM signalbox_meta WHERE key = 'boot_id'`)?.value
  // Leases of another boot are of nobody who runs: nobody has opened the file since.
  const leaseNow = boot === readBootId() ? readLeaseClock(db) : Number.MAX_SAFE_INTEGER
  const rows = db.all<Omit<LiveLease, 'restMs'> & { isLock: number }>(leases, now, leaseNow)
  return rows
    .map(({ isLock, ...lease }) => ({ ...lease, restMs: lease.endsAt - (isLock === 1 ? leaseNow : now) }))
    .sort((a, b) => b.restMs - a.restMs)
}

/** By the store's clock, and by the clock of lines. */
const leases = `
SELECT * FROM (SELECT 'job ' || queue || '/' || id AS "of", worker_id AS holder, lease_ends_at AS endsAt, 0 AS isLock
  FROM job_queue WHERE state = 'running' AND lease_ends_at > ?1 ORDER BY lease_ends_at DESC LIMIT 20)
UNION ALL
SELECT * FROM (SELECT 'guard ' || space || '/' || guard_key, 'whoever claimed it', ends_at, 0
  FROM once_guard WHERE status = 'running' AND ends_at > ?1 ORDER BY ends_at DESC LIMIT 20)
UNION ALL
SELECT * FROM (SELECT 'channel ' || channel, 'a sender', lease_ends_at, 0
  FROM monitor_channel WHERE token IS NOT NULL AND lease_ends_at > ?1 LIMIT 20)
UNION ALL
SELECT * FROM (SELECT kind || ' ' || row_key, 'itself', expires_at, 0
  FROM fleet_row WHERE kind IN ('server', 'node') AND doc IS NOT NULL AND expires_at > ?1 LIMIT 20)
UNION ALL
SELECT * FROM (SELECT 'lock ' || operation || ' ' || resource, holder_node, lease_ends_at, 1
  FROM lock_queue WHERE holder_node IS NOT NULL AND lease_ends_at > ?2 LIMIT 20)`
