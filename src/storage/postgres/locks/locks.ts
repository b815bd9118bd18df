import { setTimeout as sleep } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { LockStore } from '../../../locks/index.ts'
import { ruledLocks } from '../../ruled-locks.ts'
import type { LineName } from '../../sql/wait-queue-key.ts'
import { type LineCall, runCalls, shareTurns } from '../../sql/wait-queue-turns.ts'
import type { Connections } from '../connection/connection.ts'
import { isConflict, isConnectionLoss } from '../connection/failures.ts'
import { LineReads } from './wait-queue-reads.ts'
import { commitLines, openLines, PostgresLine } from './wait-queue-rows.ts'
import type { LineStatements } from './wait-queue-statements.ts'
import { LineSweep } from './wait-queue-sweep.ts'

/**
 * Lines on Postgres. A step is one transaction:
 *
 *     BEGIN, lock the line, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The lock is an advisory one of the transaction, so that a line need not have a row to be locked, and the line and the
 * clock are read after it was got. The counter of tokens comes last, because all grants of its shard wait for each other
 * from there to the commit. Several lines, whose operations exclude each other, are locked in one order and in one trip.
 */
export function createPostgresLocks(
  connections: Connections,
  namespace: string,
  schema: string,
  statements: LineStatements,
): LockStore {
  const reads = new LineReads(connections, namespace, schema)
  const run = shareTurns(namespace, perform)
  const sweeping = new LineSweep(connections, namespace, schema, statements, run)

  async function perform(
    names: readonly LineName[],
    calls: readonly LineCall[],
    deadline: number,
  ): Promise<readonly unknown[]> {
    for (let round = 0; ; round++) {
      const progress = { isCommitting: false }
      try {
        return await connections.useLine((client) =>
          transact(
            names.map((name) => new PostgresLine(connections, client, statements, name)),
            client,
            calls,
            progress,
          ),
        )
      } catch (error) {
        if (isLost(error) && progress.isCommitting) throw commitUnknown(error)
        const isAgain = isSignalboxError(error, 'store_busy') && isConflict(error.cause)
        if (!isAgain || performance.now() >= deadline) throw error
      }
      await sleep(Math.random() * Math.min(100, 5 * 2 ** round))
    }
  }

  return {
    ...ruledLocks(run),
    inspect: (key, limit) => reads.inspect(key, limit),
    list: (query) => reads.list(query),
    findWaitingHolders: (keys) => reads.findWaitingHolders(keys),
    sweep: (limit, times) => sweeping.sweep(limit, times),
  }
}

async function transact(
  lines: readonly PostgresLine[],
  client: PoolClient,
  calls: readonly LineCall[],
  progress: { isCommitting: boolean },
): Promise<readonly unknown[]> {
  progress.isCommitting = false
  try {
    const books = await openLines(client, lines)
    const answers = await runCalls(calls, books)
    progress.isCommitting = true
    await commitLines(
      client,
      lines.map((line) => [line, books.get(line.operation)!.lastWrites()]),
    )
    return answers
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined)
    throw error
  }
}

function isLost(error: unknown): boolean {
  return isSignalboxError(error, 'store_unavailable') && isConnectionLoss(error.cause)
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to Postgres was lost while committing a step on a lock, so it is not known whether it took. Ask again: the same request finds how it stands.',
    { cause },
  )
}
