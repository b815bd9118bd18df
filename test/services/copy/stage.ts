import { join } from 'node:path'
import { createFolder } from '../../support/services/folder.ts'
import { type OwnDatabase, ownMariadb, ownPostgres } from '../../support/services/own.ts'

export const engines = ['sqlite', 'postgres', 'mariadb'] as const
export type Engine = (typeof engines)[number]

/** A separate file that does not exist yet. */
export async function ownSqlite(): Promise<OwnDatabase> {
  const folder = createFolder('copy')
  return {
    url: `sqlite:${join(folder.path, 'store.db')}`,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** A separate database without a schema. */
export function ownDatabase(engine: Engine): Promise<OwnDatabase> {
  return { sqlite: ownSqlite, postgres: ownPostgres, mariadb: ownMariadb }[engine]()
}
