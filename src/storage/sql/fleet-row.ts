import type { FleetKind, FleetPage, FleetRow } from '../../dispatch/cluster/fleet-store.ts'

/** A row of the fleet's board as SQL keeps it; drivers give whole numbers as numbers or as text. */
export interface StoredFleetRow {
  readonly kind: string
  readonly row_key: string
  readonly version: number | string
  readonly doc: string | null
  readonly expires_at: number | string | null
}

/** How far a board has come: its newest version, and the newest that was forgotten. */
export interface FleetReach {
  readonly version: number
  readonly forgotten: number
}

export function decodeFleetRow(row: StoredFleetRow): FleetRow {
  return {
    kind: row.kind as FleetKind,
    key: row.row_key,
    version: Number(row.version),
    doc: row.doc,
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
  }
}

/** Whether what a reader of `since` knows is void. */
export function isFleetReset(since: number, { version, forgotten }: FleetReach): FleetPage['isReset'] {
  return since > 0 && (since < forgotten || since > version)
}
