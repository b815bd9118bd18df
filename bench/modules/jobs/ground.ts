/**
 * The servers of a trial: separate ones with settings as in production, where a commit is on disk before it is answered,
 * and a folder on a real disk for SQLite. Redis alone runs without any persistence: that is faster than a real user's
 * Redis, so the comparison favours it.
 *
 * A server that cannot come up fails the contestants that need it, with its reason, and no others.
 */
import { statfsSync } from 'node:fs'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { Client } from 'pg'
import { createFolder } from '../../../test/support/services/folder.ts'
import {
  type Service,
  type ServiceName,
  startMariadb,
  startPostgres,
  startRedis,
} from '../../../test/support/services/index.ts'
import type { Conditions, Ground } from '../../case.ts'

/** Where jobs are kept. */
export type Engine = ServiceName | 'sqlite'

const starters: Record<Engine, (kept: AsyncDisposableStack) => Promise<string>> = {
  async postgres(kept) {
    const { url } = keep(kept, await startPostgres({ durable: true }))
    await requirePostgresDurable(url)
    return url
  },
  async mariadb(kept) {
    const { url } = keep(kept, await startMariadb({ durable: true }))
    await requireMariadbDurable(url)
    return url
  },
  async redis(kept) {
    return keep(kept, await startRedis()).url
  },
  async sqlite(kept) {
    const folder = createFolder('bench')
    kept.defer(() => folder[Symbol.asyncDispose]())
    // A memory disk answers fsync at once: figures from there would flatter everybody.
    const memoryDisk = 0x01021994
    if (statfsSync(folder.path).type === memoryDisk) {
      throw new Error('the temporary folder is a memory disk: set TMPDIR to one on a real disk')
    }
    return folder.path
  },
}

function keep(kept: AsyncDisposableStack, service: Service): Service {
  kept.defer(() => service[Symbol.asyncDispose]())
  return service
}

/** The `open` of a trial that needs these engines. */
export function groundOf(...engines: readonly Engine[]): () => Promise<Ground> {
  return async () => {
    await using kept = new AsyncDisposableStack()
    const settings: Record<string, string> = {}
    await Promise.all(
      engines.map(async (engine) => {
        try {
          settings[engine] = await starters[engine](kept)
        } catch (error) {
          settings[`no ${engine}`] = error instanceof Error ? error.message.split('\n')[0]! : String(error)
        }
      }),
    )
    const owned = kept.move()
    return { settings, [Symbol.asyncDispose]: () => owned.disposeAsync() }
  }
}

/** Where the ground put that engine; throws its reason when it is not there. */
export function groundUrl({ settings }: Conditions, engine: Engine): string {
  const url = settings[engine]
  if (url === undefined) throw new Error(settings[`no ${engine}`] ?? `no ${engine} was asked for`)
  return url
}

/** A server that was there before us is taken as it is, so it is asked. */
async function requirePostgresDurable(url: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    const { rows } = await client.query(
      `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit`,
    )
    if (rows[0].fsync !== 'on' || rows[0].commit === 'off') {
      throw new Error('this Postgres has fsync or synchronous_commit off: its figures would mean nothing')
    }
  } finally {
    await client.end()
  }
}

async function requireMariadbDurable(url: string): Promise<void> {
  const connection = await createConnection(url)
  try {
    const [rows] = await connection.query<RowDataPacket[]>(
      'SELECT @@innodb_flush_log_at_trx_commit AS flush, @@innodb_flush_method AS method',
    )
    if (rows[0]!.flush !== 1 || /nosync/i.test(rows[0]!.method)) {
      throw new Error('this MariaDB does not flush its log at every commit: its figures would mean nothing')
    }
  } finally {
    await connection.end()
  }
}
