import type { SchemaWatch } from '../migration-plan.ts'
import type { Positions } from '../sql/claim-positions.ts'
import type { LimitedQueues } from '../sql/limited-queues.ts'
import type { Calls } from './connection/calls.ts'
import type { MariadbDatabase } from './connection/database.ts'
import type { Pool } from './connection/pool.ts'

/** The shared parts of this engine, for one namespace. */
export interface Store {
  readonly namespace: string
  readonly memory: Memory
  readonly tables: Tables
  readonly database: MariadbDatabase
  /** For the store's own statements. */
  readonly calls: Calls
  /** For users' transactions. */
  readonly users: Pool
  /** The unique id of this database. */
  readonly storeId: string
  /** The largest packet to send; the server accepts slightly more. */
  readonly packetBytes: number
  /** Refuses new work if this program cannot use the schema. */
  readonly schema: Pick<SchemaWatch, 'refuse'>
}

/** A process's hints about a namespace. They only save time: losing them is harmless. */
export interface Memory {
  /** Where claims start to search. */
  readonly positions: Positions
  /** Claims that found nothing last time. A cheap read checks for jobs before the next such claim. */
  readonly idle: Set<string>
  /** The queues that had limits when they were last read. */
  readonly limited: LimitedQueues
}

/**
 * The tables' names, qualified by the database: a caller's connection, on which acks and adds also run, may have
 * another default database.
 */
export interface Tables {
  readonly queue: string
  readonly history: string
  readonly dead: string
  readonly cancel: string
  readonly control: string
  readonly attempt: string
  readonly worker: string
  readonly requestKey: string
  readonly meta: string
  readonly migration: string
}

export function qualifyTables(database: string): Tables {
  const of = (table: string) => `\`${database.replaceAll('`', '``')}\`.${table}`
  return {
    queue: of('job_queue'),
    history: of('job_history'),
    dead: of('job_dead'),
    cancel: of('job_cancel'),
    control: of('queue_control'),
    attempt: of('job_attempt'),
    worker: of('fleet_worker'),
    requestKey: of('request_key'),
    meta: of('signalbox_meta'),
    migration: of('signalbox_migration'),
  }
}
