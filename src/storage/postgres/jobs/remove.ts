import type { Reclaimer } from '../claim/reclaim.ts'
import type { Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import type { Space } from './namespace-memory.ts'

/**
 * Deleting jobs with all that is known of them. No job is taken out of a lease's row: leases that ran out are taken back
 * first, and their jobs are then where the others are.
 */
export class Remover {
  readonly #sender: Sender
  readonly #namespace: string
  readonly #statements: RemoveStatements
  readonly #reclaimer: Reclaimer

  constructor(sender: Sender, { namespace, statements }: Space, reclaimer: Reclaimer) {
    this.#sender = sender
    this.#namespace = namespace
    this.#statements = statements.remove
    this.#reclaimer = reclaimer
  }

  /** A job that was on its way from one place to the next is looked for again. */
  async remove(ids: readonly string[]): Promise<readonly string[]> {
    const gone: string[] = []
    // In one order, so that two who remove the same jobs never wait in a ring.
    let left = [...new Set(ids)].sort()
    for (let looks = 0; looks < 3 && left.length > 0; looks++) {
      await this.#reclaimer.reclaim(manyJobs)
      const removed = new Set(await this.#ids(this.#statements.remove, left))
      gone.push(...removed)
      left = left.filter((id) => !removed.has(id))
      if (left.length > 0) left = (await this.#ids(this.#statements.resting, left)).sort()
    }
    return gone
  }

  async #ids(statement: Statement, ids: readonly string[]): Promise<string[]> {
    const { rows } = await this.#sender.run<{ id: string }>(statement, [this.#namespace, ids])
    return rows.map(({ id }) => id)
  }
}

const manyJobs = 100_000

export interface RemoveStatements {
  readonly remove: Statement
  /** Which of these are there and not running. */
  readonly resting: Statement
}

export function removeStatements(s: string): RemoveStatements {
  return {
    remove: { name: 'sb_remove', text: `SELECT id FROM ${s}.signalbox_remove($1, $2::text[]) id` },
    resting: {
      name: 'sb_resting',
      text: `
SELECT id FROM ${s}.job_queue WHERE namespace = $1 AND id = ANY ($2::text[]) AND state <> 'running'
UNION
SELECT id FROM ${s}.job_history WHERE namespace = $1 AND id = ANY ($2::text[])`,
    },
  }
}
