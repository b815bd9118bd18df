import { createHash } from 'node:crypto'
import type { CopyLook, CopyTable } from '../storage/index.ts'

/** What is known of a table's content: equal proofs mean equal rows, whatever the engines. */
export interface TableProof {
  readonly table: string
  readonly rows: number
  /** SHA-256 over the rows in the order of their keys, in hexadecimal. */
  readonly sha256: string
}

/** Reads a table whole. Each row is one line of JSON, so no two rows or columns can be taken for others. */
export async function proveTable(
  look: CopyLook,
  table: CopyTable,
  onPage: (rows: number) => void,
): Promise<TableProof> {
  const hash = createHash('sha256')
  const compared = table.columns.flatMap(({ isCompared }, index) => (isCompared ? [index] : []))
  const isWhole = compared.length === table.columns.length
  let rows = 0
  for await (const page of look.read(table, null, 5_000)) {
    let text = ''
    for (const row of page) text += `${JSON.stringify(isWhole ? row : compared.map((index) => row[index]))}\n`
    hash.update(text)
    rows += page.length
    onPage(page.length)
  }
  return { table: table.name, rows, sha256: hash.digest('hex') }
}

/** One hash for all tables. */
export function proveAll(proofs: readonly TableProof[]): string {
  const hash = createHash('sha256')
  for (const { table, rows, sha256 } of proofs) hash.update(`${table} ${rows} ${sha256}\n`)
  return hash.digest('hex')
}
