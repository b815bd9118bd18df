import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { type Rule, runLater } from '../../lines/index.ts'
import type { LockStore } from '../../locks/index.ts'
import type { LineName } from '../linekey.ts'
import { shareTurns } from '../lineturns.ts'
import { ruledLocks } from '../ruledlocks.ts'
import type { Calls } from './calls.ts'
import { inspectLine, listLines } from './linereads.ts'
import { MariadbLine } from './linerows.ts'
import { sweepNamespace } from './linesweep.ts'
import type { LockTables } from './tables.ts'
import { isLost } from './trouble.ts'

/** Where the lines of a namespace are. */
export interface LockPlace {
  readonly namespace: string
  readonly tables: LockTables
  /** For looks, and for what never waits for a line. */
  readonly calls: Calls
  /** For transactions on lines, on connections of their own. */
  readonly lineCalls: Calls
  readonly packetBytes: number
}

/**
 * Lines on MariaDB. A step is one transaction:
 *
 *     START, lock the line's row, read it ──▶ (ask for more) ──▶ mint a token ──▶ write, COMMIT
 *
 * The line and the clock are read after the row was locked. The counter of tokens comes last, because all grants of its
 * shard wait for each other from there to the commit.
 */
export function createMariadbLocks(place: LockPlace): LockStore {
  const { namespace, tables, calls, lineCalls, packetBytes } = place

  async function perform(line: LineName, rules: Rules, deadline: number): Promise<readonly unknown[]> {
    const progress = { isCommitting: false }
    try {
      return await lineCalls.run(
        'take a step on a lock',
        (call) => transact(new MariadbLine(call, tables, line, packetBytes), rules, progress),
        deadline,
      )
    } catch (error) {
      throw progress.isCommitting && isUnanswered(error) ? commitUnknown(error) : error
    }
  }

  return {
    ...ruledLocks(shareTurns(namespace, perform)),
    inspect: (key, limit) => inspectLine(calls, tables, namespace, key, limit),
    list: (query) => listLines(calls, tables, namespace, query),
    sweep: (limit, times) => sweepNamespace(place, limit, times),
  }
}

type Rules = readonly (() => Rule<unknown>)[]

async function transact(
  line: MariadbLine,
  rules: Rules,
  progress: { isCommitting: boolean },
): Promise<readonly unknown[]> {
  progress.isCommitting = false
  const book = await line.open()
  const answers: unknown[] = []
  for (const rule of rules) answers.push(await runLater(rule(), book))
  progress.isCommitting = true
  await line.commit(book.lastWrites())
  return answers
}

/** Whether the connection was lost, or nothing was heard from it in time. */
function isUnanswered(error: unknown): boolean {
  if (!isSignalboxError(error, 'store_unavailable')) return false
  return error.cause === undefined || isLost(error.cause)
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection to MariaDB was lost while committing a step on a lock, so it is not known whether it took. Ask again: the same request finds how it stands.',
    { cause },
  )
}
