import assert from 'node:assert/strict'
import { test } from 'vitest'
import { open } from '../../../src/index.ts'
import type { ListQuery } from '../../../src/jobs/index.ts'
import { PooledCalls } from '../../../src/storage/mariadb/connection/calls.ts'
import { ownSession, parseTarget } from '../../../src/storage/mariadb/connection/connection.ts'
import { MariadbDatabase } from '../../../src/storage/mariadb/connection/database.ts'
import { Pool } from '../../../src/storage/mariadb/connection/pool.ts'
import { qualifyTables } from '../../../src/storage/mariadb/engine-store.ts'
import { createEstimate } from '../../../src/storage/mariadb/jobs/counts.ts'
import { queueNames } from '../../../src/storage/mariadb/jobs/layout.ts'
import { createJobReads } from '../../../src/storage/sql/job-reads.ts'
import { hasService, ownMariadb } from '../../support/services/own.ts'

const many = 3_000
/** Rare jobs of each kind; a list may read this many rows and entries for them. */
const few = 3
const mostReads = 300

const columns = 'namespace, id, queue, kind, payload, priority, state, max_attempts, run_at, created_at'
const values = (id: string, queue: string, state: string) =>
  `'default', CONCAT('${id}', LPAD(seq, 9, '0')), '${queue}', 'mail', '{}', 0, '${state}', 3, 1000, 1000`
/** The older half, the rare ones, the newer half: a list by id would pass thousands of other rows. */
const live = (id: string, queue: string, state: string, count: number) =>
  `INSERT INTO job_queue (${columns}, updated_at, lease_ends_at) SELECT ${values(id, queue, state)}, 1000,
    ${state === 'running' ? '32503680000000' : 'NULL'} FROM seq_1_to_${count}`
const ended = (id: string, queue: string, state: string, count: number) =>
  `INSERT INTO job_history (${columns}, attempt, hand_back_count, snooze_count, finished_at, lease_no)
    SELECT ${values(id, queue, state)}, 1, 0, 0, 1000, 1 FROM seq_1_to_${count}`

test.runIf(hasService('mariadb'))(
  'MariaDB finds rare jobs among very many without reading the others',
  async () => {
    await using database = await ownMariadb()
    await (await open(database.url, { migrate: true })).close()
    const target = parseTarget(database.url)
    // One connection, which counts the rows that it reads.
    const pool = new Pool({ ...target.options, multipleStatements: true }, ownSession, 1)
    try {
      const calls = new PooledCalls(pool)
      const tables = qualifyTables(target.database)
      const { list } = createJobReads(
        new MariadbDatabase({
          database: target.database,
          calls: { core: calls, waiting: calls, heartbeat: calls },
          packetBytes: 1e6,
          checkTransaction: async () => {},
        }),
        'default',
        createEstimate({ calls, tables, namespace: 'default' }),
      )
      const ask = (sql: string, values: readonly unknown[] = []) =>
        calls.run('ask', (call) => call.rows<Record<string, string>>(sql, values))
      const readCount = async () =>
        (await ask(`SHOW SESSION STATUS LIKE 'Handler_read%'`)).reduce(
          (sum, row) => sum + Number(row.Value),
          0,
        )
      for (const sql of [
        live('a', 'eu', 'ready', many),
        live('b', 'eu', 'waiting', few),
        live('c', 'us', 'running', few),
        live('d', 'signalbox.bulk', 'ready', few),
        live('e', 'us', 'ready', many),
        ended('f', 'eu', 'completed', many),
        ended('g', 'eu', 'cancelled', few),
        ended('h', 'signalbox.bulk', 'completed', few),
        ended('i', 'us', 'completed', many),
        'ANALYZE TABLE job_queue, job_history',
      ])
        await ask(sql)

      const look = async (query: Omit<ListQuery, 'limit'>) => {
        const before = await readCount()
        const found = await list({ ...query, limit: 50 })
        return { ids: found.map(({ id }) => id[0]).join(''), reads: (await readCount()) - before }
      }
      for (const [query, ids] of [
        [{ state: 'waiting' }, 'bbb'],
        [{ state: 'waiting', queue: 'eu', kind: 'mail' }, 'bbb'],
        [{ state: 'running' }, 'ccc'],
        [{ state: 'dead' }, ''],
        [{ state: 'cancelled' }, 'ggg'],
        [{ state: 'cancelled', queue: 'us' }, ''],
        [{ queue: 'signalbox.bulk' }, 'hhhddd'],
        [{ queue: 'signalbox.bulk', state: 'completed' }, 'hhh'],
      ] as const) {
        const seen = await look(query)
        assert.equal(seen.ids, ids, JSON.stringify(query))
        assert.ok(seen.reads < mostReads, `${JSON.stringify(query)} made ${seen.reads} reads`)
      }
      const before = await readCount()
      const names = await ask(queueNames(tables.queue), ['default', 'default'])
      assert.deepEqual(names.map(({ queue }) => queue).sort(), ['eu', 'signalbox.bulk', 'us'])
      assert.ok((await readCount()) - before < mostReads)
    } finally {
      await pool.close()
    }
  },
)
