import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { CamelCasePlugin, Kysely, MysqlDialect, PostgresDialect, SqliteDialect } from 'kysely'
import { createPool } from 'mysql2'
import { Pool } from 'pg'
import { type Library, libraryStories } from './stage.ts'

interface Tables {
  paid: { note: string }
}

function inKysely(db: Kysely<Tables>): Library {
  return {
    async nested(work) {
      const trx = await db.startTransaction().execute()
      await work(trx, async (inner) => {
        const point = await trx.savepoint('inner').execute()
        try {
          await inner(point)
          await point.releaseSavepoint('inner').execute()
        } catch (error) {
          await point.rollbackToSavepoint('inner').execute()
          throw error
        }
      })
      await trx.commit().execute()
    },
    transaction: (work) =>
      db
        .transaction()
        .execute((trx) => work(trx, (note) => trx.insertInto('paid').values({ note }).execute())),
    alone: (note) => db.insertInto('paid').values({ note }).execute(),
    outside: [db],
    [Symbol.asyncDispose]: () => db.destroy(),
  }
}

libraryStories('Kysely', 'postgres', async (url) => {
  const dialect = new PostgresDialect({ pool: new Pool({ connectionString: url, max: 2 }) })
  return inKysely(new Kysely<Tables>({ dialect, plugins: [new CamelCasePlugin()] }))
})

libraryStories('Kysely', 'mariadb', async (url) => {
  const dialect = new MysqlDialect({ pool: createPool({ uri: url, connectionLimit: 2 }) })
  return inKysely(new Kysely<Tables>({ dialect, plugins: [new CamelCasePlugin()] }))
})

// Kysely's SQLite dialect accepts anything with the interface of better-sqlite3; its transaction does not show its
// database, so the caller passes the database.
libraryStories('Kysely', 'sqlite', async (url) => {
  const database = new DatabaseSync(url.replace(/^sqlite:/, ''), { timeout: 5_000 })
  const db = new Kysely<Tables>({
    dialect: new SqliteDialect({
      database: {
        prepare(sql) {
          const statement = database.prepare(sql)
          const values = (parameters: readonly unknown[]) => parameters as SQLInputValue[]
          return {
            reader: statement.columns().length > 0,
            all: (parameters) => statement.all(...values(parameters)),
            run: (parameters) => statement.run(...values(parameters)),
            iterate: (parameters) => statement.iterate(...values(parameters)),
          }
        },
        close: () => database.close(),
      },
    }),
  })
  const library = inKysely(db)
  return {
    transaction: (work) => library.transaction((_, pay) => work(database, pay)),
    alone: library.alone,
    outside: [database],
    [Symbol.asyncDispose]: () => db.destroy(),
  }
})
