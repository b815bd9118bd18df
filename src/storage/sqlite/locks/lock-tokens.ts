import type { Connection, Turn } from '../connection/connection.ts'

/**
 * Tokens rise for ever, even after wait queues are deleted: the last token is in a row that is never deleted. A write
 * of that row for each grant would cost as much as the grant, so a transaction reserves several tokens at once; unused
 * tokens are skipped. SQLite has one writer, so a single row is enough.
 */
export function mintToken(connection: Connection, above: number, wall: number): number {
  let taken = reserves.get(connection.turn)
  if (taken === undefined || Math.max(taken.next, above + 1) > taken.last) {
    taken = reserveTokens(connection, above, wall)
    reserves.set(connection.turn, taken)
  }
  const token = Math.max(taken.next, above + 1)
  taken.next = token + 1
  return token
}

/**
 * Forgets the reserve after a step failed: the rollback may undo the reservation, while other steps of the transaction
 * continue.
 */
export function forgetTaken(connection: Connection): void {
  reserves.delete(connection.turn)
}

const takenAtOnce = 128

interface Reserve {
  next: number
  readonly last: number
}

/** A reserve belongs to its transaction and ends with it. */
const reserves = new WeakMap<Turn, Reserve>()

function reserveTokens(connection: Connection, above: number, wall: number): Reserve {
  const [[last]] = connection.rows<[number]>(
    `INSERT INTO lock_shard (shard, last_token)
     SELECT 0, max(?1, coalesce(max(last_token), 0)) + ?2 FROM lock_shard WHERE true
     ON CONFLICT (shard) DO UPDATE SET last_token = excluded.last_token
     RETURNING last_token`,
    Math.max(wall * 1_000 - 1, above),
    takenAtOnce,
  ) as [[number]]
  return { next: last - takenAtOnce + 1, last }
}
