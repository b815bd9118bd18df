/**
 * The engines that every contract runs on. `open()` returns a fresh, migrated, empty backend in a new namespace. Each
 * test file creates its database once and removes it at its end. An engine's code is imported when it is first opened,
 * so an engine that does not load fails only its own tests.
 *
 *   BACKENDS=sqlite,postgres npx vitest run test/conformance      only those
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import { afterAll } from 'vitest'
import type { Backend, BackendOptions } from '../../src/storage/backend.ts'
import {
  hasService,
  type OwnDatabase,
  ownMariadb,
  ownPostgres,
  serviceFacts,
} from '../support/services/own.ts'
import {
  type Caller,
  mariadbCaller,
  mariadbPool,
  postgresCaller,
  postgresPool,
  sqliteCaller,
} from './callers.ts'
import { createLender } from './lending.ts'
import { type LocksBackend, openLocks } from './locks/opening.ts'

export const engineNames = ['memory', 'sqlite', 'postgres', 'mariadb'] as const

export type EngineName = (typeof engineNames)[number]

/** An engine under test. */
export interface Candidate {
  readonly name: EngineName
  /** The title above its tests: the engine, and how it is opened where that matters. */
  readonly title: string
  /** Whether a second opening of the same namespace reaches the same data. */
  readonly isShared: boolean
  /** Opens the engine; without a namespace, in a new one. */
  open(options?: Partial<BackendOptions> & { readonly url?: string }): Promise<Backend>
  /**
   * A backend that was opened for an earlier test, or is for later ones; without a namespace, in a new one. Two that are
   * lent at the same time are two openings.
   */
  lend(namespace?: string): Promise<Backend>
  /** Present only for engines with SQL: a caller's own transactions, other openers, other databases. */
  readonly sql: SqlSide | undefined
}

/** An engine under test for its locks: any of the above, or Redis, which keeps no jobs. */
export interface LocksCandidate {
  readonly title: string
  readonly isShared: boolean
  open(options?: { readonly namespace?: string }): Promise<LocksBackend>
}

/** The user's side of an SQL engine: their own connections to the same database, or to another. */
export interface SqlSide {
  /** Whether a caller's open transaction does not block other writers; SQLite has one writer. */
  readonly rowLocks: boolean
  /** Whether one transaction may write to several databases of the server. */
  readonly spansDatabases: boolean
  /** Whether the engine creates its tables on its own. */
  readonly migratesItself: boolean
  /** Connects as a user's program does, by default to the candidate's database. */
  connect(url?: string): Promise<Caller>
  /** A pool where the driver has one: never a transaction. */
  readonly pool: (() => Promise<{ readonly pool: unknown } & AsyncDisposable>) | undefined
  /** A separate empty database. */
  ownDatabase(): Promise<OwnDatabase>
}

type Open = (url: string, options: BackendOptions) => Promise<Backend>

interface Engine {
  readonly name: EngineName
  readonly load: () => Promise<Open>
  readonly ownDatabase: () => Promise<OwnDatabase>
  readonly connect: (url: string) => Promise<Caller>
  readonly pool: ((url: string) => Promise<{ readonly pool: unknown } & AsyncDisposable>) | undefined
  readonly rowLocks: boolean
  readonly spansDatabases: boolean
  readonly migratesItself: boolean
}

const engines: readonly Engine[] = [
  {
    name: 'sqlite',
    load: async () => (await import('../../src/storage/sqlite/index.ts')).openSqlite,
    ownDatabase: ownSqlite,
    connect: sqliteCaller,
    pool: undefined,
    rowLocks: false,
    spansDatabases: false,
    migratesItself: true,
  },
  {
    name: 'postgres',
    load: async () => (await import('../../src/storage/postgres/index.ts')).openPostgres,
    ownDatabase: ownPostgres,
    connect: postgresCaller,
    pool: postgresPool,
    rowLocks: true,
    spansDatabases: false,
    migratesItself: false,
  },
  {
    name: 'mariadb',
    load: async () => (await import('../../src/storage/mariadb/index.ts')).openMariadb,
    ownDatabase: ownMariadb,
    connect: mariadbCaller,
    pool: mariadbPool,
    rowLocks: true,
    spansDatabases: true,
    migratesItself: false,
  },
]

/** The engines of this run. Call it at a test file's top level: its databases are removed after the last test. */
export function candidates(): readonly Candidate[] {
  return engineNames.filter(isWanted).map((name) => {
    if (name === 'memory') return memoryCandidate
    return sqlCandidate(engines.find((engine) => engine.name === name)!)
  })
}

/**
 * SQLite with its writes in a separate thread. For callers it is an engine without transactions; everything else is the
 * same, and is tested in the same way.
 */
export function threadedCandidates(): readonly Candidate[] {
  if (!isWanted('sqlite')) return []
  const { sql: _, open, ...sqlite } = sqlCandidate(engines.find(({ name }) => name === 'sqlite')!)
  const openInThread: Candidate['open'] = (options) => open({ thread: true, ...options })
  return [
    {
      ...sqlite,
      title: 'sqlite in a thread',
      open: openInThread,
      lend: lendsOf(openInThread),
      sql: undefined,
    },
  ]
}

/** Redis, which keeps locks and no jobs. */
export function redisCandidates(): readonly LocksCandidate[] {
  if (!isWanted('redis')) return []
  const { url } = serviceFacts('redis')
  afterAll(() => forgetNamespaces(url))
  return [
    {
      title: 'redis',
      isShared: true,
      open: ({ namespace = aNamespace() } = {}) => openLocks(url, namespace),
    },
  ]
}

/** Deletes the keys of this file's namespaces from a shared Redis. */
async function forgetNamespaces(url: string): Promise<void> {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const keys = client.scanIterator({ MATCH: `signalbox:{sb:*}:*:${ours}*`, COUNT: 500 })
    for await (const some of keys) if (some.length > 0) await client.unlink(some)
  } finally {
    client.destroy()
  }
}

function isWanted(name: EngineName | 'redis'): boolean {
  const known: readonly string[] = [...engineNames, 'redis']
  const named = process.env.BACKENDS?.split(',').map((text) => text.trim())
  const unknown = named?.find((text) => !known.includes(text))
  if (unknown !== undefined) throw new Error(`BACKENDS names "${unknown}"; it takes ${known.join(', ')}`)
  if (named && !named.includes(name)) return false
  return name === 'memory' || name === 'sqlite' || hasService(name)
}

const memoryCandidate: Candidate = {
  name: 'memory',
  title: 'memory',
  isShared: false,
  async open(options) {
    const { openMemory } = await import('../../src/storage/memory/index.ts')
    return openMemory({ namespace: aNamespace(), migrate: true, ...options })
  },
  lend: (namespace = aNamespace()) => memoryCandidate.open({ namespace }),
  sql: undefined,
}

/** Lends what this opens, until the file's last test is over. */
function lendsOf(open: Candidate['open']): Candidate['lend'] {
  const lender = createLender(() => open())
  afterAll(() => lender.close())
  return (namespace = aNamespace()) => lender.lend(namespace)
}

function sqlCandidate(engine: Engine): Candidate {
  let own: Promise<OwnDatabase> | undefined
  const url = async () => {
    own ??= engine.ownDatabase()
    return (await own).url
  }
  afterAll(async () => (await own)?.[Symbol.asyncDispose]())
  const { name, rowLocks, spansDatabases, migratesItself, ownDatabase, pool } = engine
  const open: Candidate['open'] = async ({ url: other, ...options } = {}) => {
    const openEngine = await engine.load()
    return openEngine(other ?? (await url()), { namespace: aNamespace(), migrate: true, ...options })
  }
  return {
    name,
    title: name,
    isShared: true,
    open,
    // Hooks run last to first: the lent ones are closed before their database goes.
    lend: lendsOf(open),
    sql: {
      rowLocks,
      spansDatabases,
      migratesItself,
      ownDatabase,
      connect: async (other) => engine.connect(other ?? (await url())),
      pool: pool && (async () => pool(await url())),
    },
  }
}

/** The prefix of this file's namespaces. */
const ours = `test-${randomBytes(6).toString('hex')}`
let namespaces = 0

export function aNamespace(): string {
  return `${ours}-${namespaces++}`
}

/** A folder with one database in it. */
export async function ownSqlite(): Promise<OwnDatabase> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-sqlite-'))
  return {
    url: `sqlite:${join(folder, 'signalbox.db')}`,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}
