import type {
  NewWorker,
  WantedMode,
  WorkerRecord,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkerStore,
} from '../../fleet/workers/index.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import { pruneOld, readOne } from './operations.ts'
import { last, many, operation, type Result, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * The rows of the workers of one namespace. Two calls renew all workers of a process: the first updates their rows by
 * key, the second reads what operators want of each. A namespace has few workers, so lists and pruning need only the
 * primary key.
 */
export function createWorkerStore(database: Database, namespace: string): WorkerStore {
  return {
    join: (workers, leaseMs) => database.run(joinWorkers, [namespace, workers, leaseMs]),
    async renew(renewals, leaseMs) {
      // Two operations of one statement each. One operation of both would be a transaction of four statements.
      await database.run(renewWorkers, [namespace, renewals, leaseMs])
      return await database.run(readWanted, [namespace, renewals.map(({ id, session }) => ({ id, session }))])
    },
    wanted: (workers) => database.run(readWanted, [namespace, workers]),
    leave: (workers) => database.run(deleteWorkers, [namespace, workers]),
    list: ({ limit, after }) => database.run(listWorkers, [namespace, { limit, after }]),
    find: (id) => database.run(findWorker, [namespace, id]),
    want: (id, wanted, graceMs) => database.run(setWanted, [namespace, { id, wanted, graceMs }]),
    readyKinds: (queue, limit) => database.run(listReadyKinds, [namespace, { queue, limit }]),
    prune: (query) => database.run(pruneWorkers, [namespace, query]),
  }
}

const fields = {
  worker_id: 'text',
  boot: 'text',
  via: 'text',
  host: 'text | null',
  pid: 'integer | null',
  concurrency: 'integer | null',
  release_name: 'text | null',
  version: 'text | null',
  queues: 'text',
  kinds: 'text | null',
  kind_schemas: 'text',
} as const
const state = { mode: 'text', running: 'text', running_count: 'integer | null' } as const

// A worker's own row replaces a row that a server derived from claims. A process that restarts in a container has the
// same pid as the process before, and takes over that process's row at once.
const upsert = statement(
  'worker_join',
  {
    namespace: 'text',
    leaseMs: 'integer',
    rows: { id: 'text', session: 'text', age_ms: 'integer', ...fields, ...state },
  },
  (d) => {
    const plain = [...Object.keys(fields), ...Object.keys(state)]
    // If a program claims from several servers, each server writes the row.
    const isShared = `(old.via = 'http' AND new.via = 'http' AND old.lease_ends_at > new.seen_at)`
    return `${d.upsertWhen({
      into: '@fleet_worker',
      columns: `namespace, id, session, ${plain.join(', ')}, wanted, started_at, seen_at, lease_ends_at`,
      source: `SELECT :namespace, v.id, v.session, ${plain.map((name) => `v.${name}`).join(', ')}, 'run',
        ${d.now} - v.age_ms, ${d.now}, ${d.now} + :leaseMs
      FROM :rows WHERE 1 = 1`,
      key: 'namespace, id',
      mark: 'session',
      when: `(old.session = new.session OR old.lease_ends_at <= new.seen_at
        OR (old.via = 'http' AND new.via <> 'http')
        OR (old.host = new.host AND old.pid = new.pid AND old.boot <> new.boot))`,
      // `wanted`, `wanted_grace_ms` and `started_at` come first: they read the old `via` and the old lease, and MariaDB
      // assigns in this order.
      set: {
        wanted: `CASE WHEN ${isShared} THEN old.wanted ELSE 'run' END`,
        wanted_grace_ms: `CASE WHEN ${isShared} THEN old.wanted_grace_ms ELSE NULL END`,
        started_at: `CASE WHEN ${isShared} THEN old.started_at ELSE new.started_at END`,
        ...Object.fromEntries(plain.map((name) => [name, `new.${name}`])),
        seen_at: 'new.seen_at',
        lease_ends_at: 'new.lease_ends_at',
      },
    })} RETURNING id, session`
  },
)

const joinWorkers = operation({
  name: 'add the rows of workers',
  *procedure(namespace: string, workers: readonly NewWorker[], leaseMs: number) {
    if (workers.length === 0) return []
    // Of two workers with the same id, the first wins.
    const byId = new Map(workers.toReversed().map((worker) => [worker.id, worker]))
    const rows = [...byId.values()].map(encodeWorker)
    const written = yield* last(many<WorkerRef>(upsert({ namespace, leaseMs, rows })))
    const taken = new Map(written.map(({ id, session }) => [id, session]))
    return workers.map(({ id, session }) => taken.get(id) === session)
  },
})

function encodeWorker(worker: NewWorker) {
  const { id, session, workerId, boot, via, host, pid, concurrency, release, version, ageMs } = worker
  return {
    ...{ id, session, worker_id: workerId, boot, via, host, pid, concurrency, version },
    ...{ release_name: release, age_ms: ageMs },
    queues: JSON.stringify(worker.queues),
    kinds: worker.kinds && JSON.stringify(worker.kinds),
    kind_schemas: JSON.stringify(worker.schemas),
    ...encodeState(worker),
  }
}

function encodeState({ mode, running, runningCount }: WorkerRenewal) {
  return { mode, running: JSON.stringify(running), running_count: runningCount }
}

const update = statement(
  'worker_renew',
  { namespace: 'text', leaseMs: 'integer', rows: { id: 'text', session: 'text', ...state } },
  (d) =>
    d.updateByRows(
      '@fleet_worker',
      {
        ...Object.fromEntries(Object.keys(state).map((name) => [name, `v.${name}`])),
        seen_at: d.now,
        lease_ends_at: `${d.now} + :leaseMs`,
      },
      't.namespace = :namespace AND t.id = v.id AND t.session = v.session',
    ),
)

const selectWanted = statement(
  'worker_wanted',
  { namespace: 'text', ids: 'text[]' },
  (d) => `
SELECT w.id, w.session, w.wanted, w.wanted_grace_ms ${d.byKeys({
    from: '@fleet_worker',
    alias: 'w',
    where: 'w.namespace = :namespace',
    key: 'w.id',
    keys: ':ids',
  })}`,
)

const renewWorkers = operation({
  name: 'renew the rows of workers',
  *procedure(namespace: string, renewals: readonly WorkerRenewal[], leaseMs: number) {
    if (renewals.length === 0) return
    const rows = renewals.map((renewal) => ({
      ...{ id: renewal.id, session: renewal.session },
      ...encodeState(renewal),
    }))
    yield* last(run(update({ namespace, leaseMs, rows })))
  },
})

const readWanted = operation({
  name: 'read what is wanted of workers',
  isRead: true,
  *procedure(namespace: string, workers: readonly WorkerRef[]) {
    if (workers.length === 0) return []
    const rows = yield* many(selectWanted({ namespace, ids: idsOf(workers) }))
    return standingsOf(workers, rows)
  },
})

function idsOf(workers: readonly WorkerRef[]): readonly string[] {
  return [...new Set(workers.map(({ id }) => id))]
}

interface Standing extends WorkerRef {
  readonly wanted: WantedMode
  readonly graceMs: number | null
}

const standing = columns<Standing>({
  ...{ id: 'text', session: 'text', wanted: 'text', graceMs: ['integer | null', 'wanted_grace_ms'] },
})

function standingsOf(workers: readonly WorkerRef[], rows: readonly unknown[]): readonly WorkerStanding[] {
  const byId = new Map(rows.map(standing.decode).map((row) => [row.id, row]))
  return workers.map(({ id, session }): WorkerStanding => {
    const row = byId.get(id)
    if (row === undefined) return { status: 'missing' }
    if (row.session !== session) return { status: 'taken' }
    return { status: 'here', wanted: row.wanted, graceMs: row.graceMs }
  })
}

const deleteOwn = statement(
  'worker_leave',
  { namespace: 'text', rows: { id: 'text', session: 'text' } },
  (d) =>
    d.deleteByRows('@fleet_worker', 't.namespace = :namespace AND t.id = v.id AND t.session = v.session'),
)

const deleteWorkers = operation({
  name: 'remove the rows of workers',
  *procedure(namespace: string, workers: readonly WorkerRef[]) {
    if (workers.length === 0) return
    const rows = workers.map(({ id, session }) => ({ id, session }))
    yield* last(run(deleteOwn({ namespace, rows })))
  },
})

/** A worker as its row stores it. Its running jobs have their age at `seenAt`. */
type StoredWorker = Omit<WorkerRecord, 'running' | 'schemas'> & Pick<WorkerRenewal, 'running'>

const stored = columns<StoredWorker>({
  ...{ id: 'text', workerId: 'text', mode: 'text', wanted: 'text', via: 'text', host: 'text | null' },
  ...{ pid: 'integer | null', queues: 'json', kinds: 'json | null', concurrency: 'integer | null' },
  ...{ running: 'json', runningCount: 'integer | null', release: ['text | null', 'release_name'] },
  ...{ version: 'text | null', startedAt: 'integer', seenAt: 'integer', leaseEndsAt: 'integer' },
})

function decodeWorker(row: unknown, schemas: WorkerRecord['schemas'] = {}): WorkerRecord {
  const { running, ...worker } = stored.decode(row)
  const since = ({ id, kind, ms }: StoredWorker['running'][number]) => ({
    id,
    kind,
    since: worker.seenAt - ms,
  })
  return { ...worker, running: running.map(since), schemas }
}

const selectPage = statement(
  'worker_list',
  { namespace: 'text', 'after?': 'text', limit: 'integer' },
  () => `
SELECT ${stored.names} FROM @fleet_worker WHERE namespace = :namespace {AND id > :after} ORDER BY id LIMIT :limit`,
)

const selectNow = statement('worker_now', {}, (d) => `SELECT ${d.now} AS now`)

const listWorkers = operation({
  name: 'list workers',
  isRead: true,
  *procedure(
    namespace: string,
    { limit, after }: { readonly limit: number; readonly after?: string | undefined },
  ) {
    const [found, clock] = yield* run(selectPage({ namespace, after, limit }), selectNow({}))
    return { workers: found!.rows.map((row) => decodeWorker(row)), now: decodeNow(clock!) }
  },
})

const selectOne = statement(
  'worker_find',
  { namespace: 'text', id: 'text' },
  (d) => `
SELECT ${stored.names}, kind_schemas, ${d.now} AS now FROM @fleet_worker WHERE namespace = :namespace AND id = :id`,
)

const clock = columns<{ readonly now: number }>({ now: 'integer' })

const findWorker = readOne(
  'find a worker',
  (namespace: string, id: string) => selectOne({ namespace, id }),
  (row: { readonly kind_schemas: string }) => ({
    worker: decodeWorker(row, JSON.parse(row.kind_schemas)),
    now: decodeNow({ rows: [row] }),
  }),
)

function decodeNow({ rows: [row] }: Pick<Result, 'rows'>): number {
  return clock.decode(row).now
}

const updateWanted = statement(
  'worker_want',
  { namespace: 'text', id: 'text', wanted: 'text', graceMs: 'integer | null' },
  (d) => `
UPDATE @fleet_worker SET wanted = :wanted, wanted_grace_ms = :graceMs
WHERE namespace = :namespace AND id = :id AND lease_ends_at > ${d.now}`,
)

const setWanted = operation({
  name: 'ask something of a worker',
  *procedure(namespace: string, asked: { id: string; wanted: WantedMode; graceMs: number | null }) {
    const selected = selectOne({ namespace, id: asked.id })
    const [, found] = yield* last(run(updateWanted({ namespace, ...asked }), selected))
    if (found!.rows.length === 0) return false
    const { wanted, leaseEndsAt } = stored.decode(found!.rows[0])
    return wanted === asked.wanted && leaseEndsAt > decodeNow(found!)
  },
})

const selectReadyKinds = statement(
  'worker_ready_kinds',
  { namespace: 'text', queue: 'text', limit: 'integer' },
  ({ jobs }) => jobs.readyKinds,
)

const readyKind = columns<{ readonly kind: string; readonly count: number; readonly oldestAt: number }>({
  ...{ kind: 'text', count: ['integer', 'jobs'], oldestAt: ['integer', 'oldest'] },
})

const listReadyKinds = operation({
  name: 'list the kinds of ready jobs',
  isRead: true,
  *procedure(namespace: string, { queue, limit }: { readonly queue: string; readonly limit: number }) {
    const [found, clock] = yield* run(selectReadyKinds({ namespace, queue, limit }), selectNow({}))
    return { kinds: found!.rows.map(readyKind.decode), now: decodeNow(clock!) }
  },
})

const pruneWorkers = pruneOld('prune the rows of workers', {
  ...{ statements: 'worker', table: 'fleet_worker', key: 'id', at: 'lease_ends_at', orderBy: 'id' },
})
