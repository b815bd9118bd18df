import { join } from 'node:path'
import { createFolder } from '../../support/services/folder.ts'
import { type OwnDatabase, ownMariadb, ownPostgres } from '../../support/services/own.ts'

export const engines = ['sqlite', 'postgres', 'mariadb'] as const
export type Engine = (typeof engines)[number]

/** A file of one's own, which is not there yet. */
export async function ownSqlite(): Promise<OwnDatabase> {
  const folder = createFolder('copy')
  return {
    url: `sqlite:${join(folder.path, 'store.db')}`,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** A database of one's own, without a schema. */
export function ownDatabase(engine: Engine): Promise<OwnDatabase> {
  return { sqlite: ownSqlite, postgres: ownPostgres, mariadb: ownMariadb }[engine]()
}
