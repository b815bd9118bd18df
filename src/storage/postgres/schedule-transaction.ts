import type { PoolClient, QueryResult } from 'pg'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { Connections } from './connection/connection.ts'
import { inOnePacket } from './connection/driver.ts'
import { isConnectionLoss } from './connection/failures.ts'
import { Pinned } from './jobs/pinned.ts'

/**
 * Transactions of schedules. They may wait for each other, so they are made on the connections of lines, where they
 * keep no job waiting. One that the database gave up for another's sake is done over as a whole.
 */

/**
 * Runs `work` between BEGIN and COMMIT; what it did is taken back unless `isKept` says yes to its answer. Work that has
 * sent all it will, and is sure that it is kept if it works, may `keep` it before the answers have come. What it sends
 * before it first waits goes out with the BEGIN.
 */
export function transact<Answer>(
  connections: Connections,
  work: (tx: Pinned, keep: () => void) => Promise<Answer>,
  isKept: (answer: Answer) => boolean,
): Promise<Answer> {
  return tellingLoss((progress) =>
    connections.useWaiting(async (client) => {
      progress.isCommitting = false
      const tx = new Pinned(connections, client)
      let ending: Promise<QueryResult> | undefined
      // Behind a statement that failed, which is what the work tells of, a COMMIT is a ROLLBACK.
      const keep = () => {
        progress.isCommitting = true
        ending ??= client.query('COMMIT')
        ending.catch(() => undefined)
      }
      try {
        const answer = await inOnePacket(client, () => {
          // Its failure shows in the statement after it.
          client.query(begin).catch(() => undefined)
          return work(tx, keep)
        })
        if (isKept(answer)) {
          keep()
          requireCommit(await ending!)
          tx.committed()
        } else await client.query('ROLLBACK')
        return answer
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined)
        throw error
      }
    }),
  )
}

/** The same where every statement is known beforehand: all goes out together, and takes one trip. */
export function transactAtOnce(
  connections: Connections,
  send: (client: PoolClient) => readonly Promise<QueryResult>[],
): Promise<readonly QueryResult[]> {
  return tellingLoss((progress) =>
    connections.useWaiting(async (client) => {
      progress.isCommitting = true
      const sent = inOnePacket(client, () => [client.query(begin), ...send(client), client.query('COMMIT')])
      try {
        const [, ...answers] = await Promise.all(sent)
        // Behind a statement that failed, COMMIT is a rollback.
        requireCommit(answers.pop()!)
        return answers
      } catch (error) {
        await Promise.allSettled(sent)
        throw error
      }
    }),
  )
}

/**
 * The isolation is said outright: each statement must see what was committed before it, whatever the default is. And a
 * process that stands still must not keep others from the rows it has: the server ends its transaction.
 */
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '5s'"

function requireCommit({ command }: QueryResult): void {
  if (command !== 'COMMIT') throw new Error(`COMMIT was answered with ${command}`)
}

async function tellingLoss<Answer>(
  run: (progress: { isCommitting: boolean }) => Promise<Answer>,
): Promise<Answer> {
  const progress = { isCommitting: false }
  try {
    return await run(progress)
  } catch (error) {
    const isLost = isSignalboxError(error, 'store_unavailable') && isConnectionLoss(error.cause)
    throw isLost && progress.isCommitting ? commitUnknown(error) : error
  }
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to Postgres was lost during COMMIT, so it is not known whether it took. Read what is there, and ask again.',
    { cause },
  )
}
