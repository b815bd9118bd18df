import type { Migration } from '../../migration-plan.ts'

/**
 * The board that servers of one fleet share. A row is found by what it is about, by its version, and, when it was
 * removed, by since when. How far the board has come is a row of its own, since the rows with the highest versions may
 * be forgotten. The document, which may be large, is the last column: what stands behind it would be read through it.
 */
export const fleet: Migration = {
  number: 7,
  name: 'fleet',
  statements: [
    `CREATE TABLE fleet_board (
      namespace TEXT PRIMARY KEY,
      version INTEGER NOT NULL,
      forgotten INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID`,
    `CREATE TABLE fleet_row (
      fleet_row INTEGER PRIMARY KEY,
      namespace TEXT NOT NULL,
      kind TEXT NOT NULL,
      row_key TEXT NOT NULL,
      version INTEGER NOT NULL,
      expires_at INTEGER,
      removed_at INTEGER,
      doc TEXT
    ) STRICT`,
    `CREATE UNIQUE INDEX fleet_row_key ON fleet_row (namespace, kind, row_key)`,
    `CREATE UNIQUE INDEX fleet_row_version ON fleet_row (namespace, version)`,
    `CREATE INDEX fleet_row_removed ON fleet_row (namespace, removed_at, version)
      WHERE removed_at IS NOT NULL`,
  ],
}
