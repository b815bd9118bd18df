import type {
  BlockAgainRequest,
  DependencyStore,
  Fence,
  JobState,
  LockDependency,
  TakenFence,
  TendRequest,
} from '../../../jobs/index.ts'
import { columns } from '../columns.ts'
import { readAll } from '../operations.ts'
import { count, last, many, type Operation, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { endLockBlock } from './blocks.ts'
import { lockIdle, lockWaiting, readStates, setState } from './job-states.ts'

/** The lock that a job acquires before each attempt: the requested lock and its last grant. */
interface StoredLock extends Fence {
  readonly jobId: string
  readonly operation: string
  readonly resource: string
  readonly takenFence: number | null
}

const stored = columns<StoredLock>({
  ...{ jobId: 'text', operation: 'text', resource: 'text', askNo: 'integer', fence: 'integer | null' },
  takenFence: 'integer | null',
})

function toFence(row: unknown): Fence & { readonly jobId: string } {
  const { jobId, askNo, fence } = stored.decode(row)
  return { jobId, askNo, fence }
}

function isTaken({ fence, takenFence }: StoredLock): boolean {
  return fence !== null && fence === takenFence
}

const selectUntended = statement(
  'job_locks_untended',
  { namespace: 'text', limit: 'integer' },
  (d) => `
SELECT ${stored.names} FROM @job_lock ${d.byIndex('job_lock_tended')}
WHERE namespace = :namespace AND is_called = TRUE AND tended_until <= ${d.now}
ORDER BY tended_until, job_id LIMIT :limit ${d.skipLocked}`,
)

const selectCalled = statement(
  'job_locks_called',
  { namespace: 'text', ids: 'text[]', limit: 'integer' },
  (d) => `
SELECT ${stored.names} ${d.byKeys({
    ...{ from: '@job_lock', alias: 'k', key: 'k.job_id', keys: ':ids' },
    where: 'k.namespace = :namespace AND k.is_called = TRUE',
  })} ORDER BY k.job_id LIMIT :limit ${d.forUpdate}`,
)

const setTended = statement(
  'job_locks_tend',
  { namespace: 'text', ids: 'text[]', tendMs: 'integer' },
  (d) => `
UPDATE @job_lock SET tended_until = ${d.now} + :tendMs WHERE namespace = :namespace AND job_id IN (:ids)`,
)

type TendedLock = Omit<LockDependency, 'state'> & { readonly state: JobState | null }

export const tendLocks: Operation<readonly [namespace: string, request: TendRequest], readonly TendedLock[]> =
  operation({
    name: 'tend jobs with locks',
    connectionGroup: 'waiting',
    *procedure(namespace: string, { limit, tendMs, of }: TendRequest) {
      const rows = yield* many(
        of === undefined
          ? selectUntended({ namespace, limit })
          : selectCalled({ namespace, ids: [...new Set(of)].sort(), limit }),
      )
      if (rows.length === 0) return []
      const locks = rows.map(stored.decode)
      const ids = locks.map(({ jobId }) => jobId)
      yield* last(run(setTended({ namespace, ids: ids.toSorted(), tendMs })))
      const jobs = yield* readStates(namespace, ids)
      return locks.map(
        ({ takenFence, ...lock }): TendedLock => ({
          ...lock,
          isTaken: isTaken({ ...lock, takenFence }),
          state: jobs.get(lock.jobId)?.state ?? null,
          dueInMs: jobs.get(lock.jobId)?.dueInMs ?? 0,
        }),
      )
    },
    upkeep: {
      *isNeeded(namespace: string, { of }: TendRequest) {
        return of !== undefined || (yield* many(selectUntended({ namespace, limit: 1 }))).length > 0
      },
      otherwise: [],
    },
  })

const lockOne = statement(
  'job_locks_lock',
  { namespace: 'text', id: 'text', askNo: 'integer' },
  (d) => `
SELECT ${stored.names}, is_called FROM @job_lock WHERE namespace = :namespace AND job_id = :id AND ask_no = :askNo ${d.forUpdate}`,
)

const setFence = statement(
  'job_locks_grant',
  { namespace: 'text', id: 'text', fence: 'integer' },
  () => `UPDATE @job_lock SET fence = :fence WHERE namespace = :namespace AND job_id = :id`,
)

const setReadyWhenDue = statement(
  'job_locks_unblock',
  { namespace: 'text', id: 'text' },
  (d) => `
UPDATE @job_queue SET state = CASE WHEN run_at <= ${d.now} THEN 'ready' ELSE 'scheduled' END, updated_at = ${d.now}
WHERE namespace = :namespace AND id = :id AND state = 'waiting'`,
)

export const grantLock: Operation<
  readonly [namespace: string, request: Parameters<DependencyStore['grant']>[0]],
  string | null
> = operation({
  name: 'grant a lock to a job',
  connectionGroup: 'waiting',
  *procedure(namespace: string, { jobId, askNo, fence }: Parameters<DependencyStore['grant']>[0]) {
    const [jobs, locks] = yield* run(
      lockWaiting({ namespace, ids: [jobId] }),
      lockOne({ namespace, id: jobId, askNo }),
    )
    const [job] = jobs!.rows as { queue: string }[]
    const [lock] = locks!.rows as { is_called: boolean | number }[]
    if (job === undefined || !lock?.is_called) return null
    yield* last(
      run(
        ...endLockBlock(namespace, jobId, askNo),
        setFence({ namespace, id: jobId, fence }),
        setReadyWhenDue({ namespace, id: jobId }),
      ),
    )
    return job.queue
  },
})

const setBlocked = statement(
  'job_locks_block',
  { namespace: 'text', id: 'text' },
  () => `
UPDATE @job_lock SET fence = NULL, ask_no = ask_no + 1, is_called = TRUE, tended_until = 0
WHERE namespace = :namespace AND job_id = :id`,
)

export const blockAgain: Operation<readonly [namespace: string, request: BlockAgainRequest], boolean> =
  operation({
    name: 'block a job again',
    connectionGroup: 'waiting',
    *procedure(namespace: string, { jobId, askNo, fence }: BlockAgainRequest) {
      const [jobs, locks] = yield* run(
        lockIdle({ namespace, id: jobId }),
        lockOne({ namespace, id: jobId, askNo }),
      )
      const [lock] = locks!.rows
      if (lock === undefined) return false
      if (fence !== undefined && toFence(lock).fence !== fence) return false
      yield* last(
        run(
          setBlocked({ namespace, id: jobId }),
          // A running job continues. Do not touch its row: a user's transaction may lock it for a long time.
          ...(jobs!.rows.length === 0
            ? []
            : [setState({ namespace, rows: [{ id: jobId }], state: 'waiting' })]),
        ),
      )
      return true
    },
  })

const selectLocks = statement(
  'job_locks_read',
  { namespace: 'text', ids: 'text[]' },
  () => `SELECT ${stored.names} FROM @job_lock WHERE namespace = :namespace AND job_id IN (:ids)`,
)

export const readFences: Operation<
  readonly [namespace: string, ids: readonly string[]],
  readonly (Fence & { readonly jobId: string })[]
> = readAll(
  'look up locks of jobs',
  (namespace: string, ids: readonly string[]) => selectLocks({ namespace, ids }),
  toFence,
)

const lockAll = statement(
  'job_locks_lock_all',
  { namespace: 'text', ids: 'text[]' },
  (d) => `
SELECT ${stored.names} FROM @job_lock ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace AND job_id IN (:ids) ORDER BY job_id ${d.forUpdate}`,
)

const setTaken = statement(
  'job_locks_take',
  { namespace: 'text', ids: 'text[]' },
  () => `
UPDATE @job_lock SET taken_fence = fence WHERE namespace = :namespace AND job_id IN (:ids) AND fence IS NOT NULL`,
)

export const takeFences: Operation<
  readonly [namespace: string, ids: readonly string[]],
  readonly (TakenFence & { readonly jobId: string })[]
> = operation({
  name: 'take locks of jobs',
  connectionGroup: 'waiting',
  *procedure(namespace: string, given: readonly string[]) {
    const ids = given.toSorted()
    const [locks] = yield* last(run(lockAll({ namespace, ids }), setTaken({ namespace, ids })))
    return locks!.rows.map((row) => ({ ...toFence(row), isTaken: isTaken(stored.decode(row)) }))
  },
})

const setResting = statement(
  'job_locks_rest',
  { namespace: 'text', ids: 'text[]' },
  () => `
UPDATE @job_lock SET fence = NULL, ask_no = ask_no + 1, is_called = FALSE
WHERE namespace = :namespace AND job_id IN (:ids)`,
)

export const restLocks: Operation<readonly [namespace: string, ids: readonly string[]], void> = operation({
  name: 'put locks of ended jobs to rest',
  connectionGroup: 'waiting',
  *procedure(namespace: string, ids: readonly string[]) {
    const jobs = yield* readStates(namespace, ids)
    const ended = ids.filter((id) => ends.has(jobs.get(id)?.state ?? ''))
    if (ended.length > 0) yield* last(count(setResting({ namespace, ids: ended.toSorted() })))
  },
})

const ends: ReadonlySet<string> = new Set<JobState>(['completed', 'dead', 'cancelled'])
