/**
 * The plan of every statement that the SQL stores share, on every engine: no statement scans a growing table. Each
 * statement registers itself, so new ones are checked without a list here.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { Client } from 'pg'
import { describe, test } from 'vitest'
import { createMariadbDialect } from '../../src/storage/mariadb/dialect.ts'
import { openMariadb } from '../../src/storage/mariadb/index.ts'
import { plannerSettings } from '../../src/storage/postgres/connection/target.ts'
import { createPostgresDialect } from '../../src/storage/postgres/dialect.ts'
import { openPostgres } from '../../src/storage/postgres/index.ts'
import { type Compiled, Compiler, type Definition, listStatements } from '../../src/storage/sql/statement.ts'
import '../../src/storage/sql/stores.ts'
import { sqliteDialect } from '../../src/storage/sqlite/dialect.ts'
import { openSqlite } from '../../src/storage/sqlite/index.ts'
import { hasService, ownMariadb, ownPostgres } from '../support/services/own.ts'

/** Tables that stay small, whatever a user does: they may be scanned. */
const smallTables = new Set(['access_token'])
/** Tables that are small within a namespace. */
const smallWithin = new Set([
  'fleet_board',
  'queue_control',
  'monitor_silence',
  'monitor_subscription',
  'monitor_rules',
  // As many rows as processes and kinds in two minutes, and as many as kinds.
  'series_part',
  'series_total',
  'series_mark',
])
/** Statements that may scan this table: a server asks once in a while. */
const wholeTables: Readonly<Record<string, string>> = {
  cluster_namespaces: 'fleet_board',
  monitor_namespaces: 'monitor_subscription',
  schedule_namespaces: 'job_schedule',
}

const storesFolder = new URL('../../src/storage/sql/', import.meta.url)

test('the list of stores has every store that is written once', async () => {
  const list = await readFile(new URL('stores.ts', storesFolder), 'utf8')
  const names = (await readdir(storesFolder, { recursive: true })).filter((name) => name.endsWith('.ts'))
  for (const name of names) {
    const text = await readFile(new URL(name, storesFolder), 'utf8')
    if (/^(?:export )?const \w+\b[^=]*= (?:statement|serverStatement|operation)\(/m.test(text))
      assert.ok(list.includes(`import './${name}'`), `sql/stores.ts does not import ${name}`)
  }
})

describe.concurrent('no shared statement scans a growing table', () => {
  test('on SQLite', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'signalbox-plans-'))
    const path = join(folder, 'plans.db')
    await using backend = await openSqlite(`sqlite:${path}`, { namespace: 'plans', migrate: true })
    await backend.ping()
    const db = new DatabaseSync(path, { readOnly: true })
    const compiler = new Compiler(sqliteDialect)
    for (const compiled of compileAll(compiler, ({ isForServers }) => !isForServers)) {
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${compiled.text}`).all() as { detail: string }[]
      const details = plan.map(({ detail }) => detail)
      const scans = details
        .filter((detail) => /^SCAN (?!v\b|json_each|\(?subquery|CONSTANT|\(join)/i.test(detail))
        // The result of a subquery is no table.
        .filter((detail) => !details.includes(`CO-ROUTINE ${detail.slice('SCAN '.length)}`))
      refuseScans(
        compiled,
        scans.map((detail) => detail.split(' ')[1]!),
        plan,
      )
    }
    db.close()
    await rm(folder, { recursive: true })
  })

  test.runIf(hasService('postgres'))('on Postgres', async () => {
    await using own = await ownPostgres()
    await using backend = await openPostgres(own.url, { namespace: 'plans', migrate: true })
    await backend.ping()
    const client = new Client({ connectionString: own.url, options: plannerSettings })
    await client.connect()
    // The tables are empty: then a table is scanned only if no index fits.
    await client.query('SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off')
    const compiler = new Compiler(createPostgresDialect('public'))
    for (const compiled of compileAll(compiler)) {
      await client.query(`PREPARE plan AS ${compiled.text}`)
      const nulls = compiled.slots.map(() => 'NULL').join(', ')
      const { rows } = await client.query(
        `EXPLAIN (FORMAT JSON) EXECUTE plan${nulls === '' ? '' : `(${nulls})`}`,
      )
      await client.query('DEALLOCATE plan')
      const plan = rows[0]['QUERY PLAN'][0].Plan as PostgresPlan
      const scans = nodesOf(plan).filter(
        (node) =>
          node['Relation Name'] !== undefined &&
          (node['Node Type'] === 'Seq Scan' ||
            (/^Index/.test(node['Node Type']) && (!node['Index Cond'] || readsNamespace(compiled, node)))),
      )
      refuseScans(
        compiled,
        scans.map((node) => node['Relation Name']!),
        plan,
      )
    }
    await client.end()
  })

  test.runIf(hasService('mariadb'))('on MariaDB', async () => {
    await using own = await ownMariadb()
    await using backend = await openMariadb(own.url, { namespace: 'plans', migrate: true })
    await backend.ping()
    const database = new URL(own.url).pathname.slice(1)
    const connection = await createConnection({ uri: own.url, charset: 'utf8mb4' })
    await connection.query('SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin')
    // The tables are empty, so the optimizer gets other statistics.
    await connection.query(
      `REPLACE INTO mysql.table_stats (db_name, table_name, cardinality)
        SELECT table_schema, table_name, 1000000 FROM information_schema.tables WHERE table_schema = ?`,
      [database],
    )
    await connection.query("SET use_stat_tables = 'preferably'")
    await connection.query('FLUSH TABLES')
    const compiler = new Compiler(createMariadbDialect(database))
    for (const compiled of compileAll(compiler)) {
      const values = compiled.slots.map(sampleOf)
      const [plan] = await connection.query<RowDataPacket[]>(`EXPLAIN ${compiled.text}`, values)
      const scans = plan.filter(
        ({ select_type: kind, type, table }) =>
          kind !== 'INSERT' && (type === 'ALL' || type === 'index') && !/^<|^(?:v|given|first)$/.test(table),
      )
      refuseScans(
        compiled,
        scans.map(({ table }) => tableOf(compiled, table)),
        plan,
      )
    }
    await connection.end()
  })
})

/** Each statement in each of its shapes. */
function compileAll(
  compiler: Compiler,
  isIncluded: (definition: Definition) => boolean = () => true,
): readonly Compiled[] {
  return listStatements()
    .filter(isIncluded)
    .flatMap((definition) => shapesOf(definition).map((params) => compiler.compile({ definition, params })))
}

function shapesOf({ optional }: Definition): readonly Record<string, unknown>[] {
  return Array.from({ length: 2 ** optional.length }, (_, shape) =>
    Object.fromEntries(optional.filter((_, nr) => shape & (1 << nr)).map((name) => [name, ''])),
  )
}

function refuseScans(compiled: Compiled, scanned: readonly string[], plan: unknown): void {
  const grown = scanned
    .map((name) => tableOf(compiled, name))
    .filter((name) => !smallTables.has(name) && wholeTables[compiled.name] !== name)
  const shown = `${compiled.name} reads ${grown} as a whole.\n${compiled.text}\n${JSON.stringify(plan, null, 1)}`
  assert.deepEqual(grown, [], shown)
}

/** The table behind an alias. */
function tableOf({ text }: Compiled, alias: string): string {
  const named = new RegExp(`(\\w+)(?: AS)? ${alias}\\b`, 'i').exec(text)
  return named && /^[a-z]+_[a-z_]+$/.test(named[1]!) ? named[1]! : alias
}

interface PostgresPlan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly PostgresPlan[]
}

/**
 * Whether a part of a plan reads all of a namespace: by an index with more than the namespace, and not to return the
 * first rows in its order. Such a plan is made while a table is empty, and kept when it has grown.
 */
function readsNamespace({ text }: Compiled, node: PostgresPlan): boolean {
  if (!/^\(namespace = [^()]*\)$/.test(node['Index Cond']!.replaceAll('::text', ''))) return false
  return !smallWithin.has(node['Relation Name']!) && !/\bLIMIT\b|\bcount\(/.test(text)
}

function nodesOf(plan: PostgresPlan): readonly PostgresPlan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}

/** A value that MariaDB can plan with. */
function sampleOf({ type, columns }: Compiled['slots'][number]): unknown {
  if (columns) return [columns.map(() => 'a'), columns.map(() => 'b')]
  const one = type.startsWith('text') ? 'a' : 5
  return type.endsWith('[]') ? [one, one] : one
}
