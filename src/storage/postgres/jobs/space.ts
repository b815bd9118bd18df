import type { SchemaWatch } from '../../migration-plan.ts'
import { Positions } from '../../sql/claim-positions.ts'
import { LimitedQueues } from '../../sql/limited-queues.ts'
import type { PostgresDatabase } from '../connection/database.ts'
import type { Sender } from '../connection/sender.ts'
import type { Statement } from '../connection/statement.ts'
import type { PostgresNotifier } from '../notifier.ts'

/** What all namespaces of a store have in common. */
export interface Ground {
  /** Tells this database from every other one. */
  readonly storeId: string
  /** Quoted. */
  readonly schemaName: string
  readonly database: PostgresDatabase
  /** Whether this program may still begin anything on the schema. */
  readonly schema: Pick<SchemaWatch, 'refuse' | 'isRefusing'>
}

/** One namespace, and what this process remembers of it. Losing the memory costs time alone. */
export interface Space extends Ground {
  readonly namespace: string
  readonly notifier: Pick<PostgresNotifier, 'ride'>
  /** Where claims begin to look. */
  readonly positions: Positions
  readonly limited: LimitedQueues
}

/** A namespace, and how its statements are run. Every verb on jobs takes it first. */
export interface Scope extends Space {
  readonly sender: Sender
}

export function createSpace(
  ground: Ground,
  namespace: string,
  notifier: Pick<PostgresNotifier, 'ride'>,
): Space {
  return { ...ground, namespace, notifier, positions: new Positions(), limited: new LimitedQueues() }
}

/** Runs a statement whose first value is the namespace; answers its rows. */
export async function runIn<Row extends object>(
  { sender, namespace }: Scope,
  statement: Statement,
  ...values: unknown[]
): Promise<readonly Row[]> {
  const { rows } = await sender.run<Row & Record<string, unknown>>(statement, [namespace, ...values])
  return rows
}
