import { setTimeout as sleep } from 'node:timers/promises'
import { SignalboxError } from '../../core/errors.ts'
import type { AppliedMigration, MigrationStatus, Migrator, OnMigrationStep } from '../backend.ts'
import {
  type Migration,
  named,
  noteOf,
  oldestKey,
  planMigrations,
  printMigrations,
  readMarks,
  type SchemaMarks,
  statusOf,
} from '../migration-plan.ts'
import { type Calls, PooledCalls } from './connection/calls.ts'
import { nowMs } from './connection/clock.ts'
import { ownSession, parseTarget } from './connection/connection.ts'
import { errnoOf, toStoreError } from './connection/failures.ts'
import { type Link, Pool } from './connection/pool.ts'
import { qualifyTables, type Tables } from './engine-store.ts'
import { migrations } from './schema.ts'

/**
 * MariaDB commits each DDL statement separately, so a step cannot be all or nothing. Instead every statement of a step
 * may run twice (IF NOT EXISTS, INSERT IGNORE), and the step is recorded after its last statement. If a migration is
 * killed at any point and runs again, the schema is the same. A named lock, which the server releases with its
 * connection, makes other starting processes wait. Its name contains the database's name, because such locks belong to
 * the whole server.
 */
const lockWaitMs = 60_000
const stepMs = 600_000

export function createMigrator(
  calls: Calls,
  pool: Pool,
  tables: Tables,
  database: string,
  known: readonly Migration[] = migrations,
): Migrator {
  const create = `CREATE TABLE IF NOT EXISTS ${tables.migration} (
  number INT NOT NULL PRIMARY KEY,
  name VARCHAR(191) NOT NULL,
  applied_at BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`
  const selectCurrent = `SELECT COALESCE(MAX(number), 0) AS current, MAX(IF(number = 1, name, NULL)) AS first
    FROM ${tables.migration}`
  const selectNote = `SELECT value FROM ${tables.meta} WHERE name = '${oldestKey}'`
  const writeNote = `INSERT INTO ${tables.meta} (name, value) VALUES ('${oldestKey}', '${noteOf(known)}')
  ON DUPLICATE KEY UPDATE value = VALUES(value)`
  const record = `INSERT IGNORE INTO ${tables.migration} (number, name, applied_at) VALUES (?, ?, ${nowMs})`
  // Named locks have at most 64 characters, and so may a database's name.
  const lockName = `signalbox:${database}`.slice(0, 64)

  async function status(): Promise<MigrationStatus> {
    const marks = await calls.run('read the schema version', async (call) => {
      const [row] = await orNone(call.rows<CurrentRow>(selectCurrent, []))
      const [noted] = await orNone(call.rows<{ value: string }>(selectNote, []))
      return decodeMarks(row, noted?.value)
    })
    return statusOf(marks, known)
  }

  async function up(onStep?: OnMigrationStep): Promise<readonly AppliedMigration[]> {
    let link: Link | undefined
    try {
      link = await pool.acquire(performance.now() + lockWaitMs)
      await lock(link)
      const ask = <Answer>(sql: string, values: readonly unknown[] = []) =>
        link!.ask<Answer>(sql, values, performance.now() + stepMs)
      // Building an index on a large table may exceed the store's time limits.
      await ask('SET SESSION max_statement_time = 0, lock_wait_timeout = 30')
      await ask(create)
      const [row] = await ask<CurrentRow[]>(selectCurrent)
      const { steps, current } = planMigrations(decodeMarks(row), known)
      // Write the note before the first step, if its table exists, so that incompatible programs notice the new schema
      // early.
      if (steps.length > 0 && current > 0) await ask(writeNote)
      for (const [at, step] of steps.entries()) {
        onStep?.(named(step), at, steps.length)
        for (const statement of step.statements) await ask(statement)
        await ask(record, [step.number, step.name])
      }
      if (steps.length > 0) await ask(writeNote)
      return steps.map(named)
    } catch (error) {
      throw toStoreError(error, 'migrate the schema')
    } finally {
      // The session was changed and may hold the lock. Closing the connection undoes both.
      if (link !== undefined) pool.discard(link)
    }
  }

  async function lock(link: Link): Promise<void> {
    const deadline = performance.now() + lockWaitMs
    while (performance.now() < deadline) {
      const [row] = await link.ask<{ got: number | null }[]>(
        'SELECT GET_LOCK(?, 2) AS got',
        [lockName],
        performance.now() + 10_000,
      )
      if (row?.got === 1) return
      await sleep(50)
    }
    throw new SignalboxError(
      'store_busy',
      `Another process has been migrating database "${database}" for ${lockWaitMs / 1_000} s. Wait for it, or see SHOW PROCESSLIST.`,
    )
  }

  // An administrator who runs the text by hand gets the same records as `up` writes.
  const printed = known.map((step, at) => ({
    ...step,
    statements: [
      ...step.statements,
      `INSERT IGNORE INTO signalbox_migration (number, name, applied_at) VALUES (${step.number}, '${step.name}', ${nowMs})`,
      ...(at === known.length - 1 ? [writeNote.replace(tables.meta, 'signalbox_meta')] : []),
    ],
  }))
  return {
    status,
    up,
    sql: () => `${create.replace(tables.migration, 'signalbox_migration')};\n\n${printMigrations(printed)}`,
  }
}

interface CurrentRow {
  readonly current: number
  readonly first: string | null
}

function decodeMarks(row: CurrentRow | undefined, note: string | null = null): SchemaMarks {
  return readMarks({ current: Number(row?.current ?? 0), first: row?.first ?? null, note })
}

/** The rows; none if the table does not exist yet. */
async function orNone<Row>(asked: Promise<readonly Row[]>): Promise<readonly Row[]> {
  try {
    return await asked
  } catch (error) {
    if (errnoOf(error) === 1146) return []
    throw error
  }
}

/** The migrator of a database without a store. It connects only at the first query. */
export function openMariadbMigrator(url: string, known?: readonly Migration[]): Migrator & AsyncDisposable {
  const { options, database } = parseTarget(url)
  const pool = new Pool(options, ownSession, 1)
  const migrator = createMigrator(new PooledCalls(pool), pool, qualifyTables(database), database, known)
  return {
    status: () => migrator.status(),
    up: (onStep) => migrator.up(onStep),
    sql: () => migrator.sql(),
    [Symbol.asyncDispose]: () => pool.close(),
  }
}
