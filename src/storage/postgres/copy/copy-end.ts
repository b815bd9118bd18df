import { Client, escapeIdentifier } from 'pg'
import {
  type CopyBook,
  type CopyEnd,
  type CopyLook,
  type CopyStep,
  type LiveLease,
  takenByAnother,
} from '../../copy-end.ts'
import { type AlsoWritten, type CopyShapes, writtenShape } from '../../copy-shape.ts'
import { type CopyNumbers, type CopyRow, type CopyTable, copyTables } from '../../copy-tables.ts'
import { copyMark } from '../../migration-plan.ts'
import { nowMs } from '../connection/columns.ts'
import { sqlState, toStoreError } from '../connection/failures.ts'
import { parseTarget, type Target } from '../connection/target.ts'
import { copyIn } from './copy-in.ts'
import { leasesOf, PostgresLook } from './copy-look.ts'
import { postgresShapes } from './copy-shapes.ts'

/** A Postgres database as one end of a copy. */
export async function openPostgresCopyEnd(url: string): Promise<CopyEnd> {
  const target = parseTarget(url)
  const client = await connect(target)
  try {
    const { rows } = await client.query<{ schema: string | null }>('SELECT current_schema() AS schema')
    return new PostgresCopyEnd(target, client, target.schema ?? rows[0]?.schema ?? 'public')
  } catch (error) {
    await client.end().catch(() => undefined)
    throw toStoreError(error)
  }
}

/** Every value comes as the text that the server wrote. */
const asText = { getTypeParser: () => (value: unknown) => value }

async function connect({ config }: Target): Promise<Client> {
  const client = new Client({ ...config, types: asText as never })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query(`SET statement_timeout = 0; SET lock_timeout = '30s'; SET jit = off`)
    return client
  } catch (error) {
    await client.end().catch(() => undefined)
    throw toStoreError(error)
  }
}

class PostgresCopyEnd implements CopyEnd {
  readonly #target: Target
  readonly #client: Client
  readonly #schema: string
  readonly #s: string
  readonly #shapes: CopyShapes

  constructor(target: Target, client: Client, schema: string) {
    this.#target = target
    this.#client = client
    this.#schema = schema
    this.#s = escapeIdentifier(schema)
    this.#shapes = postgresShapes(this.#s)
  }

  async storeId(): Promise<string | undefined> {
    return (await this.#hasTable('signalbox_meta')) ? this.#meta('store_id') : undefined
  }

  async schema(): Promise<number> {
    if (!(await this.#hasTable('signalbox_migration'))) return 0
    const [row] = await this.#rows<{ number: string }>(
      `SELECT coalesce(max(number), 0) AS number FROM ${this.#s}.signalbox_migration WHERE number < $1`,
      [copyMark],
    )
    return Number(row!.number)
  }

  async liveLeases(): Promise<readonly LiveLease[]> {
    const rows = await this.#rows<{ of: string; holder: string; ends_at: string; rest_ms: string }>(
      leasesOf(this.#s),
    )
    return rows.map(({ of, holder, ends_at, rest_ms }) => ({
      of,
      holder,
      endsAt: Number(ends_at),
      restMs: Number(rest_ms),
    }))
  }

  async runningNamespaces(): Promise<readonly string[]> {
    const rows = await this.#rows<{ namespace: string }>(
      `SELECT DISTINCT namespace FROM ${this.#s}.job_queue WHERE lease_no IS NOT NULL`,
    )
    return rows.map(({ namespace }) => namespace)
  }

  unwantedJobs(): Promise<readonly { readonly namespace: string; readonly id: string }[]> {
    return this.#rows(
      `SELECT p.namespace, p.id FROM ${this.#s}.job_cancel c
       JOIN ${this.#s}.job_pending p ON p.namespace = c.namespace AND p.id = c.job_id`,
    )
  }

  async look(): Promise<CopyLook> {
    const client = await connect(this.#target)
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return new PostgresLook(client, this.#s, this.#shapes)
  }

  async firstFilled(): Promise<string | undefined> {
    for (const table of copyTables) {
      const { table: name } = writtenShape(table, this.#shapes[table.name])
      if (!(await this.#hasTable(name))) continue
      if ((await this.#rows(`SELECT 1 FROM ${this.#s}.${name} LIMIT 1`)).length > 0) return name
    }
    if (!(await this.#hasTable('job_lease'))) return undefined
    return (await this.#rows(`SELECT 1 FROM ${this.#s}.job_lease LIMIT 1`)).length > 0
      ? 'job_lease'
      : undefined
  }

  async book(): Promise<CopyBook | undefined> {
    if (!(await this.#hasTable('copy_progress'))) return undefined
    const marks = await this.#rows(`SELECT 1 FROM ${this.#s}.signalbox_migration WHERE number = $1`, [
      copyMark,
    ])
    const from = await this.#meta('copy_from')
    if (marks.length === 0 || from === undefined) return undefined
    const rows = await this.#rows<{ name: string; position: string | null; count: string; is_done: string }>(
      `SELECT name, position, count, is_done FROM ${this.#s}.copy_progress`,
    )
    return {
      from,
      tables: new Map(
        rows.map(({ name, position, count, is_done }) => [
          name,
          {
            position: position === null ? null : JSON.parse(position),
            count: Number(count),
            isDone: is_done === 't',
          },
        ]),
      ),
    }
  }

  async copiedFrom(): Promise<string | undefined> {
    return (await this.#hasTable('signalbox_meta')) ? this.#meta('copied_from') : undefined
  }

  begin(from: string): Promise<void> {
    const s = this.#s
    return this.#transact(async () => {
      await this.#rows(`CREATE TABLE IF NOT EXISTS ${s}.copy_progress (
        name text PRIMARY KEY, position text, count bigint NOT NULL, is_done boolean NOT NULL)`)
      await this.#rows(`DELETE FROM ${s}.copy_progress`)
      await this.#rows(
        `INSERT INTO ${s}.copy_progress (name, count, is_done) SELECT name, 0, false FROM unnest($1::text[]) name`,
        [copyTables.map(({ name }) => name)],
      )
      await this.#putMeta('copy_from', from)
      const marked = await this.#rows(
        `INSERT INTO ${s}.signalbox_migration (number, name) VALUES ($1, 'copy') ON CONFLICT DO NOTHING RETURNING 1`,
        [copyMark],
      )
      if (marked.length === 0) throw takenByAnother()
    })
  }

  write(table: CopyTable, rows: readonly CopyRow[], step: CopyStep): Promise<void> {
    const shape = writtenShape(table, this.#shapes[table.name])
    return this.#transact(async () => {
      const position = step.position === null ? null : JSON.stringify(step.position)
      const kept = await this.#rows(
        `UPDATE ${this.#s}.copy_progress SET position = $2, count = $3, is_done = $4
         WHERE name = $1 AND count = $5 AND NOT is_done RETURNING 1`,
        [table.name, position, step.count, step.isDone, step.countBefore],
      )
      if (kept.length === 0) throw takenByAnother()
      if (rows.length === 0) return
      const values = rows.map((row) => shape.valuesOf(row, step.numbers))
      await copyIn(this.#client, `${this.#s}.${shape.table}`, shape.columns, values)
      for (const also of shape.also) await this.#writeAlso(also, rows.map(shape.cellsOf))
    })
  }

  async #writeAlso(
    { table, columns, row }: AlsoWritten,
    cells: readonly Parameters<AlsoWritten['row']>[0][],
  ): Promise<void> {
    const rows = cells.flatMap((cell) => {
      const values = row(cell)
      return values === null ? [] : [values]
    })
    if (rows.length === 0) return
    const arrays = columns.map(
      ({ type }, index) => `$${index + 1}::${type === 'whole' ? 'bigint' : 'text'}[]`,
    )
    await this.#rows(
      `INSERT INTO ${this.#s}.${table} (${columns.map(({ name }) => name).join(', ')})
       SELECT * FROM unnest(${arrays.join(', ')}) ON CONFLICT DO NOTHING`,
      columns.map((_, index) => rows.map((values) => values[index])),
    )
  }

  clear(table: CopyTable): Promise<void> {
    const shape = writtenShape(table, this.#shapes[table.name])
    return this.#transact(async () => {
      for (const name of [shape.table, ...shape.also.map((also) => also.table)])
        await this.#rows(`DELETE FROM ${this.#s}.${name}`)
      await this.#rows(
        `UPDATE ${this.#s}.copy_progress SET position = NULL, count = 0, is_done = false WHERE name = $1`,
        [table.name],
      )
    })
  }

  raise({ leaseNo, lockToken }: CopyNumbers): Promise<void> {
    const s = this.#s
    return this.#transact(async () => {
      await this.#rows(
        `SELECT setval('${s.replaceAll("'", "''")}.job_lease_no', $1::bigint) FROM ${s}.job_lease_no
         WHERE $1::bigint > 0 AND (last_value < $1::bigint OR NOT is_called)`,
        [leaseNo],
      )
      await this.#rows(`UPDATE ${s}.lock_shard SET last_token = greatest(last_token, $1::bigint)`, [
        lockToken,
      ])
    })
  }

  finish(from: string): Promise<void> {
    const s = this.#s
    return this.#transact(async () => {
      // As after a boot: holders have their whole time again, and those who wait the time to come back.
      await this.#rows(
        `UPDATE ${s}.lock_queue SET lease_ends_at = ${nowMs} + holder_ttl_ms,
           take_up_by = CASE WHEN take_up_by IS NOT NULL THEN ${nowMs} + 10000 END,
           due_at = ${nowMs} + CASE WHEN holder_node IS NULL THEN 0 WHEN take_up_by IS NULL THEN holder_ttl_ms
             ELSE 10000 END`,
      )
      await this.#rows(
        `UPDATE ${s}.lock_waiter SET lease_ends_at = ${nowMs} + 30000, due_at = ${nowMs} + 30000,
           deadline_at = CASE WHEN deadline_at IS NOT NULL THEN ${nowMs} + 30000 END`,
      )
      await this.#rows(`UPDATE ${s}.lock_outcome SET kept_until = ${nowMs} + 60000`)
      await this.#rows(`UPDATE ${s}.lock_result SET kept_until = ${nowMs} + 60000`)
      await this.#rows(`DELETE FROM ${s}.signalbox_meta WHERE key = 'copy_from'`)
      await this.#putMeta('copied_from', from)
      await this.#rows(`DELETE FROM ${s}.signalbox_migration WHERE number = $1`, [copyMark])
      await this.#rows(`DROP TABLE ${s}.copy_progress`)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end().catch(() => undefined)
  }

  async #hasTable(name: string): Promise<boolean> {
    const rows = await this.#rows('SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2', [
      this.#schema,
      name,
    ])
    return rows.length > 0
  }

  async #meta(key: string): Promise<string | undefined> {
    const [row] = await this.#rows<{ value: string }>(
      `SELECT value FROM ${this.#s}.signalbox_meta WHERE key = $1`,
      [key],
    )
    return row?.value
  }

  async #putMeta(key: string, value: string): Promise<void> {
    await this.#rows(
      `INSERT INTO ${this.#s}.signalbox_meta (key, value) VALUES ($1, $2)
       ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
      [key, value],
    )
  }

  async #transact(work: () => Promise<void>): Promise<void> {
    try {
      await this.#client.query('BEGIN')
      await work()
      await this.#client.query('COMMIT')
    } catch (error) {
      await this.#client.query('ROLLBACK').catch(() => undefined)
      throw toEndError(error)
    }
  }

  async #rows<Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> {
    try {
      return (await this.#client.query(sql, values)).rows as Row[]
    } catch (error) {
      throw toEndError(error)
    }
  }
}

/** "No such table" is a defect of ours here, and must be seen as it is. */
function toEndError(error: unknown): unknown {
  return sqlState(error)?.startsWith('42') ? error : toStoreError(error)
}
