import type { Calls } from './calls.ts'
import type { Pool } from './pool.ts'
import type { Tables } from './tables.ts'

/** What every part of this engine works with. */
export interface Store {
  readonly namespace: string
  readonly tables: Tables
  /** For our own statements. */
  readonly calls: Calls
  /** For users' transactions. */
  readonly users: Pool
  /** Tells this database from every other one. */
  readonly storeId: string
  /** The largest packet to send; the server takes a little more. */
  readonly packetBytes: number
}
