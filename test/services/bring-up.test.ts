import assert from 'node:assert/strict'
import { createClient } from '@redis/client'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { Client } from 'pg'
import { test } from 'vitest'
import { hasService, ownMariadb, ownPostgres, ownRedis, serviceFacts } from '../support/services/own.ts'

/** Whether `10.11.6-MariaDB` is at least 10.6. */
function isAtLeast(version: string, major: number, minor = 0): boolean {
  const [, ...found] = /^(\d+)\.?(\d*)/.exec(version) ?? []
  const [foundMajor = 0, foundMinor = 0] = found.map(Number)
  return foundMajor > major || (foundMajor === major && foundMinor >= minor)
}

async function onPostgres<Row>(url: string, sql: string): Promise<Row[]> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

async function onMariadb(url: string, sql: string): Promise<RowDataPacket[]> {
  const connection = await createConnection(url)
  try {
    return (await connection.query<RowDataPacket[]>(sql))[0]
  } finally {
    await connection.end()
  }
}

test.runIf(hasService('postgres'))('Postgres answers with a version that Signalbox supports', async () => {
  const [row] = await onPostgres<{ version: string }>(
    serviceFacts('postgres').url,
    `SELECT current_setting('server_version') AS version`,
  )
  assert.ok(row && isAtLeast(row.version, 13), `Postgres is ${row?.version}`)
})

test.runIf(hasService('mariadb'))(
  'MariaDB answers with a version that Signalbox supports, and is not MySQL',
  async () => {
    const [row] = await onMariadb(serviceFacts('mariadb').url, 'SELECT version() AS version')
    assert.match(row?.version, /mariadb/i)
    assert.ok(isAtLeast(row?.version, 10, 6), `MariaDB is ${row?.version}`)
  },
)

test.runIf(hasService('redis'))('Redis answers with a version that Signalbox supports', async () => {
  const client = await createClient({ url: serviceFacts('redis').url }).connect()
  try {
    assert.equal(await client.ping(), 'PONG')
    const version = /^redis_version:(\S+)/m.exec(await client.info('server'))?.[1] ?? ''
    assert.ok(isAtLeast(version, 6, 2), `Redis is ${version}`)
  } finally {
    client.destroy()
  }
})

test.runIf(hasService('postgres'))(
  'two test files on Postgres do not see each other, and remove their databases',
  async () => {
    let url: string
    {
      await using mine = await ownPostgres()
      await using yours = await ownPostgres()
      url = mine.url
      await onPostgres(mine.url, 'CREATE TABLE seen (id int)')
      assert.deepEqual(await onPostgres(yours.url, `SELECT to_regclass('seen') AS seen`), [{ seen: null }])
    }
    await assert.rejects(onPostgres(url, 'SELECT 1'), { code: '3D000' })
  },
)

test.runIf(hasService('mariadb'))(
  'two test files on MariaDB do not see each other, and remove their databases',
  async () => {
    let url: string
    {
      await using mine = await ownMariadb()
      await using yours = await ownMariadb()
      url = mine.url
      await onMariadb(mine.url, 'CREATE TABLE seen (id int)')
      assert.deepEqual(await onMariadb(yours.url, 'SHOW TABLES'), [])
    }
    await assert.rejects(onMariadb(url, 'SELECT 1'), { code: 'ER_BAD_DB_ERROR' })
  },
)

test.runIf(hasService('redis'))('a test file on Redis deletes its own keys only', async () => {
  await using yours = await ownRedis()
  const client = await createClient({ url: yours.url }).connect()
  try {
    await client.set(`${yours.prefix}kept`, '1')
    const mine = await ownRedis()
    await client.mSet(
      Array.from({ length: 1_200 }, (_, i) => [`${mine.prefix}${i}`, '1'] as [string, string]),
    )
    await mine[Symbol.asyncDispose]()
    assert.equal(await client.exists(`${mine.prefix}7`), 0)
    assert.deepEqual(await client.keys(`${mine.prefix}*`), [])
    assert.equal(await client.get(`${yours.prefix}kept`), '1')
  } finally {
    client.destroy()
  }
})
