import type { SchemaWatch } from '../../migration-plan.ts'
import { Positions } from '../../sql/claim-positions.ts'
import { LimitedQueues } from '../../sql/limited-queues.ts'
import type { PostgresDatabase } from '../connection/database.ts'
import type { Sender } from '../connection/sender.ts'
import type { Statement } from '../connection/statement.ts'
import type { PostgresNotifier } from '../notifier.ts'

/** The parts that all namespaces of a store share. */
export interface StoreContext {
  /** Identifies this database. */
  readonly storeId: string
  /** Quoted. */
  readonly schemaName: string
  readonly database: PostgresDatabase
  /** Whether this program may still use the schema. */
  readonly schema: Pick<SchemaWatch, 'refuse' | 'isRefusing'>
}

/** One namespace, with caches of this process. Losing the caches costs only time. */
export interface Space extends StoreContext {
  readonly namespace: string
  readonly notifier: Pick<PostgresNotifier, 'carryWakeUp'>
  /** The positions at which claims begin to search. */
  readonly positions: Positions
  readonly limited: LimitedQueues
}

/** A namespace, and the sender of its statements. The first argument of every verb on jobs. */
export interface Scope extends Space {
  readonly sender: Sender
}

export function createSpace(
  context: StoreContext,
  namespace: string,
  notifier: Pick<PostgresNotifier, 'carryWakeUp'>,
): Space {
  return { ...context, namespace, notifier, positions: new Positions(), limited: new LimitedQueues() }
}

/** Runs a statement whose first value is the namespace. Answers its rows. */
export async function runIn<Row extends object>(
  { sender, namespace }: Scope,
  statement: Statement,
  ...values: unknown[]
): Promise<readonly Row[]> {
  const { rows } = await sender.run<Row & Record<string, unknown>>(statement, [namespace, ...values])
  return rows
}
