import type { SchemaWatch } from '../../schema-watch.ts'
import { KeylessPositions } from '../claim/keyless-positions.ts'
import { Lapses } from '../claim/lapses.ts'
import { LimitFronts } from '../claim/limit-fronts.ts'
import { LimitGivers } from '../claim/limit-givers.ts'
import { QueueTurns } from '../claim/queue-turns.ts'
import { Unrest } from '../claim/slow-path-hint.ts'
import type { Connections } from '../connection/connection.ts'
import type { PostgresDatabase } from '../connection/database.ts'
import { Sweeper } from '../locks/sweeper.ts'
import type { PostgresNotifier } from '../notifier.ts'
import { Cursors } from './cursors.ts'
import { Leases } from './leases.ts'
import type { JobStatements } from './statements.ts'

/**
 * One namespace, and what this process remembers of it: shared by everything that works in it, also by calls that run
 * in a transaction of their own. The memory is never the reason why something is written; losing it costs time alone.
 */
export interface Space {
  readonly namespace: string
  /** Tells this database from every other one. */
  readonly storeId: string
  readonly statements: JobStatements
  readonly database: PostgresDatabase
  readonly leases: Leases
  readonly cursors: Cursors
  readonly lapses: Lapses
  readonly unrest: Unrest
  readonly sweeper: Sweeper
  readonly turns: QueueTurns
  readonly fronts: LimitFronts
  readonly givers: LimitGivers
  readonly keyless: KeylessPositions
  /** Whether this program may still begin anything on it. */
  readonly schema: Pick<SchemaWatch, 'refuse' | 'isRefusing'>
  readonly notifier: Pick<PostgresNotifier, 'ride'>
}

/** What all namespaces of a store have in common. */
export interface Ground {
  readonly connections: Connections
  readonly statements: JobStatements
  readonly database: PostgresDatabase
  readonly storeId: string
  /** Who has something to sweep: what closing must not leave behind. */
  readonly sweepers: Set<Sweeper>
  readonly schema: Pick<SchemaWatch, 'refuse' | 'isRefusing'>
}

export function createSpace(
  { connections, statements, database, storeId, sweepers, schema }: Ground,
  namespace: string,
  notifier: Pick<PostgresNotifier, 'ride'>,
): Space {
  const [leases, lapses] = [new Leases(), new Lapses()]
  const sweeper = new Sweeper(connections, { namespace, statements, leases, lapses }, sweepers)
  return {
    namespace,
    storeId,
    statements,
    database,
    leases,
    cursors: new Cursors(),
    lapses,
    unrest: new Unrest(),
    sweeper,
    turns: new QueueTurns(),
    fronts: new LimitFronts(),
    givers: new LimitGivers(),
    keyless: new KeylessPositions(),
    schema,
    notifier,
  }
}
