import { type CopyShapes, writtenShape } from '../../src/storage/copy-shape.ts'
import { copyTables, leftBehind, leftColumns } from '../../src/storage/copy-tables.ts'

/** The columns of an engine's tables that can be written. */
export type EngineTables = ReadonlyMap<string, readonly string[]>

/**
 * What an engine keeps that a copy neither carries nor names as left behind, in sentences. A table or a column that a
 * later step of the schema adds is one until somebody has decided about it.
 */
export function findUncopied(
  tables: EngineTables,
  shapes: CopyShapes,
  besides: readonly string[] = [],
): readonly string[] {
  const written = new Map(
    copyTables.map((table) => {
      const { table: name, columns } = writtenShape(table, shapes[table.name])
      return [name, columns.map((column) => column.replaceAll('`', ''))]
    }),
  )
  const complaints: string[] = []
  for (const [table, columns] of tables) {
    const copied = written.get(table)
    if (copied === undefined) {
      if (!(table in leftBehind)) complaints.push(`${table} is neither copied nor left behind`)
      continue
    }
    const known = [...copied, ...Object.keys(leftColumns[table] ?? {}), ...besides]
    for (const column of columns)
      if (!known.includes(column)) complaints.push(`${table}.${column} is neither copied nor left behind`)
    for (const column of copied)
      if (!columns.includes(column)) complaints.push(`${table}.${column} is copied, but is not there`)
  }
  for (const table of written.keys())
    if (!tables.has(table)) complaints.push(`${table} is copied, but is not there`)
  return complaints
}
