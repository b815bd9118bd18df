import type {
  NewWorker,
  WantedMode,
  WorkerMode,
  WorkerRecord,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkerStore,
  WorkerVia,
} from '../../fleet/workers/index.ts'
import type { Database } from './database.ts'
import { count, last, many, one, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * The rows of workers of one namespace. A renewal is one round trip for all workers of a process: the rows are written by
 * key, and what is wanted of each is read behind it. A namespace has few rows, so lists and pruning need no index but
 * the key.
 */
export function createWorkerStore(database: Database, namespace: string): WorkerStore {
  return {
    join: (workers, leaseMs) => database.run(joinWorkers, [namespace, workers, leaseMs]),
    async renew(renewals, leaseMs) {
      // Two operations of one statement each: together they would be a transaction of four.
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

// A row that is derived from claims gives way to the worker itself. A process that was started again in the same place
// has the pid of the one before, as in a container, and its row is taken over at once.
const upsert = statement(
  'worker_join',
  {
    namespace: 'text',
    leaseMs: 'integer',
    rows: { id: 'text', session: 'text', age_ms: 'integer', ...fields, ...state },
  },
  (d) => {
    const plain = [...Object.keys(fields), ...Object.keys(state)]
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
      // First, because MariaDB assigns in this order. Of a program that claims from several servers, each writes the row.
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
  name: 'list workers as members',
  *procedure(namespace: string, workers: readonly NewWorker[], leaseMs: number) {
    if (workers.length === 0) return []
    // Of two with one name, the first has it.
    const byId = new Map(workers.toReversed().map((worker) => [worker.id, worker]))
    const rows = [...byId.values()].map(encodeWorker)
    const written = yield* last(many<StandingRow>(upsert({ namespace, leaseMs, rows })))
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
    const rows = yield* many<StandingRow>(selectWanted({ namespace, ids: idsOf(workers) }))
    return standingsOf(workers, rows)
  },
})

function idsOf(workers: readonly WorkerRef[]): readonly string[] {
  return [...new Set(workers.map(({ id }) => id))]
}

interface StandingRow extends WorkerRef {
  readonly wanted: WantedMode
  readonly wanted_grace_ms: number | string | null
}

function standingsOf(workers: readonly WorkerRef[], rows: readonly StandingRow[]): readonly WorkerStanding[] {
  const byId = new Map(rows.map((row) => [row.id, row]))
  return workers.map(({ id, session }): WorkerStanding => {
    const row = byId.get(id)
    if (row === undefined) return { status: 'missing' }
    if (row.session !== session) return { status: 'taken' }
    return { status: 'here', wanted: row.wanted, graceMs: numberOrNull(row.wanted_grace_ms) }
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

const columns = `id, worker_id, via, host, pid, mode, wanted, concurrency, running_count, release_name, version,
  started_at, seen_at, lease_ends_at, running, queues, kinds`

const selectPage = statement(
  'worker_list',
  { namespace: 'text', 'after?': 'text', limit: 'integer' },
  () => `
SELECT ${columns} FROM @fleet_worker WHERE namespace = :namespace {AND id > :after} ORDER BY id LIMIT :limit`,
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
    const workers = (found!.rows as readonly WorkerRow[]).map((row) => decodeWorker(row))
    return { workers, now: Number((clock!.rows[0] as { now: number | string }).now) }
  },
})

const selectOne = statement(
  'worker_find',
  { namespace: 'text', id: 'text' },
  (d) => `
SELECT ${columns}, kind_schemas, ${d.now} AS now FROM @fleet_worker WHERE namespace = :namespace AND id = :id`,
)

interface FoundRow extends WorkerRow {
  readonly kind_schemas: string
  readonly now: number | string
}

const findWorker = operation({
  name: 'find a worker',
  isRead: true,
  *procedure(namespace: string, id: string) {
    const row = yield* one<FoundRow>(selectOne({ namespace, id }))
    return row && { worker: decodeWorker(row, row.kind_schemas), now: Number(row.now) }
  },
})

const updateWanted = statement(
  'worker_want',
  { namespace: 'text', id: 'text', wanted: 'text', graceMs: 'integer | null' },
  (d) => `
UPDATE @fleet_worker SET wanted = :wanted, wanted_grace_ms = :graceMs
WHERE namespace = :namespace AND id = :id AND lease_ends_at > ${d.now}`,
)

const setWanted = operation({
  name: 'ask something of a worker',
  *procedure(
    namespace: string,
    {
      id,
      wanted,
      graceMs,
    }: { readonly id: string; readonly wanted: WantedMode; readonly graceMs: number | null },
  ) {
    const [, found] = yield* last(
      run(updateWanted({ namespace, id, wanted, graceMs }), selectOne({ namespace, id })),
    )
    const [row] = found!.rows as readonly FoundRow[]
    return row !== undefined && row.wanted === wanted && Number(row.lease_ends_at) > Number(row.now)
  },
})

const selectReadyKinds = statement(
  'worker_ready_kinds',
  { namespace: 'text', queue: 'text', limit: 'integer' },
  ({ jobs }) => jobs.readyKinds,
)

interface ReadyKindRow {
  readonly kind: string
  readonly jobs: number | string
  readonly oldest: number | string
}

const listReadyKinds = operation({
  name: 'list the kinds of ready jobs',
  isRead: true,
  *procedure(namespace: string, { queue, limit }: { readonly queue: string; readonly limit: number }) {
    const [found, clock] = yield* run(selectReadyKinds({ namespace, queue, limit }), selectNow({}))
    const kinds = (found!.rows as readonly ReadyKindRow[]).map(({ kind, jobs, oldest }) => ({
      ...{ kind, count: Number(jobs), oldestAt: Number(oldest) },
    }))
    return { kinds, now: Number((clock!.rows[0] as { now: number | string }).now) }
  },
})

const isOld = statement(
  'worker_is_old',
  { namespace: 'text', olderThanMs: 'integer' },
  (d) =>
    `SELECT 1 FROM @fleet_worker WHERE namespace = :namespace AND lease_ends_at < ${d.now} - :olderThanMs LIMIT 1`,
)

const deleteOld = statement(
  'worker_prune',
  { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
  (d) =>
    d.deleteFirst({
      from: '@fleet_worker',
      key: 'namespace, id',
      where: `namespace = :namespace AND lease_ends_at < ${d.now} - :olderThanMs`,
      orderBy: 'id',
      limit: ':limit',
    }),
)

interface Age {
  readonly olderThanMs: number
  readonly limit: number
}

const pruneWorkers = operation({
  name: 'prune the rows of workers',
  *procedure(namespace: string, { olderThanMs, limit }: Age) {
    return yield* last(count(deleteOld({ namespace, olderThanMs, limit })))
  },
  upkeep: {
    *isNeeded(namespace: string, { olderThanMs }: Age) {
      return (yield* one(isOld({ namespace, olderThanMs }))) !== undefined
    },
    otherwise: 0,
  },
})

/** Drivers give whole numbers as numbers or as text. */
interface WorkerRow {
  readonly id: string
  readonly worker_id: string
  readonly via: WorkerVia
  readonly host: string | null
  readonly pid: number | string | null
  readonly mode: WorkerMode
  readonly wanted: WantedMode
  readonly concurrency: number | string | null
  readonly running_count: number | string | null
  readonly release_name: string | null
  readonly version: string | null
  readonly started_at: number | string
  readonly seen_at: number | string
  readonly lease_ends_at: number | string
  readonly running: string
  readonly queues: string
  readonly kinds: string | null
}

function decodeWorker(row: WorkerRow, schemas = '{}'): WorkerRecord {
  const seenAt = Number(row.seen_at)
  const running = JSON.parse(row.running) as WorkerRenewal['running']
  return {
    id: row.id,
    workerId: row.worker_id,
    mode: row.mode,
    wanted: row.wanted,
    via: row.via,
    host: row.host,
    pid: numberOrNull(row.pid),
    queues: JSON.parse(row.queues) as readonly string[],
    kinds: row.kinds === null ? null : (JSON.parse(row.kinds) as readonly string[]),
    concurrency: numberOrNull(row.concurrency),
    running: running.map(({ id, kind, ms }) => ({ id, kind, since: seenAt - ms })),
    runningCount: numberOrNull(row.running_count),
    release: row.release_name,
    version: row.version,
    startedAt: Number(row.started_at),
    seenAt,
    leaseEndsAt: Number(row.lease_ends_at),
    schemas: JSON.parse(schemas) as WorkerRecord['schemas'],
  }
}

function numberOrNull(value: number | string | null): number | null {
  return value === null ? null : Number(value)
}
