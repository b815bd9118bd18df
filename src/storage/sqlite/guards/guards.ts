import type { GuardQuery, GuardRecord, GuardStore } from '../../../once/guard-store.ts'
import { decodeGuardRow, type GuardRow } from '../../sql/guard-row.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import type { Reader } from '../connection/reader.ts'
import type { SqliteTransactions } from '../jobs/jobs.ts'
import type { Writer } from '../writing/writer.ts'
import { type GuardStep, type GuardSteps, isKnown, mayPruneGuards, takeGuardStep } from './guard-steps.ts'

/** Guards of one namespace in SQLite: steps go to the writer, or into the caller's transaction; looking goes to the reader. */
export interface SqliteGuardsOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  readonly transactions: Pick<SqliteTransactions, 'join' | 'end'>
  /** Throws when the store was closed. */
  check(): void
}

export function createSqliteGuards({
  namespace,
  writer,
  reader,
  transactions,
  check,
}: SqliteGuardsOptions): GuardStore {
  const take = async <Name extends keyof GuardSteps>(
    name: Name,
    args: Parameters<GuardSteps[Name]>,
    tx?: unknown,
  ): Promise<ReturnType<GuardSteps[Name]>> => {
    check()
    // Steps are told apart by their name, which comes with its own arguments and has its own answer.
    const step = [name, args] as unknown as GuardStep
    const answer =
      tx === undefined
        ? await writer.write({ operation: 'guard', namespace, args: step })
        : transactions.join(tx, (connection) =>
            takeGuardStep(connection, namespace, step, readNow(connection)),
          )
    return answer as ReturnType<GuardSteps[Name]>
  }
  return {
    claim: (asks, tx) => take('claim', [asks], tx),
    settle: (ends, tx) => take('settle', [ends], tx),
    endTransaction: async (tx, error) => transactions.end(tx, error),
    renew: (ref, leaseMs, tx) => take('renew', [ref, leaseMs], tx),
    forget: (space, key) => take('forget', [space, key]),
    seen: (asks, tx) => take('seen', [asks], tx),
    async list(query) {
      check()
      return reader.read((connection) => listGuards(connection, namespace, query))
    },
    async prune(limit) {
      check()
      // Nearly always there is nothing to do, and then nobody needs the writer.
      const isDue = await reader.read((connection) =>
        mayPruneGuards(connection, namespace, readNow(connection)),
      )
      return isDue ? take('prune', [limit]) : 0
    },
  }
}

function listGuards(
  connection: Connection,
  namespace: string,
  { space, search, limit, cursor }: GuardQuery,
): { readonly items: readonly GuardRecord[]; readonly cursor: string | null } {
  const now = readNow(connection)
  const rows = connection.all<GuardRow>(
    `SELECT guard_key, status, mode, attempt, claimed_at, keep_ms, ends_at FROM once_guard
     WHERE namespace = ?1 AND space = ?2 AND guard_key > ?3
       AND (?4 IS NULL OR instr(guard_key, ?4) > 0)
       AND ${isKnown('?5')}
     ORDER BY guard_key LIMIT ?6`,
    namespace,
    space,
    cursor === undefined ? '' : decodeCursor(cursor),
    search ?? null,
    now,
    limit + 1,
  )
  const items = rows.slice(0, limit).map((row) => decodeGuardRow(row, now))
  return { items, cursor: rows.length > limit ? encodeCursor(items.at(-1)!.key) : null }
}

function encodeCursor(key: string): string {
  return Buffer.from(key).toString('base64url')
}

function decodeCursor(cursor: string): string {
  return Buffer.from(cursor, 'base64url').toString()
}
