import type {
  Holder,
  LastOutcome,
  LineRow,
  LineRows,
  Outcome,
  OutcomeKind,
  Requester,
  Waiter,
  Want,
} from '../../lines/index.ts'
import type { LockKey } from '../../locks/index.ts'
import type { Connection } from './connection.ts'
import { readLeaseClock } from './leaseclock.ts'

/**
 * The rows of one line, on the writer's connection and inside its transaction: SQLite has one writer, so nobody else is
 * in any line meanwhile. The line's row is read once and written once, with the numbers of those beside it.
 */
export class SqliteLine implements LineRows {
  readonly #connection: Connection
  readonly #namespace: string
  readonly #key: LockKey
  readonly #wall: number
  readonly #now = readLeaseClock()
  /** Undefined while there is no row yet. */
  #line: number | undefined
  #waiterCount = 0
  #outcomeCount = 0
  #counted = ''

  constructor(connection: Connection, namespace: string, key: LockKey, wall: number) {
    this.#connection = connection
    this.#namespace = namespace
    this.#key = key
    this.#wall = wall
  }

  clock(): { now: number; wall: number } {
    return { now: this.#now, wall: this.#wall }
  }

  line(): LineRow | undefined {
    const record = this.#connection.get<LineRecord>(
      `SELECT * FROM lock_line WHERE namespace = ?1 AND operation = ?2 AND resource = ?3`,
      this.#namespace,
      this.#key.operation,
      this.#key.resource,
    )
    if (!record) return undefined
    this.#line = record.line
    this.#waiterCount = record.waiter_count
    this.#outcomeCount = record.outcome_count
    this.#counted = this.#counts()
    return decodeLine(record)
  }

  saveLine(row: LineRow, dueAt: number | null): void {
    const { holder, lastOutcome } = row
    const values = [
      row.attempt,
      row.grantFrom,
      row.revision,
      dueAt,
      this.#waiterCount,
      this.#outcomeCount,
      holder?.node ?? null,
      holder?.requestId ?? null,
      holder?.token ?? null,
      holder?.attempt ?? null,
      holder?.since ?? null,
      holder?.ttlMs ?? null,
      holder?.leaseEndsAt ?? null,
      holder?.takeUpBy ?? null,
      holder?.seq ?? null,
      holder?.progress ?? null,
      lastOutcome?.outcome ?? null,
      lastOutcome?.node ?? null,
      lastOutcome?.attempt ?? null,
      lastOutcome?.at ?? null,
      lastOutcome?.value ?? null,
    ]
    this.#connection.run(
      `UPDATE lock_line
       SET attempt = ?2, grant_from = ?3, revision = ?4, due_at = ?5, waiter_count = ?6, outcome_count = ?7,
           node = ?8, request_id = ?9, token = ?10, held_attempt = ?11, since = ?12, ttl_ms = ?13,
           lease_ends_at = ?14, take_up_by = ?15, seq = ?16, progress = ?17, last_outcome = ?18, last_node = ?19,
           last_attempt = ?20, ended_at = ?21, last_value = ?22
       WHERE line = ?1`,
      this.#ownLine(),
      ...values,
    )
    this.#counted = this.#counts()
  }

  mintToken(): number {
    const { last_token: token } = this.#connection.get<{ last_token: number }>(
      `INSERT INTO lock_shard (shard, last_token) VALUES (?1, ?2)
       ON CONFLICT (shard) DO UPDATE SET last_token = max(last_token + 1, excluded.last_token)
       RETURNING last_token`,
      shardOf(this.#namespace, this.#key.resource),
      this.#wall * 1_000,
    )!
    return token
  }

  waiter({ node, requestId }: Requester): Waiter | undefined {
    if (this.#waiterCount === 0) return undefined
    const record = this.#connection.get<WaiterRecord>(
      `SELECT * FROM lock_waiter WHERE line = ?1 AND node = ?2 AND request_id = ?3`,
      this.#line!,
      node,
      requestId,
    )
    return record && decodeWaiter(record)
  }

  firstWaiter(): Waiter | undefined {
    if (this.#waiterCount === 0) return undefined
    const record = this.#connection.get<WaiterRecord>(
      `SELECT * FROM lock_waiter WHERE line = ?1 ORDER BY seq LIMIT 1`,
      this.#line!,
    )
    return record && decodeWaiter(record)
  }

  countWaiters(beforeSeq?: number): number {
    if (beforeSeq === undefined || this.#waiterCount === 0) return this.#waiterCount
    const { many } = this.#connection.get<{ many: number }>(
      `SELECT count(*) AS many FROM lock_waiter WHERE line = ?1 AND seq < ?2`,
      this.#line!,
      beforeSeq,
    )!
    return many
  }

  saveWaiter(waiter: Waiter): void {
    const changed = this.#connection.run(
      `UPDATE lock_waiter SET lease_ends_at = ?4, deadline_at = ?5, is_streamed = ?6
       WHERE line = ?1 AND node = ?2 AND request_id = ?3`,
      this.#ownLine(),
      waiter.node,
      waiter.requestId,
      waiter.leaseEndsAt,
      waiter.deadlineAt,
      Number(waiter.isStreamed),
    )
    if (changed > 0) return
    this.#connection.run(
      `INSERT INTO lock_waiter (
         line, seq, node, request_id, want, ttl_ms, since, lease_ends_at, deadline_at, is_streamed)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`,
      this.#ownLine(),
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
      `DELETE FROM lock_waiter WHERE line = ?1 AND node = ?2 AND request_id = ?3`,
      this.#ownLine(),
      node,
      requestId,
    )
  }

  outcome({ node, requestId }: Requester): Outcome | undefined {
    if (this.#outcomeCount === 0) return undefined
    const record = this.#connection.get<OutcomeRecord>(
      `SELECT * FROM lock_outcome WHERE line = ?1 AND node = ?2 AND request_id = ?3 AND kept_until > ?4`,
      this.#line!,
      node,
      requestId,
      this.#now,
    )
    return record && decodeOutcome(record)
  }

  saveOutcome(outcome: Outcome): void {
    this.removeOutcome(outcome)
    this.#connection.run(
      `INSERT INTO lock_outcome (line, node, request_id, seq, kind, value, is_told, kept_until, revision)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`,
      this.#ownLine(),
      outcome.node,
      outcome.requestId,
      outcome.seq,
      outcome.kind,
      outcome.value,
      Number(outcome.isTold),
      outcome.keptUntil,
      outcome.revision,
    )
    this.#outcomeCount++
  }

  removeOutcome({ node, requestId }: Requester): void {
    if (this.#outcomeCount === 0) return
    this.#outcomeCount -= this.#connection.run(
      `DELETE FROM lock_outcome WHERE line = ?1 AND node = ?2 AND request_id = ?3`,
      this.#line!,
      node,
      requestId,
    )
  }

  dissolve(wants: 'result' | 'all', outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>): number {
    if (this.#waiterCount === 0) return 0
    const { kind, value, isTold, keptUntil, revision } = outcome
    const many = this.#connection.run(
      `INSERT OR REPLACE INTO lock_outcome (line, node, request_id, seq, kind, value, is_told, kept_until, revision)
       SELECT line, node, request_id, seq, ?3, ?4, ?5, ?6, ?7 FROM lock_waiter
       WHERE line = ?1 AND (want = ?2 OR ?2 = 'all')`,
      this.#line!,
      wants,
      kind,
      value,
      Number(isTold),
      keptUntil,
      revision,
    )
    this.#waiterCount -= this.#connection.run(
      `DELETE FROM lock_waiter WHERE line = ?1 AND (want = ?2 OR ?2 = 'all')`,
      this.#line!,
      wants,
    )
    // Who waits has no outcome: it was removed when the wait began.
    this.#outcomeCount += many
    return many
  }

  /** Writes the numbers of those beside the line where a rule changed them and nothing else. */
  close(): void {
    if (this.#line === undefined || this.#counts() === this.#counted) return
    this.#connection.run(
      `UPDATE lock_line SET waiter_count = ?2, outcome_count = ?3 WHERE line = ?1`,
      this.#line,
      this.#waiterCount,
      this.#outcomeCount,
    )
  }

  #counts(): string {
    return `${this.#waiterCount} ${this.#outcomeCount}`
  }

  #ownLine(): number {
    this.#line ??= Number(
      this.#connection
        .prepare(
          `INSERT INTO lock_line (namespace, operation, resource, attempt, grant_from, revision)
           VALUES (?1, ?2, ?3, 0, 0, 0)`,
        )
        .run(this.#namespace, this.#key.operation, this.#key.resource).lastInsertRowid,
    )
    return this.#line
  }
}

/** Tokens count up per shard: few rows that are never deleted, and no two keys of a resource apart. */
function shardOf(namespace: string, resource: string): number {
  let hash = 0x811c9dc5
  for (const text of [namespace, '\0', resource]) {
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  return (hash >>> 0) % 64
}

export interface LineRecord {
  readonly line: number
  readonly operation: string
  readonly resource: string
  readonly attempt: number
  readonly grant_from: number
  readonly revision: number
  readonly waiter_count: number
  readonly outcome_count: number
  readonly node: string | null
  readonly request_id: string
  readonly token: number
  readonly held_attempt: number
  readonly since: number
  readonly ttl_ms: number
  readonly lease_ends_at: number
  readonly take_up_by: number | null
  readonly seq: number
  readonly progress: string | null
  readonly last_outcome: LastOutcome['outcome'] | null
  readonly last_node: string
  readonly last_attempt: number
  readonly ended_at: number
  readonly last_value: string | null
}

interface WaiterRecord {
  readonly seq: number
  readonly node: string
  readonly request_id: string
  readonly want: Want
  readonly ttl_ms: number
  readonly since: number
  readonly lease_ends_at: number
  readonly deadline_at: number | null
  readonly is_streamed: number
}

interface OutcomeRecord {
  readonly node: string
  readonly request_id: string
  readonly seq: number
  readonly kind: OutcomeKind
  readonly value: string | null
  readonly is_told: number
  readonly kept_until: number
  readonly revision: number
}

function decodeLine(record: LineRecord): LineRow {
  return {
    holder: decodeHolder(record),
    attempt: record.attempt,
    grantFrom: record.grant_from,
    revision: record.revision,
    lastOutcome: decodeLastOutcome(record),
  }
}

export function decodeHolder(record: LineRecord): Holder | null {
  if (record.node === null) return null
  return {
    node: record.node,
    requestId: record.request_id,
    token: record.token,
    attempt: record.held_attempt,
    since: record.since,
    ttlMs: record.ttl_ms,
    leaseEndsAt: record.lease_ends_at,
    takeUpBy: record.take_up_by,
    seq: record.seq,
    progress: record.progress,
  }
}

export function decodeLastOutcome(record: LineRecord): LastOutcome | null {
  if (record.last_outcome === null) return null
  return {
    outcome: record.last_outcome,
    node: record.last_node,
    attempt: record.last_attempt,
    at: record.ended_at,
    value: record.last_value,
  }
}

function decodeWaiter(record: WaiterRecord): Waiter {
  return {
    node: record.node,
    requestId: record.request_id,
    seq: record.seq,
    want: record.want,
    ttlMs: record.ttl_ms,
    since: record.since,
    leaseEndsAt: record.lease_ends_at,
    deadlineAt: record.deadline_at,
    isStreamed: record.is_streamed === 1,
  }
}

function decodeOutcome(record: OutcomeRecord): Outcome {
  return {
    node: record.node,
    requestId: record.request_id,
    seq: record.seq,
    kind: record.kind,
    value: record.value,
    isTold: record.is_told === 1,
    keptUntil: record.kept_until,
    revision: record.revision,
  }
}
