import type { AttemptStore, CountedAttempt, GroupQuery } from '../../../jobs/index.ts'
import type { Database } from '../database.ts'
import { pruneOld, readAll, readOne } from '../operations.ts'
import { count, many, one, operation, type Procedure, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import {
  gatherGroups,
  joinLists,
  keptAttempts,
  storedAttempt,
  storedGroup,
  storedLists,
} from './attempt-row.ts'

/**
 * Attempts that failed or were lost, and the groups of their errors. The engines write an attempt's row together with
 * its verdict. Only this store writes groups: it locks a group's row while it counts one batch, and no verdict waits
 * for it.
 */
export function createAttemptStore(database: Database, namespace: string): AttemptStore {
  return {
    list: async (jobId) => (await database.run(listAttempts, [namespace, jobId])).toReversed(),
    uncounted: (limit) => database.run(listUncounted, [namespace, limit]),
    count: async (attempts) =>
      attempts.length === 0 ? [] : database.run(countAttempts, [namespace, attempts]),
    groups: (query) => database.run(listGroups, [namespace, query]),
    group: (fingerprint) => database.run(findGroup, [namespace, fingerprint]),
    prune: (request) => database.run(pruneGroups, [namespace, request]),
  }
}

const columns = (quote: (name: string) => string) => storedAttempt.names.replace('release', quote('release'))

const selectAttempts = statement(
  'attempts_of',
  { namespace: 'text', jobId: 'text', limit: 'integer' },
  (d) => `
SELECT ${columns(d.quote)} FROM @job_attempt WHERE namespace = :namespace AND job_id = :jobId
ORDER BY number DESC LIMIT :limit`,
)

const listAttempts = readAll(
  'list attempts of a job',
  (namespace: string, jobId: string) => selectAttempts({ namespace, jobId, limit: keptAttempts }),
  storedAttempt.decode,
)

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

const listUncounted = readAll(
  'list attempts to count',
  (namespace: string, limit: number) => selectUncounted({ namespace, limit }),
  (row: { readonly is_unseen_end: number | string }) => ({
    ...storedAttempt.decode(row),
    isUnseenEnd: Number(row.is_unseen_end) === 1,
  }),
)

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
  { namespace: 'text', rows: storedGroup.types },
  (d) => `${d.upsert({
    into: '@job_error_group',
    columns: `namespace, ${storedGroup.names}`,
    source: `SELECT :namespace, ${storedGroup.of('v')} FROM :rows WHERE 1 = 1`,
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

const setLists = statement('error_groups_lists', { namespace: 'text', rows: storedLists.types }, (d) =>
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
  connectionGroup: 'waiting',
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
      const kept = yield* many(addToGroups({ namespace, rows: groups.map(storedGroup.encode) }))
      const added = new Map(groups.map((group) => [group.fingerprint, group]))
      const lists = kept
        .map(storedLists.decode)
        .map((row) => storedLists.encode(joinLists(row, added.get(row.fingerprint)!)))
      yield* run(setLists({ namespace, rows: lists }), counted)
    }
    yield* keepLast(namespace, own)
    return own
  },
})

function keyOf({ job_id: jobId, number }: AttemptKey): string {
  return `${jobId} ${number}`
}

/** Deletes the oldest attempts of jobs that have too many. Few jobs have that many attempts. */
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

const selectGroups = statement(
  'error_groups_list',
  { namespace: 'text', 'kind?': 'text', 'lastSeenAt?': 'integer', 'fingerprint?': 'text', limit: 'integer' },
  (d) => `
SELECT ${storedGroup.names} FROM @job_error_group ${d.byIndex('job_error_group_seen')}
WHERE namespace = :namespace {AND kind = :kind} {AND last_seen_at <= :lastSeenAt}
  {AND (last_seen_at < :lastSeenAt OR fingerprint < :fingerprint)}
ORDER BY last_seen_at DESC, fingerprint DESC LIMIT :limit`,
)

const listGroups = readAll(
  'list groups of errors',
  (namespace: string, { kind, limit, before }: GroupQuery) => {
    const { lastSeenAt, fingerprint } = before ?? {}
    return selectGroups({ namespace, kind, limit, lastSeenAt, fingerprint })
  },
  storedGroup.decode,
)

const selectGroup = statement(
  'error_group_find',
  { namespace: 'text', fingerprint: 'text' },
  () => `
SELECT ${storedGroup.names} FROM @job_error_group WHERE namespace = :namespace AND fingerprint = :fingerprint`,
)

const findGroup = readOne(
  'find a group of errors',
  (namespace: string, fingerprint: string) => selectGroup({ namespace, fingerprint }),
  storedGroup.decode,
)

const pruneGroups = pruneOld('prune groups of errors', {
  ...{ statements: 'error_groups', table: 'job_error_group', key: 'fingerprint', at: 'last_seen_at' },
  ...{ orderBy: 'last_seen_at, fingerprint', index: 'job_error_group_seen' },
})
