import type { SchemaWatch } from '../migration-plan.ts'
import type { Positions } from '../sql/claim-positions.ts'
import type { LimitedQueues } from '../sql/limited-queues.ts'
import type { Calls } from './connection/calls.ts'
import type { Pool } from './connection/pool.ts'

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

/**
 * The tables' names, qualified by the database: a caller's connection, on which acks and adds also run, may have
 * another default database than ours.
 */
export interface Tables {
  readonly queue: string
  readonly history: string
  readonly dead: string
  readonly cancel: string
  readonly control: string
  readonly rate: string
  readonly dependency: string
  readonly jobLock: string
  readonly progress: string
  readonly log: string
  readonly attempt: string
  readonly block: string
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
    rate: of('job_rate'),
    dependency: of('job_dependency'),
    jobLock: of('job_lock'),
    progress: of('job_progress'),
    log: of('job_log'),
    attempt: of('job_attempt'),
    block: of('job_block'),
    worker: of('fleet_worker'),
    requestKey: of('request_key'),
    meta: of('signalbox_meta'),
    migration: of('signalbox_migration'),
  }
}
