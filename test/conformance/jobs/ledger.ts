/** A table of the user's in the store's database, for the rows that a handler writes. */
import { randomBytes } from 'node:crypto'
import type { SqlSide } from '../candidates.ts'

export interface Ledger extends AsyncDisposable {
  readonly table: string
  /** Everything that was committed, in order. */
  logs(): Promise<readonly string[]>
}

/** Creates such a table, and drops it at the end. */
export async function openLedger(sql: SqlSide): Promise<Ledger> {
  const table = `ledger_${randomBytes(6).toString('hex')}`
  const reader = await sql.connect()
  await reader.exec(`CREATE TABLE ${table} (note VARCHAR(100) NOT NULL PRIMARY KEY)`)
  return {
    table,
    async logs() {
      const rows = await reader.exec(`SELECT note FROM ${table} ORDER BY note`)
      return rows.map(({ note }) => String(note))
    },
    async [Symbol.asyncDispose]() {
      await reader.exec(`DROP TABLE ${table}`)
      await reader[Symbol.asyncDispose]()
    },
  }
}
