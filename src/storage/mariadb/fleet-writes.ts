import { SignalboxError } from '../../core/errors.ts'
import type { FleetWrite } from '../../dispatch/cluster/fleet-store.ts'
import { hashFleetKey } from '../sql/fleet-key.ts'
import type { Statement } from './connection/calls.ts'
import { nowMs } from './connection/clock.ts'
import { cutPieces } from './connection/pieces.ts'
import type { Store } from './engine-store.ts'

/**
 * Writes to the board as statements that need no answer of each other's, so that all of them may go in one packet:
 *
 *     START, lock the board ──▶ for each write: the write, count it if it took ──▶ note the newest version, COMMIT
 *
 * What one tells the next is in the session's variables, which the first statements of every transaction set anew. A
 * process that stands still in between cannot keep others from the board, but for documents that need packets of their
 * own; then the server ends its transaction.
 */
const version = '@signalbox_version'
const took = '@signalbox_took'
const at = '@signalbox_at'

type Board = Pick<Store, 'tables' | 'namespace'>

/** Has the board locked until the commit. The time is read when it is had; answers its version. */
export function lockBoard({ tables, namespace }: Board): readonly Statement[] {
  const { board } = tables.fleet
  return [
    [
      `INSERT INTO ${board} (namespace, version, forgotten) VALUES (?, 0, 0) ON DUPLICATE KEY UPDATE version = version`,
      [namespace],
    ],
    [
      `SELECT ${version} := version AS version, ${at} := ${nowMs} FROM ${board} WHERE namespace = ? FOR UPDATE`,
      [namespace],
    ],
  ]
}

/** The first of them says by how many rows it wrote whether the write took. */
export function encodeWrite(
  store: Board & Pick<Store, 'packetBytes'>,
  write: FleetWrite,
): readonly Statement[] {
  const { key, doc, packetBytes, namespace, kind } = { ...write, ...store }
  const bytes = doc === null ? 0 : Buffer.byteLength(doc)
  if (bytes > packetBytes) throw tooLarge(key, bytes, packetBytes)
  const [first = null, ...others] = doc === null ? [] : cutPieces(doc, packetBytes - 8_192)
  const { row } = store.tables.fleet
  return [
    encodeFirst(store, write, first),
    [`SET ${took} = ROW_COUNT() > 0, ${version} = ${version} + (ROW_COUNT() > 0)`, []],
    ...others.map(
      (piece): Statement => [
        `UPDATE ${row} SET doc = CONCAT(doc, ?) WHERE ${thisRow} AND ${took}`,
        [piece, namespace, kind, hashFleetKey(key)],
      ],
    ),
  ]
}

function encodeFirst(
  { tables, namespace }: Board,
  { kind, key, seen, doc, forMs }: FleetWrite,
  first: string | null,
): Statement {
  const { row } = tables.fleet
  const names = [namespace, kind, hashFleetKey(key)]
  const expiresAt = doc === null ? 'NULL' : `${at} + ?`
  const removedAt = doc === null ? at : 'NULL'
  const values = [first, ...(doc === null ? [] : [forMs])]
  if (seen > 0) {
    return [
      `UPDATE ${row} SET version = ${version} + 1, doc = ?, expires_at = ${expiresAt}, removed_at = ${removedAt}
        WHERE ${thisRow} AND version = ?`,
      [...values, ...names, seen],
    ]
  }
  // `removed_at` is last, since the others ask for it: an assignment sees those before it.
  const columns = ['version', 'doc', 'expires_at', 'removed_at']
  return [
    `INSERT INTO ${row} (namespace, kind, key_hash, row_key, version, doc, expires_at, removed_at)
      VALUES (?, ?, ?, ?, ${version} + 1, ?, ${expiresAt}, ${removedAt})
      ON DUPLICATE KEY UPDATE
        ${columns.map((column) => `${column} = IF(removed_at IS NULL, ${column}, VALUES(${column}))`).join(', ')}`,
    [...names, key, ...values],
  ]
}

const thisRow = 'namespace = ? AND kind = ? AND key_hash = ?'

export function noteVersion({ tables, namespace }: Board): Statement {
  return [`UPDATE ${tables.fleet.board} SET version = ${version} WHERE namespace = ?`, [namespace]]
}

/**
 * Forgets up to so many rows that were removed longer ago than that. The newest row of all stays: whoever has read the
 * board to its end is then above what was forgotten.
 */
export function encodePrune(
  { tables, namespace }: Board,
  limit: number,
  olderThanMs: number,
): readonly Statement[] {
  const { board, row } = tables.fleet
  const old = `WHERE namespace = ? AND removed_at < ${at} - ? AND version < ${version}
      ORDER BY removed_at, version LIMIT ?`
  const values = [namespace, olderThanMs, limit]
  return [
    [
      `UPDATE ${board} SET forgotten = GREATEST(forgotten, COALESCE((
        SELECT MAX(version) FROM (SELECT version FROM ${row} FORCE INDEX (fleet_row_removed) ${old}) old), 0))
        WHERE namespace = ?`,
      [...values, namespace],
    ],
    [`DELETE FROM ${row} ${old}`, values],
  ]
}

function tooLarge(key: string, bytes: number, limit: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `The row "${key}" of the fleet's board would have ${bytes} bytes; MariaDB takes ${limit} at once, and nothing was written. Raise max_allowed_packet.`,
    { details: { bytes, limit } },
  )
}
