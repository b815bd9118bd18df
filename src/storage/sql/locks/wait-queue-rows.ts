import type { Waiter } from '../../../locks/rules/index.ts'
import { last, type Procedure, type Result, run, type Step, undo } from '../procedure.ts'
import { type Bound, type Statement, serverStatement } from '../statement.ts'
import {
  openedHeadSize,
  WaitQueueBuffer,
  type WaitQueueCalls,
  type WaitQueueWrites,
} from './wait-queue-buffer.ts'
import {
  decodeOutcome,
  decodeQueue,
  encodeQueue,
  type HolderRow,
  queueColumns,
  shardOf,
  storedCounts,
  storedLast,
  storedOutcome,
  storedWaiter,
  type WaitQueueName,
  waiterDueAt,
} from './wait-queue-record.ts'

/**
 * The rows of wait queues inside a transaction, on Postgres and MariaDB. A transaction locks the keys of its wait
 * queues in a separate statement before it reads them, so that the following statements see all earlier commits.
 *
 * A key can be locked without a row. For that, MariaDB inserts a blank row with revision 0. A transaction that wrote
 * nothing rolls it back. So a blank row stays only if another wait queue changed in the same transaction, and only
 * until the next sweep. Every statement treats it as a missing row.
 */
const queueNames = Object.keys(queueColumns)
const values = (columns: readonly string[]) => columns.map((column) => `:${column}`).join(', ')
const assigned = (columns: readonly string[]) => columns.map((name) => `${name} = :${name}`).join(', ')
const given = (columns: readonly string[]) => Object.fromEntries(columns.map((name) => [name, `new.${name}`]))

const lock = serverStatement(
  'lock_queue_lock',
  { queueKey: 'text', namespace: 'text', operation: 'text', resource: 'text' },
  (d) =>
    d.lockKey({
      into: '@lock_queue',
      columns: 'queue_key, namespace, operation, resource',
      source: 'VALUES (:queueKey, :namespace, :operation, :resource)',
      key: 'queue_key',
      value: ':queueKey',
    }),
)

/** Locks as many of the keys as it can without waiting, and returns them as `queue_key`. */
export const tryLock: Statement<{ readonly queueKeys: readonly string[] }> = serverStatement(
  'lock_queue_try_lock',
  { queueKeys: 'text[]' },
  (d) => d.tryLockKeys('@lock_queue', 'queue_key', ':queueKeys'),
)

const opened = `l.queue_key, ${queueNames.map((name) => `l.${name}`).join(', ')}, l.progress`

const selectQueue = serverStatement(
  'lock_queue_open',
  { queueKey: 'text' },
  (d) => `
SELECT clock.now, ${opened},
  EXISTS (SELECT 1 FROM @lock_outcome o WHERE o.queue_key = :queueKey) AS has_outcomes
FROM (SELECT ${d.now} AS now) clock LEFT JOIN @lock_queue l ON l.queue_key = :queueKey`,
)

const selectNow = serverStatement('lock_queue_now', {}, (d) => `SELECT ${d.now} AS now`)

/** Reads the existing wait queues among these. */
const selectQueues = serverStatement(
  'lock_queue_open_many',
  { queueKeys: 'text[]' },
  (d) => `
SELECT ${opened}, (SELECT 1 FROM @lock_outcome o WHERE o.queue_key = l.queue_key LIMIT 1) AS has_outcomes
${d.byKeys({ from: '@lock_queue', alias: 'l', where: 'l.revision > 0', key: 'l.queue_key', keys: ':queueKeys' })}`,
)

const selectHead = serverStatement(
  'lock_waiter_head',
  { queueKey: 'text', limit: 'integer' },
  (d) => `
SELECT ${storedWaiter.names} FROM @lock_waiter ${d.byIndex('PRIMARY')}
WHERE queue_key = :queueKey ORDER BY seq LIMIT :limit`,
)

/** The waiters at these positions. */
export const selectAt: Statement<{ readonly queueKey: string; readonly seqs: readonly number[] }> =
  serverStatement(
    'lock_waiter_at',
    { queueKey: 'text', seqs: 'integer[]' },
    (d) => `
SELECT ${storedWaiter.names} FROM @lock_waiter ${d.byIndex('PRIMARY')}
WHERE queue_key = :queueKey AND seq IN (:seqs)`,
  )

const requester = { queueKey: 'text', node: 'text', requestId: 'text' } as const

const selectWaiter = serverStatement(
  'lock_waiter_find',
  requester,
  (d) => `
SELECT ${storedWaiter.names},
  (SELECT COUNT(*) FROM @lock_waiter b ${d.byIndex('PRIMARY')}
   WHERE b.queue_key = w.queue_key AND b.seq < w.seq) AS before_count
FROM @lock_waiter w WHERE queue_key = :queueKey AND node = :node AND request_id = :requestId`,
)

const selectOutcome = serverStatement(
  'lock_outcome_find',
  requester,
  () => `
SELECT ${storedOutcome.of('o')}, r.value
FROM @lock_outcome o LEFT JOIN @lock_result r ON r.queue_key = o.queue_key AND r.revision = o.revision
WHERE o.queue_key = :queueKey AND o.node = :node AND o.request_id = :requestId`,
)

const countBefore = serverStatement(
  'lock_waiter_count',
  { queueKey: 'text', seq: 'integer' },
  (d) => `
SELECT COUNT(*) AS before_count FROM @lock_waiter ${d.byIndex('PRIMARY')}
WHERE queue_key = :queueKey AND seq < :seq`,
)

const raiseToken = serverStatement(
  'lock_shard_raise',
  { shard: 'integer' },
  (d) =>
    `UPDATE @lock_shard SET last_token = ${d.greatest('last_token + 1', d.nowMicros)} WHERE shard = :shard`,
)

const selectToken = serverStatement(
  'lock_shard_read',
  { shard: 'integer' },
  () => 'SELECT last_token FROM @lock_shard WHERE shard = :shard',
)

const removeWaiters = serverStatement(
  'lock_waiter_remove',
  { queueKey: 'text', seqs: 'integer[]' },
  () => 'DELETE FROM @lock_waiter WHERE queue_key = :queueKey AND seq IN (:seqs)',
)

const saveWaiters = serverStatement(
  'lock_waiter_save',
  { queueKey: 'text', namespace: 'text', rows: { ...storedWaiter.types, due_at: 'integer' } },
  (d) =>
    d.upsert({
      into: '@lock_waiter',
      columns: `queue_key, namespace, ${storedWaiter.names}, due_at`,
      source: `SELECT :queueKey, :namespace, ${storedWaiter.of('v')}, v.due_at FROM :rows`,
      key: 'queue_key, node, request_id',
      set: given([...Object.keys(storedWaiter.types).slice(2), 'due_at']),
    }),
)

const removeOutcome = serverStatement(
  'lock_outcome_remove',
  requester,
  () => 'DELETE FROM @lock_outcome WHERE queue_key = :queueKey AND node = :node AND request_id = :requestId',
)

const outcomeInto = {
  into: '@lock_outcome',
  columns: `queue_key, namespace, ${storedOutcome.names}`,
  key: 'queue_key, node, request_id',
  set: given(Object.keys(storedOutcome.types).slice(2)),
}

const saveOutcomes = serverStatement(
  'lock_outcome_save',
  { queueKey: 'text', namespace: 'text', rows: storedOutcome.types },
  (d) =>
    d.upsert({ ...outcomeInto, source: `SELECT :queueKey, :namespace, ${storedOutcome.of('v')} FROM :rows` }),
)

/** Stores the text that many outcomes share. */
const saveResult = serverStatement(
  'lock_result_save',
  { queueKey: 'text', namespace: 'text', revision: 'integer', value: 'text', keptUntil: 'integer' },
  (d) => `
INSERT INTO @lock_result (queue_key, namespace, revision, value, kept_until)
VALUES (:queueKey, :namespace, :revision, :value, :keptUntil) ${d.keepExisting('queue_key, revision')}`,
)

/** Gives all waiters, or the waiters that want one thing, the same outcome. */
const endWaits = serverStatement(
  'lock_waiter_end',
  {
    ...{ queueKey: 'text', kind: 'text', isNotified: 'boolean', keptUntil: 'integer', revision: 'integer' },
    'want?': 'text',
  },
  (d) =>
    d.upsert({
      ...outcomeInto,
      source: `SELECT queue_key, namespace, node, request_id, :kind, seq, :isNotified, :keptUntil, :revision
        FROM @lock_waiter WHERE queue_key = :queueKey {AND want = :want}`,
    }),
)

const removeWaits = serverStatement(
  'lock_waiter_clear',
  { queueKey: 'text', 'want?': 'text' },
  () => 'DELETE FROM @lock_waiter WHERE queue_key = :queueKey {AND want = :want}',
)

const insertQueue = serverStatement(
  'lock_queue_insert',
  {
    ...{ queueKey: 'text', namespace: 'text', operation: 'text', resource: 'text' },
    ...{ ...queueColumns, progress: 'text | null', ...storedLast.types },
  },
  (d) => {
    const columns = [...queueNames, 'progress', ...Object.keys(storedLast.types)]
    return d.upsert({
      into: '@lock_queue',
      columns: `queue_key, namespace, operation, resource, ${columns.join(', ')}`,
      source: `VALUES (:queueKey, :namespace, :operation, :resource, ${values(columns)})`,
      key: 'queue_key',
      set: given(columns),
    })
  },
)

const { last_outcome: _, ...lastColumns } = storedLast.types

/** Does not write unchanged progress or an unchanged last outcome again, because they may be large. */
const updateQueue = serverStatement(
  'lock_queue_update',
  {
    ...{ queueKey: 'text', ...queueColumns, 'progress?': 'text | null' },
    ...{ ...lastColumns, 'last_outcome?': 'text' },
  },
  () => `
UPDATE @lock_queue SET ${assigned(queueNames)}
  {, progress = :progress}
  {, ${assigned(Object.keys(storedLast.types))}}
WHERE queue_key = :queueKey`,
)

/** A wait queue after it was locked and read. */
export interface OpenWaitQueueRows {
  readonly name: WaitQueueName
  readonly buffer: WaitQueueBuffer
}

/** Waits for the locks of the wait queues in the given order and reads them. */
export function* openQueues(names: readonly WaitQueueName[]): Procedure<readonly OpenWaitQueueRows[]> {
  const results = yield* run(
    ...names.map(({ queueKey, namespace, operation, resource }) =>
      lock({ queueKey, namespace, operation, resource }),
    ),
    ...names.flatMap(read),
  )
  const found = results.slice(names.length)
  return names.map((name, nr) => ({ name, buffer: bufferOf(name, found[2 * nr]!, found[2 * nr + 1]!) }))
}

/**
 * Reads the wait queues that it can lock without waiting, in at most two round trips. MariaDB skips queues without a
 * row.
 */
export function* tryOpenQueues(names: readonly WaitQueueName[]): Procedure<readonly OpenWaitQueueRows[]> {
  const queueKeys = names.map(({ queueKey }) => queueKey)
  const [locked, clock, found] = yield* run(
    tryLock({ queueKeys }),
    selectNow({}),
    selectQueues({ queueKeys }),
  )
  const lockedKeys = new Set((locked!.rows as readonly KeyRow[]).map(({ queue_key }) => queue_key))
  const rows = new Map((found!.rows as readonly OpenedRow[]).map((row) => [row.queue_key, row]))
  const own = names.filter(({ queueKey }) => lockedKeys.has(queueKey))
  const waitedFor = own.filter(({ queueKey }) => {
    const row = rows.get(queueKey)
    return row !== undefined && storedCounts.decode(row).waiterCount > 0
  })
  const heads = yield* run(
    ...waitedFor.map(({ queueKey }) => selectHead({ queueKey, limit: openedHeadSize })),
  )
  const headOf = new Map(waitedFor.map((name, nr) => [name, heads[nr]!]))
  const { now } = clock!.rows[0] as Pick<OpenedRow, 'now'>
  return own.map((name) => {
    const row = { ...(rows.get(name.queueKey) ?? absent), now }
    return { name, buffer: bufferOf(name, { rows: [row], rowCount: 1 }, headOf.get(name) ?? nobody) }
  })
}

interface KeyRow {
  readonly queue_key: string
}

const absent = { queue_key: null, due_at: null, has_outcomes: false } as const
const nobody: Result = { rows: [], rowCount: 0 }

/**
 * Tries to lock and read one wait queue, with the waiters at these positions. Undefined: another process holds it, or
 * on MariaDB it has no row.
 */
export function* tryOpenQueue(
  name: WaitQueueName,
  seqs: readonly number[],
): Procedure<{ readonly buffer: WaitQueueBuffer; readonly waiters: readonly Waiter[] } | undefined> {
  const { queueKey } = name
  const [locked, found, head, at] = yield* run(
    tryLock({ queueKeys: [queueKey] }),
    ...read(name),
    selectAt({ queueKey, seqs }),
  )
  if (locked!.rows.length === 0) return undefined
  const buffer = bufferOf(name, found!, head!)
  const waiters = at!.rows.map(storedWaiter.decode)
  buffer.remember(waiters)
  return { buffer, waiters }
}

/** Sends the remaining writes and commits. Rolls everything back if nothing was written. */
export function* commitQueues(queues: readonly OpenWaitQueueRows[]): Procedure<void> {
  const writes = queues.flatMap(({ name, buffer }) => encodeWrites(name, buffer.lastWrites()))
  if (queues.some(({ buffer }) => buffer.hasWritten)) yield* last(run(...writes))
  else yield* undo()
}

/** The token shard of a step that mints tokens, otherwise undefined. */
export function mintsIn({ statements: [first] }: Step): number | undefined {
  return first?.definition === raiseToken.definition ? (first.params.shard as number) : undefined
}

function read({ queueKey }: WaitQueueName): readonly [Bound, Bound] {
  return [selectQueue({ queueKey }), selectHead({ queueKey, limit: openedHeadSize })]
}

interface OpenedRow extends HolderRow {
  readonly now: number | string
  readonly queue_key: string | null
  readonly has_outcomes: boolean | number | null
}

function bufferOf(name: WaitQueueName, { rows: [row] }: Result, head: Result): WaitQueueBuffer {
  const stored = row as OpenedRow
  const { revision, waiterCount, dueAt } = storedCounts.decode(stored)
  const isThere = stored.queue_key !== null && revision > 0
  return new WaitQueueBuffer(createCalls(name), {
    operation: name.operation,
    now: Number(stored.now),
    row: isThere ? decodeQueue(stored) : undefined,
    dueAt,
    waiterCount: isThere ? waiterCount : 0,
    head: head.rows.map(storedWaiter.decode),
    hasOutcomes: Boolean(stored.has_outcomes),
  })
}

/** The queries of a buffer while its rule runs. Each sends the pending writes first. */
function createCalls(name: WaitQueueName): WaitQueueCalls {
  const { queueKey } = name
  function* after(writes: WaitQueueWrites, ...asked: readonly Bound[]): Procedure<readonly Result[]> {
    const before = encodeWrites(name, writes)
    return (yield* run(...before, ...asked)).slice(before.length)
  }
  return {
    *find(who, writes) {
      const named = { queueKey, node: who.node, requestId: who.requestId }
      const [found, ended] = yield* after(writes, selectWaiter(named), selectOutcome(named))
      const [waiter] = found!.rows as readonly Counted[]
      const [outcome] = ended!.rows as readonly { readonly value: string | null }[]
      return {
        waiter: waiter && storedWaiter.decode(waiter),
        before: Number(waiter?.before_count ?? 0),
        outcome: outcome && decodeOutcome(outcome),
      }
    },
    *head(limit, writes) {
      const [head] = yield* after(writes, selectHead({ queueKey, limit }))
      return head!.rows.map(storedWaiter.decode)
    },
    *countBefore(seq, writes) {
      const [counted] = yield* after(writes, countBefore({ queueKey, seq }))
      return Number((counted!.rows[0] as Counted).before_count)
    },
    *dissolve(wants, { kind, value, isNotified, keptUntil, revision }, writes) {
      const results = value === null ? writes.results : [...writes.results, { revision, value, keptUntil }]
      const want = wants === 'all' ? undefined : wants
      const [, gone] = yield* after(
        { ...writes, results },
        endWaits({ queueKey, kind, isNotified, keptUntil, revision, want }),
        removeWaits({ queueKey, want }),
      )
      return gone!.rowCount
    },
    *mintToken() {
      const shard = shardOf(name)
      const [, raised] = yield* run(raiseToken({ shard }), selectToken({ shard }))
      return Number((raised!.rows[0] as { readonly last_token: number | string }).last_token)
    },
  }
}

interface Counted {
  readonly before_count: number | string
}

/** The pending writes as statements, in the required order. */
function encodeWrites(
  { queueKey, namespace, operation, resource }: WaitQueueName,
  { goneSeqs, waiters, goneOutcomes, results, outcomes, queue }: WaitQueueWrites,
): readonly Bound[] {
  const writes: Bound[] = []
  if (goneSeqs.length > 0) writes.push(removeWaiters({ queueKey, seqs: goneSeqs }))
  if (waiters.length > 0) {
    const rows = waiters.map((waiter) => ({ ...storedWaiter.encode(waiter), due_at: waiterDueAt(waiter) }))
    writes.push(saveWaiters({ queueKey, namespace, rows }))
  }
  for (const { node, requestId } of goneOutcomes) writes.push(removeOutcome({ queueKey, node, requestId }))
  for (const result of results) writes.push(saveResult({ queueKey, namespace, ...result }))
  if (outcomes.length > 0) {
    writes.push(saveOutcomes({ queueKey, namespace, rows: outcomes.map(storedOutcome.encode) }))
  }
  if (queue) {
    const { holder, lastOutcome } = queue.row
    const progress = holder?.progress ?? null
    const columns = { ...encodeQueue(queue), ...storedLast.encode(lastOutcome ?? {}), queueKey }
    const named = { namespace, operation, resource, progress }
    const changed = {
      progress: queue.writesProgress ? progress : undefined,
      last_outcome: lastOutcome?.outcome,
    }
    writes.push(queue.isNew ? insertQueue({ ...columns, ...named }) : updateQueue({ ...columns, ...changed }))
  }
  return writes
}
