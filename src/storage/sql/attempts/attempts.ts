import type { AttemptStore, CountedAttempt, GroupQuery } from '../../../jobs/index.ts'
import type { Database } from '../database.ts'
import { count, last, many, one, operation, type Procedure, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import {
  type AttemptRow,
  decodeAttempt,
  decodeGroup,
  type GroupRow,
  gatherGroups,
  joinLists,
  keptAttempts,
} from './attempt-row.ts'

/**
 * Attempts that failed or were lost, and groups of their errors. The rows are written by the engines, with the verdict. A group
 * is written here alone: its row is locked for as long as one batch is counted, and no verdict waits for it.
 */
export function createAttemptStore(database: Database, namespace: string): AttemptStore {
  return {
    list: (jobId) => database.run(listAttempts, [namespace, jobId]),
    uncounted: (limit) => database.run(listUncounted, [namespace, limit]),
    count: async (attempts) =>
      attempts.length === 0 ? [] : database.run(countAttempts, [namespace, attempts]),
    groups: (query) => database.run(listGroups, [namespace, query]),
    group: async (fingerprint) => (await database.run(findGroup, [namespace, fingerprint])) ?? undefined,
    prune: (request) => database.run(pruneGroups, [namespace, request]),
  }
}

const columns = (quote: (name: string) => string) =>
  `job_id, number, attempt, queue, kind, outcome, worker_id, ${quote('release')}, started_at, ended_at, error`

const selectAttempts = statement(
  'attempts_of',
  { namespace: 'text', jobId: 'text', limit: 'integer' },
  (d) => `
SELECT ${columns(d.quote)} FROM @job_attempt WHERE namespace = :namespace AND job_id = :jobId
ORDER BY number DESC LIMIT :limit`,
)

const listAttempts = operation({
  name: 'list attempts of a job',
  isRead: true,
  *procedure(namespace: string, jobId: string) {
    const rows = yield* many<AttemptRow>(selectAttempts({ namespace, jobId, limit: keptAttempts }))
    return rows.map(decodeAttempt).reverse()
  },
})

const selectUncounted = statement(
  'attempts_uncounted',
  { namespace: 'text', limit: 'integer' },
  (d) => `
SELECT ${columns(d.quote)}, CASE WHEN outcome = 'lost' AND EXISTS (
    SELECT 1 FROM @job_history h WHERE h.namespace = :namespace AND h.id = a.job_id AND h.state = 'dead' AND h.lease_no = a.number
  ) THEN 1 ELSE 0 END AS is_unseen_end
FROM @job_attempt a ${d.byIndex('job_attempt_uncounted')}
WHERE namespace = :namespace AND fingerprint IS NULL ORDER BY job_id, number LIMIT :limit`,
)

interface UncountedRow extends AttemptRow {
  readonly is_unseen_end: number | string
}

const listUncounted = operation({
  name: 'list attempts to count',
  isRead: true,
  *procedure(namespace: string, limit: number) {
    const rows = yield* many<UncountedRow>(selectUncounted({ namespace, limit }))
    return rows.map((row) => ({ ...decodeAttempt(row), isUnseenEnd: Number(row.is_unseen_end) === 1 }))
  },
})

const lockUncounted = statement(
  'attempts_lock_uncounted',
  { namespace: 'text', jobIds: 'text[]' },
  (d) => `
SELECT a.job_id, a.number ${d.byKeys({
    ...{ from: '@job_attempt', alias: 'a', key: 'a.job_id', keys: ':jobIds' },
    where: 'a.namespace = :namespace AND a.fingerprint IS NULL',
  })} ORDER BY a.job_id, a.number ${d.skipLocked}`,
)

const addToGroups = statement(
  'error_groups_add',
  {
    namespace: 'text',
    rows: {
      ...{ fingerprint: 'text', kind: 'text', attempt_count: 'integer' },
      ...{ first_seen_at: 'integer', last_seen_at: 'integer' },
      ...{ releases: 'text', sample_jobs: 'text', error: 'text' },
    },
  },
  (d) => `${d.upsert({
    into: '@job_error_group',
    columns: `namespace, fingerprint, kind, attempt_count, first_seen_at, last_seen_at, releases, sample_jobs, error`,
    source: `SELECT :namespace, v.fingerprint, v.kind, v.attempt_count, v.first_seen_at, v.last_seen_at, v.releases,
  v.sample_jobs, v.error FROM :rows WHERE 1 = 1`,
    key: 'namespace, fingerprint',
    set: {
      attempt_count: 'old.attempt_count + new.attempt_count',
      first_seen_at: `CASE WHEN new.first_seen_at < old.first_seen_at THEN new.first_seen_at ELSE old.first_seen_at END`,
      last_seen_at: d.greatest('old.last_seen_at', 'new.last_seen_at'),
      error: 'new.error',
    },
  })}
RETURNING fingerprint, releases, sample_jobs`,
)

const setLists = statement(
  'error_groups_lists',
  { namespace: 'text', rows: { fingerprint: 'text', releases: 'text', sample_jobs: 'text' } },
  (d) =>
    d.updateByRows(
      '@job_error_group',
      { releases: 'v.releases', sample_jobs: 'v.sample_jobs' },
      't.namespace = :namespace AND t.fingerprint = v.fingerprint',
    ),
)

const attemptRows = { job_id: 'text', number: 'integer' } as const
const isAttempt = 't.namespace = :namespace AND t.job_id = v.job_id AND t.number = v.number'

const setCounted = statement(
  'attempts_counted',
  { namespace: 'text', rows: { ...attemptRows, fingerprint: 'text' } },
  (d) => d.updateByRows('@job_attempt', { fingerprint: 'v.fingerprint' }, isAttempt),
)

const selectBound = statement(
  'attempts_bound',
  { namespace: 'text', jobId: 'text' },
  () => `
SELECT job_id, number FROM @job_attempt WHERE namespace = :namespace AND job_id = :jobId
ORDER BY number DESC LIMIT 1 OFFSET ${keptAttempts}`,
)

const deleteOld = statement('attempts_delete_old', { namespace: 'text', rows: attemptRows }, (d) =>
  d.deleteByRows(
    '@job_attempt',
    't.namespace = :namespace AND t.job_id = v.job_id AND t.number <= v.number AND t.fingerprint IS NOT NULL',
  ),
)

interface AttemptKey {
  readonly job_id: string
  readonly number: number | string
}

const countAttempts = operation({
  name: 'count attempts in their groups',
  lane: 'waiting',
  *procedure(namespace: string, attempts: readonly CountedAttempt[]) {
    const jobIds = [...new Set(attempts.map(({ jobId }) => jobId))].sort()
    const locked = yield* many<AttemptKey>(lockUncounted({ namespace, jobIds }))
    const free = new Set(locked.map(keyOf))
    const own = attempts.filter(({ jobId, number }) => free.has(keyOf({ job_id: jobId, number })))
    if (own.length === 0) return []
    const groups = gatherGroups(own)
    const counted = setCounted({
      namespace,
      rows: own.map(({ jobId, number, fingerprint }) => ({ job_id: jobId, number, fingerprint })),
    })
    if (groups.length === 0) yield* run(counted)
    else {
      const rows = groups.map((group) => ({
        ...{ fingerprint: group.fingerprint, kind: group.kind, attempt_count: group.attemptCount },
        ...{ first_seen_at: group.firstSeenAt, last_seen_at: group.lastSeenAt, error: group.error },
        ...{ releases: JSON.stringify(group.releases), sample_jobs: JSON.stringify(group.sampleJobs) },
      }))
      const kept = yield* many<GroupRow>(addToGroups({ namespace, rows }))
      const added = new Map(groups.map((group) => [group.fingerprint, group]))
      const lists = kept.map((row) => ({
        fingerprint: row.fingerprint,
        ...joinLists(row, added.get(row.fingerprint)!),
      }))
      yield* run(setLists({ namespace, rows: lists }), counted)
    }
    yield* keepLast(namespace, own)
    return own
  },
})

function keyOf({ job_id: jobId, number }: AttemptKey): string {
  return `${jobId} ${number}`
}

/** Deletes the oldest attempts of jobs that have too many. Few jobs were claimed that often. */
function* keepLast(namespace: string, attempts: readonly CountedAttempt[]): Procedure<void> {
  const often = attempts.filter(({ number }) => number > keptAttempts).map(({ jobId }) => jobId)
  const bounds: AttemptKey[] = []
  for (const jobId of new Set(often)) {
    const bound = yield* one<AttemptKey>(selectBound({ namespace, jobId }))
    if (bound !== undefined) bounds.push(bound)
  }
  if (bounds.length === 0) return
  yield* count(
    deleteOld({ namespace, rows: bounds.map((row) => ({ job_id: row.job_id, number: Number(row.number) })) }),
  )
}

const groupColumns = `fingerprint, kind, attempt_count, first_seen_at, last_seen_at, releases, sample_jobs, error`

const selectGroups = statement(
  'error_groups_list',
  { namespace: 'text', 'kind?': 'text', 'lastSeenAt?': 'integer', 'fingerprint?': 'text', limit: 'integer' },
  (d) => `
SELECT ${groupColumns} FROM @job_error_group ${d.byIndex('job_error_group_seen')}
WHERE namespace = :namespace {AND kind = :kind} {AND last_seen_at <= :lastSeenAt}
  {AND (last_seen_at < :lastSeenAt OR fingerprint < :fingerprint)}
ORDER BY last_seen_at DESC, fingerprint DESC LIMIT :limit`,
)

const listGroups = operation({
  name: 'list groups of errors',
  isRead: true,
  *procedure(namespace: string, { kind, limit, before }: GroupQuery) {
    const { lastSeenAt, fingerprint } = before ?? {}
    const rows = yield* many<GroupRow>(selectGroups({ namespace, kind, limit, lastSeenAt, fingerprint }))
    return rows.map(decodeGroup)
  },
})

const selectGroup = statement(
  'error_group_find',
  { namespace: 'text', fingerprint: 'text' },
  () => `
SELECT ${groupColumns} FROM @job_error_group WHERE namespace = :namespace AND fingerprint = :fingerprint`,
)

const findGroup = operation({
  name: 'find a group of errors',
  isRead: true,
  *procedure(namespace: string, fingerprint: string) {
    const row = yield* one<GroupRow>(selectGroup({ namespace, fingerprint }))
    return row === undefined ? null : decodeGroup(row)
  },
})

const selectOldGroup = statement(
  'error_groups_old',
  { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
  (d) => `
SELECT fingerprint FROM @job_error_group ${d.byIndex('job_error_group_seen')}
WHERE namespace = :namespace AND last_seen_at < ${d.now} - :olderThanMs ORDER BY last_seen_at, fingerprint LIMIT :limit`,
)

const deleteGroups = statement(
  'error_groups_prune',
  { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
  (d) =>
    d.deleteFirst({
      ...{ from: '@job_error_group', key: 'namespace, fingerprint', limit: ':limit' },
      orderBy: 'last_seen_at, fingerprint',
      where: `namespace = :namespace AND last_seen_at < ${d.now} - :olderThanMs`,
    }),
)

interface Age {
  readonly olderThanMs: number
  readonly limit: number
}

const pruneGroups = operation({
  name: 'prune groups of errors',
  *procedure(namespace: string, { olderThanMs, limit }: Age) {
    return yield* last(count(deleteGroups({ namespace, olderThanMs, limit })))
  },
  upkeep: {
    *isNeeded(namespace: string, { olderThanMs }: Age) {
      return (yield* one(selectOldGroup({ namespace, olderThanMs, limit: 1 }))) !== undefined
    },
    otherwise: 0,
  },
})

const deleteAttempts = statement('attempts_delete_of', { namespace: 'text', rows: { job_id: 'text' } }, (d) =>
  d.deleteByRows('@job_attempt', 't.namespace = :namespace AND t.job_id = v.job_id'),
)

/** The jobs are removed, and with them their attempts. In the caller's transaction. */
export function* forgetAttempts(namespace: string, jobIds: readonly string[]): Procedure<void> {
  const rows = jobIds.map((jobId) => ({ job_id: jobId }))
  if (rows.length > 0) yield* run(deleteAttempts({ namespace, rows }))
}
