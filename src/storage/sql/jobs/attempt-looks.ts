import type { AttemptOutcome, LeaseRef } from '../../../jobs/index.ts'
import { decodeToken } from '../../token.ts'
import { columns } from '../columns.ts'
import type { Dialect } from '../dialect.ts'
import { many, type Operation, operation } from '../procedure.ts'
import { statement } from '../statement.ts'

/**
 * What became of attempts, from committed rows. `settled_tokens` keeps the tokens of attempts that were settled and
 * whose job is ready or running again. A job in the history has the lease of its settled attempt; a lease that was taken
 * back has no nonce.
 */
interface LeaseState {
  readonly id: string
  readonly leaseNo: number
  readonly leaseNonce: string | null
  readonly settledTokens: string | null
  readonly isLive: boolean
  readonly isEnded: boolean
}

const stored = columns<LeaseState>({
  ...{ id: 'text', leaseNo: 'integer', leaseNonce: 'text | null', settledTokens: 'text | null' },
  ...{ isLive: 'boolean', isEnded: 'boolean' },
})

const ofJobs = { namespace: 'text', ids: 'text[]' } as const

const isLive = (d: Dialect) => `q.state = 'running' AND q.lease_ends_at > ${d.now}`

const selectLeases = statement('job_leases', ofJobs, (d) => {
  const rows = (alias: string, from: string, flags: string) => `
SELECT ${alias}.id, ${alias}.lease_no, ${alias}.lease_nonce, ${alias}.settled_tokens, ${flags}
${d.byKeys({ from, alias, where: `${alias}.namespace = :namespace`, key: `${alias}.id`, keys: ':ids' })}`
  const live = rows('q', '@job_queue', `${isLive(d)} AS is_live, FALSE AS is_ended`)
  return `${live}\nUNION ALL ${rows('h', '@job_history', 'FALSE, TRUE')}`
})

type LookOf<Answer> = Operation<readonly [namespace: string, leases: readonly LeaseRef[]], readonly Answer[]>

export const findOutcomes: LookOf<AttemptOutcome> = operation({
  name: 'look up attempts',
  isRead: true,
  *procedure(namespace: string, leases: readonly LeaseRef[]) {
    if (leases.length === 0) return []
    const rows = (yield* many(selectLeases({ namespace, ids: idsOf(leases) }))).map(stored.decode)
    const byId = new Map(rows.map((row) => [row.id, row]))
    return leases.map(({ jobId, token }) => outcomeOf(byId.get(jobId), token))
  },
})

function outcomeOf(row: LeaseState | undefined, token: string): AttemptOutcome {
  if (row === undefined || decodeToken(token) === undefined) return 'lost'
  if (row.settledTokens?.split(' ').includes(token)) return 'settled'
  if (token !== tokenOf(row)) return 'lost'
  if (row.isEnded) return 'settled'
  return row.isLive ? 'held' : 'lost'
}

function tokenOf({ leaseNo, leaseNonce }: Pick<LeaseState, 'leaseNo' | 'leaseNonce'>): string {
  return `${leaseNo}.${leaseNonce}`
}

const requested = columns<Pick<LeaseState, 'id' | 'leaseNo' | 'leaseNonce'>>({
  ...{ id: 'text', leaseNo: 'integer', leaseNonce: 'text | null' },
})

const selectRequested = statement(
  'job_cancel_requests',
  ofJobs,
  (d) => `
SELECT ${requested.of('q')} ${d.byKeys({
    ...{ from: '@job_cancel', alias: 'c', where: 'c.namespace = :namespace', key: 'c.job_id', keys: ':ids' },
    join: d.thenJoin(
      '@job_queue',
      'q',
      `q.namespace = :namespace AND q.id = c.job_id AND ${d.jobs.isRequested}`,
    ),
  })} AND ${isLive(d)}`,
)

/** The jobs of those running attempts that have a cancellation request. */
export const findCancelRequests: LookOf<string> = operation({
  name: 'look up cancellations',
  isRead: true,
  *procedure(namespace: string, leases: readonly LeaseRef[]) {
    if (leases.length === 0) return []
    const asked = new Set(leases.map(({ jobId, token }) => `${jobId} ${token}`))
    const rows = (yield* many(selectRequested({ namespace, ids: idsOf(leases) }))).map(requested.decode)
    return rows.filter((row) => asked.has(`${row.id} ${tokenOf(row)}`)).map(({ id }) => id)
  },
})

function idsOf(leases: readonly LeaseRef[]): readonly string[] {
  return [...new Set(leases.map(({ jobId }) => jobId))].sort()
}
