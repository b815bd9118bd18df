import { format, type SqlValue } from 'mysql2'
import { SignalboxError } from '../../../core/errors.ts'
import type { Call, Statement } from './calls.ts'

/** Groups statements into as few packets as possible, in order. A statement that is too large gets its own packet. */
export function packStatements(
  statements: readonly Statement[],
  bytes: number,
): readonly (readonly Statement[])[] {
  return packItems(statements, sizeOf, bytes)
}

/** The same for any list of items. */
export function packItems<Item>(
  items: readonly Item[],
  sizeOf: (item: Item) => number,
  bytes: number,
): readonly (readonly Item[])[] {
  const packets: Item[][] = []
  let left = 0
  for (const item of items) {
    const size = sizeOf(item)
    if (size > left || packets.length === 0) {
      packets.push([])
      left = bytes
    }
    packets.at(-1)!.push(item)
    left -= size
  }
  return packets
}

/** Sends statements in as few packets as possible. Refuses a statement that exceeds the server's limit. */
export async function sendAll(
  call: Call,
  statements: readonly Statement[],
  packetBytes: number,
): Promise<readonly unknown[]> {
  for (const statement of statements) if (sizeOf(statement) > packetBytes) requireFit(statement, packetBytes)
  const answers: unknown[] = []
  for (const packet of packStatements(statements, packetBytes)) answers.push(...(await call.packet(packet)))
  return answers
}

function requireFit([sql, values]: Statement, limit: number): void {
  const bytes = Buffer.byteLength(format(sql, [...values] as SqlValue))
  if (bytes <= limit) return
  throw new SignalboxError(
    'too_large',
    `A statement has ${bytes} bytes; MariaDB accepts ${limit}. Nothing was written. Send less data, or raise max_allowed_packet.`,
    { details: { bytes, limit } },
  )
}

/** At least the size that the statement has when it is sent. */
function sizeOf([sql, values]: Statement): number {
  return sql.length + valueSize(values)
}

/** At least the size that a value has when it is sent. Lists are the values of rows. */
export function valueSize(value: unknown): number {
  // A character takes up to three bytes (a surrogate pair four), or two if it is escaped.
  if (typeof value === 'string') return 3 * value.length + 4
  if (!Array.isArray(value)) return 24
  return value.reduce((sum: number, item) => sum + valueSize(item), 4)
}

/** Splits a text into pieces that each fit into that many bytes of a statement, without splitting a surrogate pair. */
export function cutPieces(text: string, bytes: number): readonly string[] {
  // A character takes up to three bytes (a surrogate pair four), or two if it is escaped.
  const most = Math.max(2, Math.floor(bytes / 3))
  const pieces: string[] = []
  let from = 0
  do {
    let to = Math.min(text.length, from + most)
    if (to < text.length && /[\uD800-\uDBFF]/.test(text[to - 1]!)) to--
    pieces.push(text.slice(from, to))
    from = to
  } while (from < text.length)
  return pieces
}
