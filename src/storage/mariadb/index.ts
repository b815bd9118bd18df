/** MariaDB (10.6 and later): jobs as rows, claimed with SKIP LOCKED, ended in your own transactions. */
import { SignalboxError } from '../../core/errors.ts'
import type { Backend, BackendOptions, Stores } from '../backend.ts'
import { LocalNotifiers } from '../local-notifiers.ts'
import { requireSchema, SchemaWatch } from '../migration-plan.ts'
import { PoolMeter } from '../pool-meter.ts'
import { Positions } from '../sql/claim-positions.ts'
import { LimitedQueues } from '../sql/limited-queues.ts'
import { createLockStore } from '../sql/locks/locks.ts'
import { createSharedStores, createStoreWide, Views } from '../sql/shared-stores.ts'
import { PinnedCalls, PooledCalls } from './connection/calls.ts'
import {
  type ConnectionTarget,
  callMs,
  ownSession,
  parseTarget,
  userSession,
  waitingSession,
} from './connection/connection.ts'
import { MariadbDatabase } from './connection/database.ts'
import { isAnswerLost, toStoreError } from './connection/failures.ts'
import { type Link, Pool } from './connection/pool.ts'
import type { Store } from './engine-store.ts'
import { qualifyTables } from './engine-store.ts'
import { checkTransaction, createAdd } from './jobs/add.ts'
import { createMariadbJobs } from './jobs/jobs.ts'
import { createMigrator } from './migrator.ts'
import { createKeyed } from './request-keys.ts'

/** For claims, verdicts, renewals and reads of one process; more connections would only contend. */
const ownPoolSize = 8
/** For transactions on wait queues of locks, which may wait for each other and must not delay anything else. */
const waitingPoolSize = 6
/**
 * For guards, whose rows a caller's transaction may lock for long, and for the monitor, logs, schedules and
 * dependencies.
 */
const guardPoolSize = 6

/** Opens the store at `mysql://user:password@host:port/database?pool=20`. */
export async function openMariadb(
  url: string,
  { namespace, migrate, meter, schemaLookMs }: BackendOptions,
): Promise<Backend> {
  const target = parseTarget(url)
  const facts = await inspect(target)
  const ours = { ...target.options, multipleStatements: true }
  const metered = (name: string, size: number) => new PoolMeter(meter, `mariadb.${name}`, size)
  const own = new Pool(ours, ownSession, ownPoolSize, metered('core', ownPoolSize))
  const waiting = new Pool(ours, waitingSession, waitingPoolSize, metered('lines', waitingPoolSize))
  const guarding = new Pool(ours, ownSession, guardPoolSize, metered('guards', guardPoolSize))
  const usersSession = userSession(facts.mode)
  const users = new Pool(target.options, usersSession, target.poolSize, metered('handlers', target.poolSize))
  const calls = new PooledCalls(own)
  const waitingCalls = new PooledCalls(waiting)
  const guardCalls = new PooledCalls(guarding)
  const tables = qualifyTables(target.database)
  const migrator = createMigrator(calls, own, tables, target.database)
  const close = async () =>
    void (await Promise.all([own.close(), waiting.close(), guarding.close(), users.close()]))

  try {
    if (migrate) await migrator.up()
    requireSchema(await migrator.status())
    const shared: Omit<Store, 'namespace' | 'memory' | 'database'> = {
      tables,
      calls,
      users,
      storeId: await calls.run('read the store id', async (call) => {
        const [row] = await call.rows<{ value: string }>(
          `SELECT value FROM ${tables.meta} WHERE name = 'store_id'`,
          [],
        )
        if (row === undefined) {
          throw new SignalboxError(
            'schema_missing',
            'This database has no store_id in signalbox_meta. Run `signalbox migrate up`.',
          )
        }
        return row.value
      }),
      packetBytes: facts.packetBytes,
      schema: new SchemaWatch(() => migrator.status(), schemaLookMs),
    }
    const database = new MariadbDatabase({
      database: target.database,
      calls: { core: calls, waiting: guardCalls, heartbeat: calls },
      packetBytes: facts.packetBytes,
      checkTransaction: (caller) => checkTransaction(shared, caller),
    })
    const lockDatabase = database.withCalls(waitingCalls, calls)
    const notifiers = new LocalNotifiers()
    const createStores = (name: string): Stores => {
      const store = {
        ...shared,
        database,
        namespace: name,
        memory: { positions: new Positions(), idle: new Set<string>(), limited: new LimitedQueues() },
      }
      const jobs = createMariadbJobs(store)
      const adding = database.withJobs((call, added) => {
        const pinned = new PinnedCalls(call)
        return {
          added: createAdd({ ...store, calls: pinned })(added),
          committed: () => pinned.committed(),
        }
      })
      const keyed = createKeyed(store, jobs)
      const notifier = notifiers.within(name)
      return {
        ...createSharedStores({
          ...{ database, adding, namespace: name, jobs, notifier },
          onReady: () => store.memory.positions.forget(),
        }),
        locks: createLockStore(lockDatabase, name, isAnswerLost),
        keyed: (key) => ({ jobs: keyed(key) }),
      }
    }
    const stores = createStores(namespace)
    const views = new Views(createStores)
    return {
      name: 'mariadb',
      traits: { transactions: true, remoteWakeUps: false },
      ...stores,
      ...createStoreWide(database),
      within: (name) => (name === namespace ? stores : views.within(name)),
      migrator,
      warnings: facts.warnings,
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

interface Facts {
  readonly mode: string
  readonly packetBytes: number
  readonly warnings: readonly string[]
}

/** Reads the server's version and settings before anything depends on them. */
async function inspect(target: ConnectionTarget): Promise<Facts> {
  // Without the store's session settings: MySQL does not know some of them, and must get a clear error instead.
  const pool = new Pool(target.options, [], 1)
  let link: Link | undefined
  try {
    link = await pool.acquire(performance.now() + callMs)
    const [row] = await link.ask<{ version: string; mode: string; packet: number; flush: number }[]>(
      `SELECT VERSION() AS version, @@sql_mode AS mode, @@max_allowed_packet AS packet,
        @@innodb_flush_log_at_trx_commit AS flush`,
      [],
      performance.now() + callMs,
    )
    const { version, mode, packet, flush } = row!
    requireMariadb(version)
    const [log] = await link.ask<{ on: number; sync: number; format: string }[]>(
      'SELECT @@log_bin AS `on`, @@sync_binlog AS sync, @@binlog_format AS format',
      [],
      performance.now() + callMs,
    )
    const warnings: string[] = []
    if (flush !== 1) {
      warnings.push(
        `innodb_flush_log_at_trx_commit is ${flush}: a crash may lose the last second of what was acknowledged. Set it to 1.`,
      )
    }
    if (log!.on && log!.sync !== 1) {
      warnings.push(
        `sync_binlog is ${log!.sync}: after a crash the binary log may lack commits. Set it to 1.`,
      )
    }
    if (log!.on && log!.format === 'STATEMENT') {
      warnings.push('binlog_format is STATEMENT, which READ COMMITTED cannot use. Set it to MIXED or ROW.')
    }
    return { mode, warnings, packetBytes: Math.max(65_536, Math.min(Number(packet), 2 ** 25) - 65_536) }
  } catch (error) {
    throw toStoreError(error, 'open the database')
  } finally {
    if (link !== undefined) pool.discard(link)
  }
}

function requireMariadb(version: string): void {
  const [, major = 0, minor = 0] = /(\d+)\.(\d+)\.\d+-MariaDB/i.exec(version) ?? []
  if (Number(major) > 10 || (Number(major) === 10 && Number(minor) >= 6)) return
  throw new SignalboxError(
    'engine_unsupported',
    `This server is ${/MariaDB/i.test(version) ? 'MariaDB' : 'MySQL'} ${version}; Signalbox works on MariaDB 10.6 and later.`,
    { details: { version } },
  )
}
