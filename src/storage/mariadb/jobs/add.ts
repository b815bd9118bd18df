import type { Added, NewJob } from '../../../jobs/index.ts'
import { insertDependencies } from '../../sql/dependencies/new-dependencies.ts'
import { run } from '../../sql/procedure.ts'
import {
  type CallerTx,
  toCallerTx,
  transactionRequired,
  wrongDatabase,
} from '../connection/caller-transaction.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { errnoOf } from '../connection/failures.ts'
import { packItems, sendAll, valueSize } from '../connection/packets.ts'
import type { Store } from '../engine-store.ts'
import { reclaim, reclaimThese } from './reclaim.ts'

/**
 * Adds jobs with one statement, or with a few in one transaction. The unique index decides which add was first, also
 * between racing adds and within one statement. On a duplicate nothing changes, and RETURNING gives the existing row,
 * so each row's answer is the returned id. MySQL cannot do that. The dependencies of a job are written after it, in the
 * same transaction.
 */
const columns =
  'namespace, id, queue, kind, payload, priority, unique_key, state, max_attempts, run_at, created_at, updated_at, backoff, timeout_ms, meta'

export function createAdd(
  store: Store,
): (jobs: readonly NewJob[], tx?: unknown) => Promise<readonly Added[]> {
  const { positions } = store.memory
  return async function add(jobs, tx) {
    if (tx === undefined) {
      if (jobs.length === 0) return []
      const added = await addOwn(store, jobs)
      store.calls.onCommit(() => positions.added(jobs))
      return added
    }
    const caller = await toCallerTx(tx)
    store.calls.requireOpen()
    await checkTransaction(store, caller)
    // A job with an expired lease may lose its unique key. Reclaim before the insert, because the insert would lock its
    // row.
    if (jobs.some(({ uniqueKey }) => uniqueKey !== null)) await reclaim(store, 1_000)
    const added: Added[] = []
    // Bytes are sent as hexadecimal text.
    for (const chunk of chunksOf(jobs, store.packetBytes / 2)) {
      const [sql, values] = encodeInsert(store, chunk, bytesBinder())
      added.push(...compare(chunk, (await caller.query(sql, values)) as { id: string }[]))
    }
    await store.database.runInCallers(caller, run(...insertDependencies(store.namespace, jobs, added)))
    positions.added(jobs)
    return added
  }
}

async function addOwn(store: Store, jobs: readonly NewJob[]): Promise<readonly Added[]> {
  // Dependencies are written with the job, so expired holders of its unique key must be gone before.
  const isBlocked = jobs.some(({ dependsOn }) => dependsOn)
  if (isBlocked && jobs.some(({ uniqueKey }) => uniqueKey !== null)) await reclaim(store, 1_000)
  const added = await insert(store, jobs)
  // A job that is dead, but not yet taken back, has lost its right to the key.
  const winners = new Set(added.filter(({ duplicate }) => duplicate).map(({ id }) => id))
  for (const { id } of jobs) winners.delete(id)
  if (winners.size === 0 || !(await reclaimThese(store, [...winners]))) return added
  const refused = jobs.filter((_, index) => added[index]!.duplicate)
  const second = await insert(store, refused)
  let next = 0
  return added.map((answer) => (answer.duplicate ? second[next++]! : answer))
}

function insert(store: Store, jobs: readonly NewJob[]): Promise<readonly Added[]> {
  const chunks = chunksOf(jobs, store.packetBytes)
  const isBlocked = jobs.some(({ dependsOn }) => dependsOn)
  // A single statement is its own transaction.
  const isOne = chunks.length === 1 && !isBlocked
  return store.calls.run('add jobs', async (call: Call) => {
    const added: Added[] = []
    for (const [index, chunk] of chunks.entries()) {
      const statements: Statement[] = [
        [`SET @signalbox_now = ${nowMs}`, []],
        encodeInsert(store, chunk, textBinder()),
      ]
      if (!isOne && index === 0) statements.unshift(begin)
      if (!isOne && !isBlocked && index === chunks.length - 1) statements.push(commit)
      const answers = await call.packet(statements)
      added.push(...compare(chunk, answers[statements[0] === begin ? 2 : 1] as { id: string }[]))
    }
    if (isBlocked) {
      const written = insertDependencies(store.namespace, jobs, added)
      const statements = written.flatMap((bound) => store.database.encode(bound))
      await sendAll(call, [...statements, commit], store.packetBytes)
    }
    return added
  })
}

function chunksOf(jobs: readonly NewJob[], packetBytes: number): readonly (readonly NewJob[])[] {
  return packItems(
    jobs,
    ({ payload, queue, kind, uniqueKey, backoff, meta }) =>
      valueSize([payload, queue, kind, uniqueKey, backoff, meta]) + 400,
    packetBytes,
  )
}

function compare(jobs: readonly NewJob[], rows: readonly { id: string }[]): Added[] {
  return jobs.map((job, index) => {
    const id = rows[index]!.id
    return { id, duplicate: id !== job.id }
  })
}

/** How values are bound: as text in the store's sessions, as bytes in callers' sessions (see ack.ts). */
interface Binder {
  readonly now: string
  readonly values: unknown[]
  text(value: string | null): string
}

function textBinder(): Binder {
  const values: unknown[] = []
  const text = (value: string | null) => {
    values.push(value)
    return '?'
  }
  return { now: '@signalbox_now', values, text }
}

function bytesBinder(): Binder {
  const values: unknown[] = []
  const text = (value: string | null) => {
    if (value === null) return 'NULL'
    values.push(Buffer.from(value))
    return '_utf8mb4 ?'
  }
  return { now: nowMs, values, text }
}

function encodeInsert({ tables, namespace }: Store, jobs: readonly NewJob[], binder: Binder): Statement {
  const { now, values, text } = binder
  const number = (value: number | null) => {
    values.push(value)
    return '?'
  }
  const rows = jobs.map((job) => {
    const head = `${text(namespace)}, ${text(job.id)}, ${text(job.queue)}, ${text(job.kind)}, ${text(job.payload)}, ${number(job.priority)}, ${text(job.uniqueKey)}`
    const { due } = job
    let state = "'ready'"
    if (job.dependsOn) state = "'waiting'"
    else if ('runAt' in due) state = `IF(${number(due.runAt)} <= ${now}, 'ready', 'scheduled')`
    else if (due.delayMs > 0) state = "'scheduled'"
    const most = number(job.maxAttempts)
    let runAt = now
    if ('runAt' in due) runAt = number(due.runAt)
    else if (due.delayMs > 0) runAt = `${now} + ${number(due.delayMs)}`
    return `(${head}, ${state}, ${most}, ${runAt}, ${now}, ${now}, ${text(job.backoff)}, ${number(job.timeoutMs)}, ${text(job.meta)})`
  })
  return [
    `INSERT INTO ${tables.queue} (${columns}) VALUES
${rows.join(',\n')}
ON DUPLICATE KEY UPDATE id = ${tables.queue}.id RETURNING id`,
    values,
  ]
}

/** Checks with one statement that the session is in a transaction, and that it sees this store. */
export async function checkTransaction(
  { tables, storeId }: Pick<Store, 'tables' | 'storeId'>,
  caller: CallerTx,
): Promise<void> {
  let rows: { inside: number; ours: number }[]
  try {
    rows = (await caller.query(
      `SELECT @@in_transaction = 1 OR @@autocommit = 0 AS inside, (
        SELECT COUNT(*) FROM ${tables.meta} WHERE name = 'store_id' AND value = _utf8mb4 ?) AS ours`,
      [Buffer.from(storeId)],
    )) as { inside: number; ours: number }[]
  } catch (error) {
    if ([1146, 1049, 1142, 1044].includes(errnoOf(error) ?? 0)) throw wrongDatabase(error)
    throw error
  }
  if (!rows[0]?.inside) throw transactionRequired()
  if (!rows[0].ours) throw wrongDatabase()
}
