import type { SchemaWatch } from '../schema-watch.ts'
import type { Positions } from '../sql/claim-positions.ts'
import type { LimitedQueues } from '../sql/limited-queues.ts'
import type { Calls } from './connection/calls.ts'
import type { Pool } from './connection/pool.ts'
import type { Tables } from './tables.ts'

/** What every part of this engine works with, in one namespace. */
export interface Store {
  readonly namespace: string
  readonly memory: Memory
  readonly tables: Tables
  /** For our own statements. */
  readonly calls: Calls
  /** For users' transactions. */
  readonly users: Pool
  /** Tells this database from every other one. */
  readonly storeId: string
  /** The largest packet to send; the server takes a little more. */
  readonly packetBytes: number
  /** Whether this program may still begin anything on it. */
  readonly schema: Pick<SchemaWatch, 'refuse'>
}

/** What this process remembers of a namespace. It only saves time: losing it is harmless. */
export interface Memory {
  /** Where claims begin to look. */
  readonly positions: Positions
  /** Looks that found nothing last time: they are asked in one statement before a claim is made of them. */
  readonly idle: Set<string>
  /** Queues that had limits when they were last looked at. */
  readonly limited: LimitedQueues
}
