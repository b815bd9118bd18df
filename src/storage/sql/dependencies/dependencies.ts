import type {
  Dependency,
  DependencyQuery,
  DependencyStore,
  JobState,
  JobStore,
  Unblocked,
} from '../../../jobs/index.ts'
import { columns } from '../columns.ts'
import type { Database } from '../database.ts'
import { endIdle } from '../jobs/cancel.ts'
import { readAll, readNamespaces } from '../operations.ts'
import { last, many, type Operation, one, operation, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { endBlocks, listBlocks } from './blocks.ts'
import { blockAgain, grantLock, readFences, restLocks, takeFences, tendLocks } from './job-locks.ts'
import { lockWaiting, readStates, selectStates, setState } from './job-states.ts'

export interface DependencyStoreOptions {
  readonly database: Database
  readonly namespace: string
  readonly jobs: Pick<JobStore, 'reclaim'>
  /** Called after more jobs became ready to claim. */
  onReady(): void
}

/**
 * The dependencies of one namespace. Transactions lock rows in one order: the job, then its dependencies and its lock.
 * So if two calls meet different dependencies of a job, the second sees what the first wrote, and one of them unblocks
 * the job.
 */
export function createDependencyStore({
  database,
  namespace,
  jobs,
  onReady,
}: DependencyStoreOptions): DependencyStore {
  /** The job after which the next `prune` begins. */
  let prunedTo = ''
  return {
    async states(ids) {
      const states = await database.run(listStates, [namespace, ids])
      return states.map((state) => state ?? undefined)
    },
    seenIn: (tx, ids) => database.run(seeJobs, [namespace, ids], { tx }),
    unmet: (query) => database.run(listUnmet, [namespace, query]),
    async meet(dependencies) {
      if (dependencies.length === 0) return []
      const unblocked = await database.run(meetDependencies, [namespace, dependencies])
      if (unblocked.some(({ to }) => to !== 'lock')) onReady()
      return unblocked
    },
    fail: async (ends) => (ends.length === 0 ? [] : database.run(failJobs, [namespace, ends])),
    async around(id, limit) {
      const { dependencies, dependents } = await database.run(listNeighbours, [namespace, id, limit])
      const show = ({ state, ...row }: NeighbourSeen) => ({ ...row, state: state ?? undefined })
      return { dependencies: dependencies.map(show), dependents: dependents.map(show) }
    },
    blocks: (id) => database.run(listBlocks, [namespace, id]),
    async tend(request) {
      if (request.limit < 1 || request.of?.length === 0) return []
      const locks = await database.run(tendLocks, [namespace, request])
      return locks.map(({ state, ...lock }) => ({ ...lock, state: state ?? undefined }))
    },
    hasBlocked: () => database.run(hasBlocked, [namespace]),
    async grant(request) {
      const queue = await database.run(grantLock, [namespace, request])
      if (queue !== null) onReady()
      return queue ?? undefined
    },
    async blockAgain(request) {
      // The row of a job with an expired lease still says `running`. The reclaim makes it ready, so that it can be
      // blocked.
      await jobs.reclaim(manyJobs)
      return database.run(blockAgain, [namespace, request])
    },
    fences: async (ids) =>
      byId(ids, ids.length === 0 ? [] : await database.run(readFences, [namespace, ids])),
    take: async (ids) => byId(ids, ids.length === 0 ? [] : await database.run(takeFences, [namespace, ids])),
    rest: async (ids) => (ids.length === 0 ? undefined : database.run(restLocks, [namespace, ids])),
    async prune(limit) {
      const { gone, next } = await database.run(listGone, [namespace, prunedTo])
      const count = gone.length === 0 ? 0 : await database.run(pruneGone, [namespace, gone, limit])
      if (count < limit) prunedTo = next
      return count
    },
  }
}

const manyJobs = 100_000

function byId<Row extends { readonly jobId: string }>(
  ids: readonly string[],
  rows: readonly Row[],
): (Omit<Row, 'jobId'> | undefined)[] {
  const found = new Map(rows.map(({ jobId, ...row }) => [jobId, row]))
  return ids.map((id) => found.get(id))
}

const listStates = operation({
  name: 'look up jobs',
  isRead: true,
  *procedure(namespace: string, ids: readonly string[]) {
    const states = yield* readStates(namespace, ids)
    return ids.map((id): JobState | null => states.get(id)?.state ?? null)
  },
})

const seeJobs = readAll(
  'look up jobs in a transaction',
  (namespace: string, ids: readonly string[]) => selectStates({ namespace, ids }),
  (row: { readonly id: string }) => row.id,
)

const selectUnmet = statement(
  'dependency_unmet',
  { namespace: 'text', jobId: 'text', dependencyId: 'text', limit: 'integer' },
  (d) => `
SELECT job_id, dependency_id FROM @job_dependency ${d.byIndex('job_dependency_unmet')}
WHERE namespace = :namespace AND is_met = FALSE
  AND job_id >= :jobId AND (job_id > :jobId OR dependency_id > :dependencyId)
ORDER BY job_id, dependency_id LIMIT :limit`,
)

const selectUnmetOf = statement(
  'dependency_unmet_of',
  { namespace: 'text', ids: 'text[]', limit: 'integer' },
  (d) => `
SELECT job_id, dependency_id FROM @job_dependency ${d.byIndex('job_dependency_dependents')}
WHERE namespace = :namespace AND dependency_id IN (:ids) AND is_met = FALSE ORDER BY job_id, dependency_id LIMIT :limit`,
)

const dependency = columns<Dependency>({ jobId: 'text', dependencyId: 'text' })

const listUnmet = readAll(
  'list unmet dependencies',
  (namespace: string, { of, after, limit }: DependencyQuery) => {
    if (of !== undefined) return selectUnmetOf({ namespace, ids: of, limit })
    const { jobId, dependencyId } = after ?? { jobId: '', dependencyId: '' }
    return selectUnmet({ namespace, jobId, dependencyId, limit })
  },
  dependency.decode,
)

const selectAnyBlocked = statement(
  'dependency_any_blocked',
  { namespace: 'text' },
  (d) => `
SELECT
  (SELECT 1 FROM @job_dependency ${d.byIndex('job_dependency_unmet')} WHERE namespace = :namespace AND is_met = FALSE LIMIT 1) AS unmet,
  (SELECT 1 FROM @job_lock ${d.byIndex('job_lock_tended')} WHERE namespace = :namespace AND is_called = TRUE LIMIT 1) AS called`,
)

const hasBlocked = operation({
  name: 'look for blocked jobs',
  isRead: true,
  *procedure(namespace: string) {
    const row = yield* one<{ unmet: unknown; called: unknown }>(selectAnyBlocked({ namespace }))
    return (row!.unmet ?? row!.called) !== null
  },
})

const setMet = statement(
  'dependency_meet',
  { namespace: 'text', rows: { job_id: 'text', dependency_id: 'text' } },
  (d) =>
    d.updateByRows(
      '@job_dependency',
      { is_met: 'TRUE' },
      `t.namespace = :namespace AND t.job_id = v.job_id AND t.dependency_id = v.dependency_id AND t.is_met = FALSE`,
    ),
)

/** Waiting jobs without unmet dependencies. `is_called` is null for a job that depends on no lock. */
const selectFree = statement(
  'dependency_free',
  { namespace: 'text', ids: 'text[]' },
  (d) => `
SELECT q.id, q.queue, q.run_at <= ${d.now} AS is_due,
  (SELECT k.is_called FROM @job_lock k WHERE k.namespace = q.namespace AND k.job_id = q.id) AS is_called
${d.byKeys({
  ...{ from: '@job_queue', alias: 'q', key: 'q.id', keys: ':ids' },
  where: `q.namespace = :namespace AND q.state = 'waiting'`,
})} AND (
  SELECT 1 FROM @job_dependency n WHERE n.namespace = q.namespace AND n.job_id = q.id AND n.is_met = FALSE LIMIT 1) IS NULL`,
)

interface FreeRow {
  readonly id: string
  readonly queue: string
  readonly is_due: boolean | number
  readonly is_called: boolean | number | null
}

const setCalled = statement(
  'dependency_call',
  { namespace: 'text', ids: 'text[]' },
  () => `UPDATE @job_lock SET is_called = TRUE WHERE namespace = :namespace AND job_id IN (:ids)`,
)

const meetDependencies = operation({
  name: 'unblock jobs',
  connectionGroup: 'waiting',
  *procedure(namespace: string, dependencies: readonly Dependency[]) {
    const rows = dependencies
      .map((dependency) => ({ job_id: dependency.jobId, dependency_id: dependency.dependencyId }))
      .sort((a, b) => compare(a.job_id, b.job_id) || compare(a.dependency_id, b.dependency_id))
    const ids = [...new Set(rows.map((row) => row.job_id))]
    const [, , found] = yield* run(
      lockWaiting({ namespace, ids }),
      setMet({ namespace, rows }),
      selectFree({ namespace, ids }),
    )
    const unblocked = (found!.rows as readonly FreeRow[]).flatMap(toUnblocked)
    const statements: Bound[] = []
    if (unblocked.length > 0) {
      const rows = unblocked.map(({ jobId }) => ({ id: jobId, number: 0, cause: 'dependencies' }))
      statements.push(endBlocks({ namespace, rows }))
    }
    for (const [to, some] of Map.groupBy(unblocked, (job) => job.to)) {
      const free = some.map(({ jobId }) => jobId).sort()
      statements.push(
        to === 'lock'
          ? setCalled({ namespace, ids: free })
          : setState({ namespace, rows: free.map((id) => ({ id })), state: to }),
      )
    }
    yield* last(run(...statements))
    return unblocked
  },
})

/** If the lock of a job was requested already, its grant unblocks the job. */
function toUnblocked({ id, queue, is_due: isDue, is_called: isCalled }: FreeRow): readonly Unblocked[] {
  if (isCalled) return []
  return [{ jobId: id, queue, to: isCalled === null ? (isDue ? 'ready' : 'scheduled') : 'lock' }]
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

const setAllMet = statement(
  'dependency_meet_all',
  { namespace: 'text', ids: 'text[]' },
  () => `
UPDATE @job_dependency SET is_met = TRUE WHERE namespace = :namespace AND job_id IN (:ids) AND is_met = FALSE`,
)

const failJobs = operation({
  name: 'cancel blocked jobs',
  connectionGroup: 'waiting',
  *procedure(namespace: string, ends: readonly { readonly jobId: string; readonly error: string }[]) {
    const errors = new Map(ends.map(({ jobId, error }) => [jobId, error]))
    const waiting = yield* many<{ id: string }>(lockWaiting({ namespace, ids: [...errors.keys()].sort() }))
    const ids = waiting.map(({ id }) => id)
    if (ids.length === 0) return []
    yield* last(
      run(
        ...endIdle(
          namespace,
          ids.map((id) => ({ id, error: errors.get(id)! })),
        ),
        setAllMet({ namespace, ids }),
      ),
    )
    return ids
  },
})

const neighbours = (name: string, of: string, other: string) =>
  statement(
    name,
    { namespace: 'text', id: 'text', limit: 'integer' },
    () => `
SELECT ${other} AS id, is_met FROM @job_dependency WHERE namespace = :namespace AND ${of} = :id ORDER BY ${other} LIMIT :limit`,
  )

const selectDependencies = neighbours('dependency_of_job', 'job_id', 'dependency_id')
const selectDependents = neighbours('dependency_dependents', 'dependency_id', 'job_id')

interface NeighbourSeen {
  readonly id: string
  readonly isMet: boolean
  readonly state: JobState | null
}

const listNeighbours = operation({
  name: 'list dependencies of a job',
  isRead: true,
  *procedure(namespace: string, id: string, limit: number) {
    const sides = yield* run(
      selectDependencies({ namespace, id, limit }),
      selectDependents({ namespace, id, limit }),
    )
    const rows = sides.map((side) => side.rows as readonly { id: string; is_met: boolean | number }[])
    const states = yield* readStates(namespace, [...new Set(rows.flat().map((row) => row.id))])
    const [dependencies, dependents] = rows.map((side) =>
      side.map(
        (row): NeighbourSeen => ({
          ...{ id: row.id, isMet: Boolean(row.is_met) },
          state: states.get(row.id)?.state ?? null,
        }),
      ),
    )
    return { dependencies: dependencies!, dependents: dependents! }
  },
})

/** The number of rows that one `prune` checks. */
const prunePage = 2_000

const selectOwners = statement(
  'dependency_owners',
  { namespace: 'text', after: 'text', limit: 'integer' },
  (d) =>
    d.firstOfAll(
      ['@job_dependency', '@job_lock'].map(
        (table) => `SELECT job_id FROM ${table} WHERE namespace = :namespace AND job_id > :after`,
      ),
      'job_id',
      ':limit',
    ),
)

const listGone = operation({
  name: 'list dependencies of jobs that are gone',
  isRead: true,
  *procedure(namespace: string, after: string) {
    const rows = yield* many<{ job_id: string }>(selectOwners({ namespace, after, limit: prunePage }))
    const ids = [...new Set(rows.map((row) => row.job_id))]
    const states = yield* readStates(namespace, ids)
    return {
      gone: ids.filter((id) => !states.has(id)),
      next: rows.length < prunePage ? '' : rows.at(-1)!.job_id,
    }
  },
})

const pruneFrom = (name: string, from: string, key: string) =>
  statement(name, { namespace: 'text', ids: 'text[]', limit: 'integer' }, (d) =>
    d.deleteFirst({
      ...{ from, key: `namespace, ${key}`, orderBy: key, limit: ':limit' },
      where: 'namespace = :namespace AND job_id IN (:ids)',
    }),
  )

const pruneDependencies = pruneFrom('dependency_prune', '@job_dependency', 'job_id, dependency_id')
const pruneLocks = pruneFrom('dependency_prune_locks', '@job_lock', 'job_id')

const pruneGone = operation({
  name: 'remove dependencies of jobs that are gone',
  *procedure(namespace: string, ids: readonly string[], limit: number) {
    // First, because the blocks are found through the rows that are deleted below.
    yield* run(removeBlocks({ namespace, ids }))
    const [dependencies] = yield* run(pruneDependencies({ namespace, ids, limit }))
    const left = limit - dependencies!.rowCount
    if (left <= 0) return limit
    const [locks] = yield* last(run(pruneLocks({ namespace, ids, limit: left })))
    return dependencies!.rowCount + locks!.rowCount
  },
})

const removeBlocks = statement(
  'dependency_remove_blocks',
  { namespace: 'text', ids: 'text[]' },
  () => 'DELETE FROM @job_block WHERE namespace = :namespace AND job_id IN (:ids)',
)

/** Reads one row for each namespace with an index, however many rows the namespaces have. */
const leaps = (name: string, table: string, where: string) => `${name} (namespace) AS (
  SELECT min(namespace) FROM ${table} WHERE ${where}
  UNION ALL
  SELECT (SELECT min(t.namespace) FROM ${table} t WHERE t.${where} AND t.namespace > ${name}.namespace)
  FROM ${name} WHERE ${name}.namespace IS NOT NULL)`

const selectNamespaces = statement(
  'dependency_namespaces',
  { limit: 'integer' },
  () => `
WITH RECURSIVE ${leaps('dependent', '@job_dependency', 'is_met = FALSE')},
${leaps('locked', '@job_lock', 'is_called = TRUE')}
SELECT namespace FROM (SELECT namespace FROM dependent UNION SELECT namespace FROM locked) blocked
WHERE namespace IS NOT NULL ORDER BY namespace LIMIT :limit`,
)

/** Lists the namespaces with blocked jobs, by name. */
export const listBlockedNamespaces: Operation<readonly [limit: number], readonly string[]> = readNamespaces(
  'list namespaces with blocked jobs',
  selectNamespaces,
)
