/**
 * Where a campaign runs: a new database on one of the engines, with the table `effects` that handlers
 * write to, and a folder for the history. `effects` has no unique index, so that an effect that happened twice shows.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Caller, mariadbCaller, postgresCaller, sqliteCaller } from '../conformance/callers.ts'
import { createFolder } from '../support/services/folder.ts'

export type SqlEngine = 'sqlite' | 'postgres' | 'mariadb'

export interface Ground extends AsyncDisposable {
  readonly engine: SqlEngine
  readonly url: string
  readonly folder: string
}

/** Makes a database on the server that listens at `server`; SQLite needs none. */
export async function createGround(engine: SqlEngine, server = ''): Promise<Ground> {
  await using kept = new AsyncDisposableStack()
  const folder = kept.use(createFolder(`crashes-${engine}`)).path
  const name = `crashes_${randomBytes(6).toString('hex')}`
  const url = engine === 'sqlite' ? `sqlite:${join(folder, 'store.db')}` : withDatabase(server, name)
  if (engine !== 'sqlite') {
    await ask(server, `CREATE DATABASE ${name}`)
    const force = engine === 'postgres' ? 'WITH (FORCE)' : ''
    kept.defer(async () => void (await ask(server, `DROP DATABASE IF EXISTS ${name} ${force}`)))
  }
  await ask(
    url,
    `CREATE TABLE effects (
       job VARCHAR(64) NOT NULL, part VARCHAR(32) NOT NULL, token VARCHAR(64) NOT NULL,
       worker VARCHAR(191) NOT NULL, nonce VARCHAR(32) NOT NULL)`,
  )
  const owned = kept.move()
  return { engine, url, folder, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

export function withDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** A user's own connection to the database at `url`. */
export async function connect(url: string): Promise<Caller> {
  if (url.startsWith('postgres')) return surviving(await postgresCaller(url))
  if (url.startsWith('mysql')) return surviving(await mariadbCaller(url))
  const caller = await sqliteCaller(url)
  // A wait inside SQLite would stop this process's event loop, and with it the call that it waits for.
  await caller.exec('PRAGMA journal_mode = WAL')
  await caller.exec('PRAGMA busy_timeout = 0')
  return { ...caller, begin: () => patiently(() => caller.begin()) }
}

/** Servers are killed here, so ending a connection may find it broken. */
function surviving(caller: Caller): Caller {
  return {
    ...caller,
    async [Symbol.asyncDispose]() {
      await Promise.resolve(caller[Symbol.asyncDispose]()).catch(() => undefined)
    },
  }
}

async function patiently(begin: () => Promise<void>): Promise<void> {
  for (const deadline = Date.now() + 10_000; ; ) {
    try {
      return await begin()
    } catch (error) {
      if (!/locked|busy/i.test(String(error)) || Date.now() > deadline) throw error
      await sleep(5 + Math.random() * 15)
    }
  }
}

export async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  await using caller = await connect(url)
  return await caller.exec(sql)
}

/** An effect as the database has it. */
export interface Effect {
  readonly job: string
  readonly part: string
  readonly token: string
  readonly worker: string
}

export async function readEffects(url: string): Promise<readonly Effect[]> {
  return (await ask(url, 'SELECT job, part, token, worker FROM effects')) as unknown as readonly Effect[]
}
