import { expiredError } from '../../expired-error.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import { clearAway } from '../locks/sweeper.ts'

/**
 * Taking back what ran out, and clearing away what has served: leases whose jobs ended one by one, keys of job_end that
 * nobody can ask about any more, and cancellations that came too late. All of it is safe anywhere, any number of times.
 */
export interface Reclaimed {
  readonly ready: number
  readonly dead: number
  readonly cancelled: number
}

interface TakenRow extends Reclaimed {
  readonly blocked: boolean
}

export interface ReclaimStatements {
  readonly lapsed: Statement
  readonly takeBack: Statement
  readonly sweep: Statement
  readonly clear: Statement
}

export function reclaimStatements(s: string): ReclaimStatements {
  return {
    lapsed: {
      name: 'sb_lapsed',
      text: `
SELECT lease_no::text AS lease_no FROM ${s}.job_lease
WHERE namespace = $1 AND ends_at <= ${nowMs} ORDER BY ends_at, lease_no LIMIT 1000`,
    },
    takeBack: {
      name: 'sb_take_back',
      text: `SELECT ready, dead, cancelled, blocked FROM ${s}.signalbox_take_back($1, $2, $3, $4)`,
    },
    sweep: { name: 'sb_sweep', text: `SELECT ${s}.signalbox_sweep($1, $2)` },
    clear: {
      name: 'sb_clear',
      text: `
WITH old AS (
  DELETE FROM ${s}.job_end e USING (
    SELECT lease_no, job_id FROM ${s}.job_end
    WHERE how = 'returned' AND ended_at < ${nowMs} - 3600000
      AND NOT EXISTS (SELECT FROM ${s}.job_lease l WHERE l.lease_no = job_end.lease_no)
    ORDER BY ended_at LIMIT 5000 FOR UPDATE SKIP LOCKED
  ) o WHERE e.lease_no = o.lease_no AND e.job_id = o.job_id
)
DELETE FROM ${s}.job_cancel c USING ${s}.job_history h
WHERE c.namespace = $1 AND c.asked_at < ${nowMs} - 60000 AND h.namespace = c.namespace AND h.id = c.job_id`,
    },
  }
}

export class Reclaimer {
  readonly #sender: Sender
  readonly #space: Space
  readonly #statements: ReclaimStatements

  constructor(sender: Sender, space: Space) {
    this.#sender = sender
    this.#space = space
    this.#statements = space.statements.reclaim
  }

  async reclaim(limit: number): Promise<Reclaimed> {
    const { rows } = await this.#sender.run<{ lease_no: string }>(this.#statements.lapsed, [
      this.#space.namespace,
    ])
    const total = await this.takeBack(
      rows.map(({ lease_no: leaseNo }) => leaseNo),
      limit,
    )
    return total
  }

  /** Takes back up to `limit` jobs of these leases. */
  async takeBack(leaseNos: readonly string[], limit: number): Promise<Reclaimed> {
    const { namespace, lapses } = this.#space
    const total = { ready: 0, dead: 0, cancelled: 0 }
    for (const leaseNo of leaseNos) {
      const left = limit - total.ready - total.dead - total.cancelled
      if (left <= 0) break
      const { rows } = await this.#sender.run<TakenRow>(this.#statements.takeBack, [
        namespace,
        leaseNo,
        left,
        expiredError,
      ])
      const { ready, dead, cancelled, blocked } = rows[0]!
      total.ready += ready
      total.dead += dead
      total.cancelled += cancelled
      // Also one that another process is taking back just now: whoever claims must not stand still for it.
      if (blocked || ready + dead + cancelled === 0) lapses.block(leaseNo)
    }
    await clearAway(this.#sender, this.#space)
    return total
  }
}
