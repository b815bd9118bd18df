import type { Connection, Turn } from '../connection/connection.ts'

/**
 * Tokens rise for ever, whatever becomes of the wait queues: the last one is in a row that is never deleted. Writing it for
 * every grant would cost as much as the grant, so a transaction takes some at once; those it does not need are skipped.
 * SQLite has one writer, so one row is enough for all.
 */
export function mintToken(connection: Connection, above: number, wall: number): number {
  let taken = reserves.get(connection.turn)
  if (taken === undefined || Math.max(taken.next, above + 1) > taken.last) {
    taken = takeSome(connection, above, wall)
    reserves.set(connection.turn, taken)
  }
  const token = Math.max(taken.next, above + 1)
  taken.next = token + 1
  return token
}

/** What was taken in a step that failed may be undone with it, while others of the same transaction go on. */
export function forgetTaken(connection: Connection): void {
  reserves.delete(connection.turn)
}

const takenAtOnce = 128

interface Reserve {
  next: number
  readonly last: number
}

/** They are the transaction's, and gone with it. */
const reserves = new WeakMap<Turn, Reserve>()

function takeSome(connection: Connection, above: number, wall: number): Reserve {
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
