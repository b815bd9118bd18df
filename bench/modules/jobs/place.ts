/** A fresh, empty store for one measurement, without the tables, statistics or notifiers of another. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import type { Conditions } from '../../case.ts'
import { type Engine, groundUrl } from './ground.ts'

export interface Place extends AsyncDisposable {
  readonly url: string
  /** Before a timed part: whatever was written earlier is on disk, and the planner knows the tables. */
  settleDown(): Promise<void>
}

/** Makes the place on the trial's ground. */
export async function createPlace(conditions: Conditions, engine: Engine): Promise<Place> {
  const server = groundUrl(conditions, engine)
  const name = `bench_${randomBytes(6).toString('hex')}`
  switch (engine) {
    case 'postgres': {
      const url = withDatabase(server, name)
      await askPostgres(server, `CREATE DATABASE ${name} TEMPLATE template0`)
      return {
        url,
        settleDown: () => askPostgres(url, 'ANALYZE', 'CHECKPOINT'),
        [Symbol.asyncDispose]: () => dropPostgres(server, name),
      }
    }
    case 'mariadb':
      await askMariadb(server, `CREATE DATABASE ${name}`)
      return {
        url: withDatabase(server, name),
        async settleDown() {},
        [Symbol.asyncDispose]: () => askMariadb(server, `DROP DATABASE IF EXISTS ${name}`),
      }
    case 'redis': {
      // Ended when the ground is; every contestant names its queue by the database's number, wiped before use.
      const url = new URL(server)
      url.pathname = '/0'
      await wipeRedis(url.href)
      return {
        url: url.href,
        async settleDown() {},
        [Symbol.asyncDispose]: () => wipeRedis(url.href),
      }
    }
    case 'sqlite':
      // The folder goes with the ground.
      return {
        url: `sqlite:${join(server, `${name}.db`)}`,
        async settleDown() {},
        async [Symbol.asyncDispose]() {},
      }
  }
}

function withDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

async function askPostgres(url: string, ...statements: readonly string[]): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    for (const sql of statements) await client.query(sql)
  } finally {
    await client.end()
  }
}

/**
 * Not by force: that would cut connections which a library is just closing, as an error in its face. A database that
 * is still in use after all tries goes with the server.
 */
async function dropPostgres(server: string, name: string): Promise<void> {
  for (let tries = 20; tries > 0; tries--) {
    try {
      return await askPostgres(server, `DROP DATABASE IF EXISTS ${name}`)
    } catch {
      await new Promise((wake) => setTimeout(wake, 25))
    }
  }
}

async function askMariadb(url: string, sql: string): Promise<void> {
  const connection = await createConnection(url)
  try {
    await connection.query(sql)
  } finally {
    await connection.end()
  }
}

async function wipeRedis(url: string): Promise<void> {
  const { createClient } = await import('@redis/client')
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.flushDb()
  } finally {
    client.destroy()
  }
}
