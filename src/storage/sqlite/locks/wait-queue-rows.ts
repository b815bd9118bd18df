import type { LockKey } from '../../../locks/index.ts'
import type {
  Holder,
  Outcome,
  Requester,
  Waiter,
  WaitQueueRow,
  WaitQueueRows,
} from '../../../locks/rules/index.ts'
import { decodeOutcome, storedWaiter } from '../../sql/locks/wait-queue-record.ts'
import type { Connection } from '../connection/connection.ts'
import { readLeaseClock, readWallAhead } from './lease-clock.ts'
import { mintToken } from './lock-tokens.ts'

/**
 * The rows of one wait queue, on the writer's connection and inside its transaction. SQLite has one writer, so no other
 * step changes a wait queue meanwhile. The wait queue's row, with its counts, is read once and written once.
 */
export class SqliteWaitQueue implements WaitQueueRows {
  readonly #connection: Connection
  readonly #namespace: string
  readonly #key: LockKey
  readonly #wall: number
  readonly #now: number
  /** Undefined: the wait queue has no row yet. */
  #queue: number | undefined
  #waiterCount = 0
  #outcomeCount = 0
  /** The stored count. */
  #writtenWaiters = 0
  #writtenOutcomes = 0
  /** The token of the last grant. The row keeps it while the lock has no holder. */
  #token: number | null = null

  constructor(connection: Connection, namespace: string, key: LockKey, wall: number) {
    this.#connection = connection
    this.#namespace = namespace
    this.#key = key
    this.#wall = wall
    this.#now = readLeaseClock(connection)
  }

  operation(): string {
    return this.#key.operation
  }

  clock(): { now: number; wall: number; aheadMs: number } {
    return { now: this.#now, wall: this.#wall, aheadMs: readWallAhead(this.#connection) }
  }

  queue(): WaitQueueRow | undefined {
    const [record] = this.#connection.rows<WaitQueueRecord>(
      `SELECT queue_id, attempt, grant_from, revision, waiter_count, outcome_count, token, holder_node,
              holder_request_id, holder_attempt, holder_since, holder_ttl_ms, lease_ends_at, take_up_by,
              holder_seq, progress
       FROM lock_queue WHERE namespace = ?1 AND operation = ?2 AND resource = ?3`,
      this.#namespace,
      this.#key.operation,
      this.#key.resource,
    )
    if (!record) return undefined
    const [queue, attempt, grantFrom, revision, waiterCount, outcomeCount, token] = record
    this.#queue = queue
    this.#waiterCount = waiterCount
    this.#outcomeCount = outcomeCount
    this.#writtenWaiters = waiterCount
    this.#writtenOutcomes = outcomeCount
    this.#token = token
    return { holder: decodeHolder(record), attempt, grantFrom, revision, lastOutcome: null }
  }

  saveQueue(row: WaitQueueRow, dueAt: number | null): void {
    const { attempt, grantFrom, revision, holder, lastOutcome } = row
    const queue = this.#ownQueue()
    const waiters = this.#waiterCount
    const outcomes = this.#outcomeCount
    this.#writtenWaiters = waiters
    this.#writtenOutcomes = outcomes
    const counts = [queue, attempt, grantFrom, revision, dueAt, waiters, outcomes]
    // No rule reads the last outcome of the wait queue, so it is not loaded and stays unchanged. The same is true of
    // the last grant's token while the lock has no holder. Missing values are not bound, because binding costs as much
    // as writing.
    const ended = lastOutcome
      ? [lastOutcome.outcome, lastOutcome.node, lastOutcome.attempt, lastOutcome.at, lastOutcome.value]
      : []
    if (holder === null) {
      this.#connection.run(lastOutcome ? saveEnded : saveFree, ...counts, ...ended)
      return
    }
    const { node, requestId, token, since, ttlMs, leaseEndsAt, takeUpBy, seq, progress } = holder
    this.#token = token
    const held = [token, node, requestId, holder.attempt, since, ttlMs, leaseEndsAt, takeUpBy, seq, progress]
    this.#connection.run(lastOutcome ? saveEndedAndHeld : saveHeld, ...counts, ...held, ...ended)
  }

  mintToken(): number {
    return mintToken(this.#connection, this.#token ?? 0, this.#wall)
  }

  waiter({ node, requestId }: Requester): Waiter | undefined {
    if (this.#waiterCount === 0) return undefined
    const record = this.#connection.get(
      `SELECT * FROM lock_waiter WHERE queue_id = ?1 AND node = ?2 AND request_id = ?3`,
      this.#queue!,
      node,
      requestId,
    )
    return record === undefined ? undefined : storedWaiter.decode(record)
  }

  firstWaiter(): Waiter | undefined {
    if (this.#waiterCount === 0) return undefined
    const record = this.#connection.get(
      `SELECT * FROM lock_waiter WHERE queue_id = ?1 ORDER BY seq LIMIT 1`,
      this.#queue!,
    )
    return record === undefined ? undefined : storedWaiter.decode(record)
  }

  countWaiters(beforeSeq?: number): number {
    if (beforeSeq === undefined || this.#waiterCount === 0) return this.#waiterCount
    const { many } = this.#connection.get<{ many: number }>(
      `SELECT count(*) AS many FROM lock_waiter WHERE queue_id = ?1 AND seq < ?2`,
      this.#queue!,
      beforeSeq,
    )!
    return many
  }

  saveWaiter(waiter: Waiter): void {
    const changed = this.#connection.run(
      `UPDATE lock_waiter SET lease_ends_at = ?4, deadline_at = ?5, is_streamed = ?6
       WHERE queue_id = ?1 AND node = ?2 AND request_id = ?3`,
      this.#ownQueue(),
      waiter.node,
      waiter.requestId,
      waiter.leaseEndsAt,
      waiter.deadlineAt,
      Number(waiter.isStreamed),
    )
    if (changed > 0) return
    this.#connection.run(
      `INSERT INTO lock_waiter (
         queue_id, seq, node, request_id, want, ttl_ms, since, lease_ends_at, deadline_at, is_streamed)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`,
      this.#ownQueue(),
      waiter.seq,
      waiter.node,
      waiter.requestId,
      waiter.want,
      waiter.ttlMs,
      waiter.since,
      waiter.leaseEndsAt,
      waiter.deadlineAt,
      Number(waiter.isStreamed),
    )
    this.#waiterCount++
  }

  removeWaiter({ node, requestId }: Requester): void {
    this.#waiterCount -= this.#connection.run(
      `DELETE FROM lock_waiter WHERE queue_id = ?1 AND node = ?2 AND request_id = ?3`,
      this.#ownQueue(),
      node,
      requestId,
    )
  }

  outcome(who: Requester): Outcome | undefined {
    if (this.#outcomeCount === 0) return undefined
    const record = this.#connection.get<{ readonly value: string | null }>(
      `SELECT * FROM lock_outcome WHERE queue_id = ?1 AND node = ?2 AND request_id = ?3 AND kept_until > ?4`,
      this.#queue!,
      who.node,
      who.requestId,
      this.#now,
    )
    return record && decodeOutcome(record)
  }

  saveOutcome(outcome: Outcome): void {
    this.removeOutcome(outcome)
    this.#connection.run(
      `INSERT INTO lock_outcome (queue_id, node, request_id, seq, kind, value, is_notified, kept_until, revision)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`,
      this.#ownQueue(),
      outcome.node,
      outcome.requestId,
      outcome.seq,
      outcome.kind,
      outcome.value,
      Number(outcome.isNotified),
      outcome.keptUntil,
      outcome.revision,
    )
    this.#outcomeCount++
  }

  removeOutcome({ node, requestId }: Requester): void {
    if (this.#outcomeCount === 0) return
    this.#outcomeCount -= this.#connection.run(
      `DELETE FROM lock_outcome WHERE queue_id = ?1 AND node = ?2 AND request_id = ?3`,
      this.#queue!,
      node,
      requestId,
    )
  }

  dissolve(wants: 'result' | 'all', outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>): number {
    if (this.#waiterCount === 0) return 0
    const { kind, value, isNotified, keptUntil, revision } = outcome
    const many = this.#connection.run(
      `INSERT OR REPLACE INTO lock_outcome (queue_id, node, request_id, seq, kind, value, is_notified, kept_until, revision)
       SELECT queue_id, node, request_id, seq, ?3, ?4, ?5, ?6, ?7 FROM lock_waiter
       WHERE queue_id = ?1 AND (want = ?2 OR ?2 = 'all')`,
      this.#queue!,
      wants,
      kind,
      value,
      Number(isNotified),
      keptUntil,
      revision,
    )
    this.#waiterCount -= this.#connection.run(
      `DELETE FROM lock_waiter WHERE queue_id = ?1 AND (want = ?2 OR ?2 = 'all')`,
      this.#queue!,
      wants,
    )
    // A waiter has no outcome, because its outcome was deleted when the wait began.
    this.#outcomeCount += many
    return many
  }

  /** Writes the counts of waiters and outcomes, if a rule changed them and nothing else. */
  close(): void {
    if (this.#queue === undefined) return
    if (this.#waiterCount === this.#writtenWaiters && this.#outcomeCount === this.#writtenOutcomes) return
    this.#connection.run(
      `UPDATE lock_queue SET waiter_count = ?2, outcome_count = ?3 WHERE queue_id = ?1`,
      this.#queue,
      this.#waiterCount,
      this.#outcomeCount,
    )
  }

  #ownQueue(): number {
    this.#queue ??= Number(
      this.#connection
        .prepare(
          `INSERT INTO lock_queue (namespace, operation, resource, attempt, grant_from, revision)
           VALUES (?1, ?2, ?3, 0, 0, 0)`,
        )
        .run(this.#namespace, this.#key.operation, this.#key.resource).lastInsertRowid,
    )
    return this.#queue
  }
}

const countColumns = ['attempt', 'grant_from', 'revision', 'due_at', 'waiter_count', 'outcome_count']
const holderColumns = [
  ...['token', 'holder_node', 'holder_request_id', 'holder_attempt', 'holder_since', 'holder_ttl_ms'],
  ...['lease_ends_at', 'take_up_by', 'holder_seq', 'progress'],
]
const endColumns = ['last_outcome', 'last_node', 'last_attempt', 'last_at', 'last_value']

/** A statement that writes these columns of a wait queue, in this order after its number. */
function save(columns: readonly string[], also = ''): string {
  const set = columns.map((column, nr) => `${column} = ?${nr + 2}`).join(', ')
  return `UPDATE lock_queue SET ${set}${also} WHERE queue_id = ?1`
}

const noHolder = holderColumns.slice(1).map((column) => `, ${column} = NULL`)
const saveFree = save(countColumns, noHolder.join(''))
const saveEnded = save([...countColumns, ...endColumns], noHolder.join(''))
const saveHeld = save([...countColumns, ...holderColumns])
const saveEndedAndHeld = save([...countColumns, ...holderColumns, ...endColumns])

/** The columns in the order of the SELECT. */
type WaitQueueRecord = readonly [
  queue: number,
  attempt: number,
  grantFrom: number,
  revision: number,
  waiterCount: number,
  outcomeCount: number,
  token: number | null,
  node: string | null,
  requestId: string,
  holderAttempt: number,
  since: number,
  ttlMs: number,
  leaseEndsAt: number,
  takeUpBy: number | null,
  seq: number,
  progress: string | null,
]

function decodeHolder(record: WaitQueueRecord): Holder | null {
  const [, , , , , , token, node, requestId, attempt, since, ttlMs, leaseEndsAt, takeUpBy, seq, progress] =
    record
  if (node === null) return null
  return { node, requestId, token: token!, attempt, since, ttlMs, leaseEndsAt, takeUpBy, seq, progress }
}
