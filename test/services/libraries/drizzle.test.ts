import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { mysqlTable, varchar as mysqlVarchar } from 'drizzle-orm/mysql-core'
import { drizzle as mysqlDrizzle } from 'drizzle-orm/mysql2'
import { drizzle as pgDrizzle } from 'drizzle-orm/node-postgres'
import { pgTable, varchar } from 'drizzle-orm/pg-core'
import { drizzle as postgresJsDrizzle } from 'drizzle-orm/postgres-js'
import { sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { drizzle as proxyDrizzle } from 'drizzle-orm/sqlite-proxy'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import postgres from 'postgres'
import { libraryStories } from './stage.ts'

const pgPaid = pgTable('paid', { note: varchar('note', { length: 40 }) })
const mysqlPaid = mysqlTable('paid', { note: mysqlVarchar('note', { length: 40 }) })
const sqlitePaid = sqliteTable('paid', { note: text('note') })

libraryStories('Drizzle', 'postgres', async (url) => {
  const pool = new Pool({ connectionString: url, max: 2 })
  const db = pgDrizzle(pool)
  return {
    transaction: (work) =>
      db.transaction((tx) => work(tx, (note) => tx.insert(pgPaid).values({ note }).execute())),
    nested: (work) => db.transaction((tx) => work(tx, (inner) => tx.transaction(inner))),
    alone: (note) => db.insert(pgPaid).values({ note }).execute(),
    outside: [db],
    [Symbol.asyncDispose]: () => pool.end(),
  }
})

libraryStories('Drizzle over postgres.js', 'postgres', async (url) => {
  const sql = postgres(url, { max: 2 })
  const db = postgresJsDrizzle(sql)
  return {
    transaction: (work) =>
      db.transaction((tx) => work(tx, (note) => tx.insert(pgPaid).values({ note }).execute())),
    nested: (work) => db.transaction((tx) => work(tx, (inner) => tx.transaction(inner))),
    alone: (note) => db.insert(pgPaid).values({ note }).execute(),
    outside: [db],
    [Symbol.asyncDispose]: () => sql.end(),
  }
})

libraryStories('Drizzle', 'mariadb', async (url) => {
  const pool = createPool({ uri: url, connectionLimit: 2 })
  const db = mysqlDrizzle(pool)
  return {
    transaction: (work) =>
      db.transaction((tx) => work(tx, (note) => tx.insert(mysqlPaid).values({ note }).execute())),
    nested: (work) => db.transaction((tx) => work(tx, (inner) => tx.transaction(inner))),
    alone: (note) => db.insert(mysqlPaid).values({ note }).execute(),
    outside: [db],
    [Symbol.asyncDispose]: () => pool.end(),
  }
})

// This version has no driver for node:sqlite; its proxy takes a function, and the test passes the database to it.
libraryStories('Drizzle', 'sqlite', async (url) => {
  const database = new DatabaseSync(url.replace(/^sqlite:/, ''), { timeout: 5_000 })
  const db = proxyDrizzle(async (sql, parameters) => {
    const statement = database.prepare(sql)
    statement.setReturnArrays(true)
    return { rows: statement.all(...(parameters as SQLInputValue[])) }
  })
  return {
    transaction: (work) =>
      db.transaction((tx) => work(database, (note) => tx.insert(sqlitePaid).values({ note }).execute())),
    alone: (note) => db.insert(sqlitePaid).values({ note }).execute(),
    outside: [database],
    [Symbol.asyncDispose]: async () => database.close(),
  }
})
