import { copyTables, leftBehind, leftColumns } from '../../src/storage/copy-tables.ts'
import { type CopyShapes, writtenShape } from '../../src/storage/sql/copy/copy-shapes.ts'

/** The columns of an engine's tables that can be written. */
export type EngineTables = ReadonlyMap<string, readonly string[]>

/**
 * Data of an engine that a copy neither carries nor names as left behind, as sentences. A table or a column that a later
 * step of the schema adds is reported until the copy handles it.
 */
export function findUncopied(tables: EngineTables, shapes: CopyShapes): readonly string[] {
  const written = new Map(
    copyTables.map((table) => {
      const { columns } = writtenShape(table, shapes[table.name])
      return [table.name, columns.map((column) => column.replaceAll('`', ''))]
    }),
  )
  const complaints: string[] = []
  for (const [table, columns] of tables) {
    const copied = written.get(table)
    if (copied === undefined) {
      if (!(table in leftBehind)) complaints.push(`${table} is neither copied nor left behind`)
      continue
    }
    const known = [...copied, ...Object.keys(leftColumns[table] ?? {})]
    for (const column of columns)
      if (!known.includes(column)) complaints.push(`${table}.${column} is neither copied nor left behind`)
    for (const column of copied)
      if (!columns.includes(column)) complaints.push(`${table}.${column} is copied, but is not there`)
  }
  for (const table of written.keys())
    if (!tables.has(table)) complaints.push(`${table} is copied, but is not there`)
  return complaints
}
