import type { AttemptOutcome, LeaseRef, Renewal } from '../../../jobs/index.ts'
import { decodeToken } from '../../token.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import type { Space } from './namespace-memory.ts'

/**
 * Questions about attempts under way: keep them, how did they end, does somebody want them cancelled. None of the
 * statements waits for a user's transaction: those lock no row of `job_lease`, and keys they have not committed in
 * `job_end` are not seen.
 */
export class Attempts {
  readonly #sender: Sender
  readonly #space: Space
  readonly #statements: AttemptStatements

  constructor(sender: Sender, space: Space) {
    this.#sender = sender
    this.#space = space
    this.#statements = space.statements.attempts
  }

  async renew(refs: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    const asked = this.#decode(refs)
    if (asked.length === 0) return []
    const { rows } = await this.#sender.beat<{ nr: number; ends_at: string; cancel_requested: boolean }>(
      this.#statements.renew,
      [...this.#values(asked), leaseMs],
      leaseMs,
    )
    return rows.map(({ nr, ends_at: endsAt, cancel_requested: cancelRequested }) => {
      const { ref, leaseNo } = asked[nr - 1]!
      this.#sender.onCommit(() => this.#space.leases.renewed(leaseNo, leaseMs))
      return { jobId: ref.jobId, token: ref.token, leaseEndsAt: Number(endsAt), cancelRequested }
    })
  }

  async outcomes(refs: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
    const answers: AttemptOutcome[] = refs.map(() => 'lost')
    const asked = this.#decode(refs)
    if (asked.length === 0) return answers
    const { rows } = await this.#sender.run<{ nr: number; outcome: AttemptOutcome }>(
      this.#statements.outcomes,
      this.#values(asked),
    )
    for (const { nr, outcome } of rows) answers[asked[nr - 1]!.at] = outcome
    return answers
  }

  async cancelRequests(refs: readonly LeaseRef[]): Promise<readonly string[]> {
    const asked = this.#decode(refs)
    if (asked.length === 0) return []
    const { rows } = await this.#sender.run<{ nr: number }>(
      this.#statements.cancelRequests,
      this.#values(asked),
    )
    return rows.map(({ nr }) => asked[nr - 1]!.ref.jobId)
  }

  #decode(refs: readonly LeaseRef[]): readonly Asked[] {
    return refs.flatMap((ref, at) => {
      const token = decodeToken(ref.token)
      if (token === undefined) return []
      return [{ ref, at, ...token, known: this.#space.leases.find(ref) !== undefined }]
    })
  }

  #values(asked: readonly Asked[]): unknown[] {
    return [
      this.#space.namespace,
      asked.map(({ leaseNo }) => leaseNo),
      asked.map(({ nonce }) => nonce),
      asked.map(({ ref }) => ref.jobId),
      asked.map(({ known }) => known),
    ]
  }
}

interface Asked {
  readonly ref: LeaseRef
  readonly at: number
  readonly leaseNo: string
  readonly nonce: string
  /** This process claimed the job under this lease, so the lease's row need not be searched for it. */
  readonly known: boolean
}

export interface AttemptStatements {
  readonly renew: Statement
  readonly outcomes: Statement
  readonly cancelRequests: Statement
}

export function attemptStatements(s: string): AttemptStatements {
  const asked = `
clock AS MATERIALIZED (SELECT ${nowMs} AS now),
asked AS MATERIALIZED (
  SELECT a.nr::int AS nr, a.lease_no, a.nonce, a.id COLLATE "C" AS id, a.known
  FROM unnest($2::bigint[], $3::text[], $4::text[], $5::boolean[]) WITH ORDINALITY a (lease_no, nonce, id, known, nr)
)`
  const isIn = `(a.known OR EXISTS (
    SELECT FROM ${s}.job_lease m CROSS JOIN LATERAL unnest(m.jobs) j WHERE m.lease_no = a.lease_no AND j.id = a.id))`
  const isOpen = `NOT EXISTS (SELECT FROM ${s}.job_end e WHERE e.lease_no = a.lease_no AND e.job_id = a.id)`
  const isLive = 'l.namespace = $1 AND l.nonce = a.nonce AND l.ends_at > clock.now'
  return {
    renew: {
      name: 'sb_renew',
      text: `
WITH ${asked},
kept AS (
  UPDATE ${s}.job_lease l SET ends_at = greatest(l.ends_at, clock.now + $6::bigint)
  FROM clock, (SELECT DISTINCT lease_no, nonce FROM asked a WHERE ${isIn} AND ${isOpen} ORDER BY lease_no) a
  WHERE l.lease_no = a.lease_no AND ${isLive} AND l.ends_at > ${nowMs}
  RETURNING l.lease_no, l.nonce, l.ends_at
)
SELECT a.nr, k.ends_at, c.job_id IS NOT NULL AS cancel_requested
FROM asked a
JOIN kept k ON k.lease_no = a.lease_no AND k.nonce = a.nonce
LEFT JOIN ${s}.job_cancel c ON c.namespace = $1 AND c.job_id = a.id
WHERE ${isIn} AND ${isOpen}`,
    },
    outcomes: {
      name: 'sb_outcomes',
      text: `
WITH ${asked}
SELECT a.nr,
       CASE WHEN EXISTS (SELECT FROM ${s}.job_history h
                         WHERE h.namespace = $1 AND h.id = a.id AND h.lease_no = a.lease_no)
              OR EXISTS (SELECT FROM ${s}.job_end e
                         WHERE e.lease_no = a.lease_no AND e.job_id = a.id AND e.how <> 'expired') THEN 'settled'
            WHEN EXISTS (SELECT FROM clock, ${s}.job_lease l WHERE l.lease_no = a.lease_no AND ${isLive})
              AND ${isIn} AND ${isOpen} THEN 'held'
            ELSE 'lost' END AS outcome
FROM asked a`,
    },
    cancelRequests: {
      name: 'sb_cancel_requests',
      text: `
WITH ${asked}
SELECT a.nr FROM clock, asked a
JOIN ${s}.job_cancel c ON c.namespace = $1 AND c.job_id = a.id
JOIN ${s}.job_lease l ON l.lease_no = a.lease_no
WHERE ${isLive} AND ${isIn} AND ${isOpen}`,
    },
  }
}
