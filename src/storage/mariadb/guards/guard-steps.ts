import { toCallerTx } from '../connection/caller-transaction.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { packStatements } from '../connection/packets.ts'
import type { Store } from '../engine-store.ts'
import { checkTransaction } from '../jobs/add.ts'

/**
 * Runs statements on guards, all in one transaction: one of our own, or the caller's. Values are texts, numbers and null,
 * one for each question mark. Answers what each statement gave.
 */
export async function takeSteps(
  store: Store,
  doing: string,
  statements: readonly Statement[],
  tx: unknown,
): Promise<readonly unknown[]> {
  if (tx !== undefined) return inCallerTx(store, statements, tx)
  return store.calls.run(doing, async (call) => {
    // A statement by itself is its own transaction.
    if (statements.length === 1) return call.packet(statements)
    return (await sendAll(call, [begin, ...statements, commit], store.packetBytes)).slice(1, -1)
  })
}

/** In as few packets as the server takes. */
export async function sendAll(
  call: Call,
  statements: readonly Statement[],
  packetBytes: number,
): Promise<readonly unknown[]> {
  const answers: unknown[] = []
  for (const packet of packStatements(statements, packetBytes)) answers.push(...(await call.packet(packet)))
  return answers
}

async function inCallerTx(store: Store, statements: readonly Statement[], tx: unknown): Promise<unknown[]> {
  const caller = await toCallerTx(tx)
  store.calls.requireOpen()
  await checkTransaction(store, caller)
  const answers: unknown[] = []
  for (const statement of statements) {
    const [sql, values] = inAnySession(statement)
    answers.push(await caller.query(sql, values))
  }
  return answers
}

/**
 * The same for a session that is not ours. Texts go as bytes, right in every character set and quoting. Its sql_mode may
 * have assignments all see the row as it was (SIMULTANEOUS_ASSIGNMENT), while ours see those before them.
 */
function inAnySession([sql, values]: Statement): Statement {
  let next = 0
  const text = sql.replaceAll('?', () => (typeof values[next++] === 'string' ? '_utf8mb4 ?' : '?'))
  return [
    `SET STATEMENT sql_mode = 'STRICT_TRANS_TABLES' FOR ${text}`,
    values.map((value) => (typeof value === 'string' ? Buffer.from(value) : value)),
  ]
}
