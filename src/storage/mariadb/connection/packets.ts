import type { Statement } from './calls.ts'

/** Puts statements into as few packets as they fit into, in their order; one that is larger goes by itself. */
export function packStatements(
  statements: readonly Statement[],
  bytes: number,
): readonly (readonly Statement[])[] {
  const packets: Statement[][] = []
  let left = 0
  for (const statement of statements) {
    const size = sizeOf(statement)
    if (size > left || packets.length === 0) {
      packets.push([])
      left = bytes
    }
    packets.at(-1)!.push(statement)
    left -= size
  }
  return packets
}

/** No less than it has when it is sent. */
function sizeOf([sql, values]: Statement): number {
  return sql.length + valueSize(values)
}

function valueSize(value: unknown): number {
  // A character takes up to three bytes (of a pair, four together), or two where it is escaped.
  if (typeof value === 'string') return 3 * value.length + 4
  if (!Array.isArray(value)) return 24
  return value.reduce((sum: number, item) => sum + valueSize(item), 4)
}
