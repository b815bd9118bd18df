/**
 * A separate place for each test file on the shared servers: a database on Postgres and MariaDB, a key prefix on Redis.
 * Files run side by side and never meet; disposing removes the place.
 *
 *   await using own = await ownPostgres()
 *   const backend = await openPostgres(own.url)
 */
import { randomBytes } from 'node:crypto'
import { createClient } from '@redis/client'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { inject } from 'vitest'
import { within } from '../deadline.ts'
import type { ServiceFacts, ServiceName } from './service.ts'

/** A separate database. */
export interface OwnDatabase {
  readonly url: string
  [Symbol.asyncDispose](): Promise<void>
}

/** Separate keys. */
export interface OwnKeys {
  readonly url: string
  /** The prefix of every key. */
  readonly prefix: string
  [Symbol.asyncDispose](): Promise<void>
}

/** Whether this run has the service; false only when the developer left it out, which the run's first lines say. */
export function hasService(name: ServiceName): boolean {
  return provided()[name] !== undefined
}

/** The values that setup.ts provided. */
function provided(): Partial<Record<ServiceName, ServiceFacts>> {
  const services: Partial<Record<ServiceName, ServiceFacts>> | undefined = inject('services')
  if (services === undefined) {
    throw new Error(
      'this test file needs servers but its folder is not among those with services: see vitest.config.ts',
    )
  }
  return services
}

/** Facts about a service that this run has. */
export function serviceFacts(name: ServiceName): ServiceFacts {
  const facts = provided()[name]
  if (facts === undefined) throw new Error(`this run leaves out ${name}: see SIGNALBOX_TEST_SERVICES`)
  return facts
}

function ownName(): string {
  return `signalbox_${randomBytes(6).toString('hex')}`
}

function withDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** Creates a Postgres database; not a schema, because NOTIFY crosses schemas. */
export async function ownPostgres(): Promise<OwnDatabase> {
  const server = serviceFacts('postgres').url
  const name = ownName()
  // No session can connect to template0, so creating from it never waits or fails.
  await ask(askPostgres(server, `CREATE DATABASE ${name} TEMPLATE template0`))
  return {
    url: withDatabase(server, name),
    [Symbol.asyncDispose]: () => ask(askPostgres(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
  }
}

/** A test server that does not answer must not block the tests for ever. */
function ask(answer: Promise<void>): Promise<void> {
  return within(20_000, 'a test server', answer)
}

async function askPostgres(url: string, sql: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

/** Creates a MariaDB database, in the server's own character set: tables must not rely on a friendly default. */
export async function ownMariadb(): Promise<OwnDatabase> {
  const server = serviceFacts('mariadb').url
  const name = ownName()
  await ask(askMariadb(server, `CREATE DATABASE ${name}`))
  return {
    url: withDatabase(server, name),
    [Symbol.asyncDispose]: () => ask(askMariadb(server, `DROP DATABASE IF EXISTS ${name}`)),
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

/** Reserves a key prefix; disposing deletes every key with it. */
export async function ownRedis(): Promise<OwnKeys> {
  const url = serviceFacts('redis').url
  const prefix = `${ownName()}:`
  return { url, prefix, [Symbol.asyncDispose]: () => ask(deleteKeys(url, prefix)) }
}

async function deleteKeys(url: string, prefix: string): Promise<void> {
  const client = createClient({ url })
  // Without a listener a lost connection would end the process; the commands reject as well.
  client.on('error', () => undefined)
  await client.connect()
  try {
    for await (const keys of client.scanIterator({ MATCH: `${prefix}*`, COUNT: 500 })) {
      if (keys.length > 0) await client.unlink(keys)
    }
  } finally {
    client.destroy()
  }
}
