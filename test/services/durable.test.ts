import assert from 'node:assert/strict'
import { createClient } from '@redis/client'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { Client } from 'pg'
import { test } from 'vitest'
import { startMariadb, startPostgres, startRedis } from '../support/services/index.ts'
import { hasService, serviceFacts } from '../support/services/own.ts'
import type { ServiceName } from '../support/services/service.ts'

// Only a server that the test starts can be configured for durability.
const isOurs = (name: ServiceName) => hasService(name) && serviceFacts(name).from !== 'environment'

test.runIf(isOurs('postgres'))('a durable Postgres writes a commit to disk before it answers', async () => {
  await using server = await startPostgres({ durable: true })
  const client = new Client(server.url)
  await client.connect()
  const { rows } = await client.query(`
    SELECT name, setting FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
    ORDER BY name`)
  await client.end()
  assert.deepEqual(
    rows.map(({ name, setting }) => `${name} ${setting}`),
    ['fsync on', 'full_page_writes on', 'synchronous_commit on'],
  )
})

test.runIf(isOurs('mariadb'))('a durable MariaDB writes a commit to disk before it answers', async () => {
  await using server = await startMariadb({ durable: true })
  const connection = await createConnection(server.url)
  const [rows] = await connection.query<RowDataPacket[]>(
    'SELECT @@innodb_flush_log_at_trx_commit AS flushed, @@innodb_flush_method AS method',
  )
  await connection.end()
  assert.deepEqual({ ...rows[0] }, { flushed: 1, method: 'fsync' })
})

test.runIf(isOurs('redis'))('a durable Redis writes to disk before it answers', async () => {
  await using server = await startRedis({ durable: true })
  const client = await createClient({ url: server.url }).connect()
  const settings = await client.configGet(['appendonly', 'appendfsync'])
  client.destroy()
  assert.deepEqual({ ...settings }, { appendonly: 'yes', appendfsync: 'always' })
})
