import type { Outcome, Requester, Waiter } from '../../../locks/rules/index.ts'
import {
  type FoundRequester,
  openedHeadSize,
  WaitQueueBuffer,
  type WaitQueueCalls,
  type WaitQueueWrites,
} from '../../sql/locks/wait-queue-buffer.ts'
import { shardOf, type WaitQueueName } from '../../sql/locks/wait-queue-key.ts'
import {
  decodeOutcome,
  decodeQueue,
  decodeWaiter,
  queueColumns,
  type StoredOutcome,
  type StoredWaiter,
  type StoredWaitQueue,
  waiterColumns,
} from '../../sql/locks/wait-queue-record.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { packStatements } from '../connection/packets.ts'
import type { LockTables } from '../tables.ts'
import { encodeResult, encodeWrites } from './wait-queue-writes.ts'

/**
 * The rows of one wait queue in one transaction on one connection.
 *
 * The wait queue's own row is its lock. Where there is none it is inserted, blank, with revision 0. A transaction that had
 * nothing to write is rolled back, so one stays so only beside another wait queue that changed, until the next sweep: it is
 * as good as none.
 */
export class MariadbWaitQueue implements WaitQueueCalls {
  readonly #call: Call
  readonly #tables: LockTables
  readonly #queue: WaitQueueName
  readonly #packetBytes: number
  /** Something else than the blank row. */
  #hasWritten = false

  constructor(call: Call, tables: LockTables, queue: WaitQueueName, packetBytes: number) {
    this.#call = call
    this.#tables = tables
    this.#queue = queue
    this.#packetBytes = packetBytes
  }

  get operation(): string {
    return this.#queue.operation
  }

  /** Waits for the wait queue, in a statement of its own: what follows sees what was committed before. */
  lockStatement(): Statement {
    const { queueKey, namespace, operation, resource } = this.#queue
    return [
      // It takes the row exclusively at once; INSERT IGNORE would share it first, and two who share it deadlock.
      `INSERT INTO ${this.#tables.queue} (queue_key, namespace, operation, resource) VALUES (?, ?, ?, ?)
        ON DUPLICATE KEY UPDATE revision = revision`,
      [queueKey, namespace, operation, resource],
    ]
  }

  /** Reads the wait queue, and the head of it. */
  readStatements(): readonly [Statement, Statement] {
    const { queue, outcome } = this.#tables
    const { queueKey } = this.#queue
    return [
      [
        `SELECT ${readColumns}, EXISTS (SELECT 1 FROM ${outcome} WHERE queue_key = ?) AS has_outcomes
          FROM ${queue} WHERE queue_key = ?`,
        [queueKey, queueKey],
      ],
      this.#selectHead(openedHeadSize),
    ]
  }

  bufferOf([opened]: readonly OpenedRow[], head: readonly StoredWaiter[]): WaitQueueBuffer {
    return this.#bufferOf(opened!, head, opened!.has_outcomes === 1)
  }

  /** The same without waiting, with those who wait at these positions; undefined when it is gone or somebody has it. */
  async tryOpen(
    seqs: readonly number[],
  ): Promise<{ readonly buffer: WaitQueueBuffer; readonly waiters: readonly Waiter[] } | undefined> {
    const { queue, waiter } = this.#tables
    const { queueKey } = this.#queue
    const [, [opened], head, rows] = (await this.#call.packet([
      begin,
      [`SELECT ${readColumns} FROM ${queue} WHERE queue_key = ? FOR UPDATE SKIP LOCKED`, [queueKey]],
      this.#selectHead(openedHeadSize),
      [
        `SELECT ${waiterColumns.join(', ')} FROM ${waiter} FORCE INDEX (PRIMARY)
          WHERE queue_key = ? AND seq IN (?)`,
        [queueKey, seqs.length === 0 ? [0] : seqs],
      ],
    ])) as [unknown, OpenedRow[], StoredWaiter[], StoredWaiter[]]
    if (!opened) return undefined
    // Whether there are outcomes was not asked: those who sweep look at none.
    const buffer = this.#bufferOf(opened, head, true)
    const waiters = rows.map(decodeWaiter)
    buffer.note(waiters)
    return { buffer, waiters }
  }

  #bufferOf(opened: OpenedRow, head: readonly StoredWaiter[], hasOutcomes: boolean): WaitQueueBuffer {
    return new WaitQueueBuffer(this, {
      operation: this.#queue.operation,
      now: opened.now,
      row: opened.revision === 0 ? undefined : decodeQueue(opened),
      dueAt: opened.due_at === null ? null : Number(opened.due_at),
      waiterCount: Number(opened.waiter_count),
      head: head.map(decodeWaiter),
      hasOutcomes,
    })
  }

  async find(who: Requester, writes: WaitQueueWrites): Promise<FoundRequester> {
    const { waiter, outcome, result } = this.#tables
    const named = [this.#queue.queueKey, who.node, who.requestId]
    const answers = await this.send([
      ...this.encode(writes),
      [
        `SELECT ${waiterColumns.join(', ')},
            (SELECT COUNT(*) FROM ${waiter} b FORCE INDEX (PRIMARY)
              WHERE b.queue_key = w.queue_key AND b.seq < w.seq) AS \`before\`
          FROM ${waiter} w WHERE queue_key = ? AND node = ? AND request_id = ?`,
        named,
      ],
      [
        `SELECT o.kind, o.seq, o.is_told, o.kept_until, o.revision, r.value
          FROM ${outcome} o LEFT JOIN ${result} r ON r.queue_key = o.queue_key AND r.revision = o.revision
          WHERE o.queue_key = ? AND o.node = ? AND o.request_id = ?`,
        named,
      ],
    ])
    const [[found], [ended]] = answers.slice(-2) as [
      (StoredWaiter & { readonly before: number })[],
      StoredOutcome[],
    ]
    return {
      waiter: found && decodeWaiter(found),
      before: Number(found?.before ?? 0),
      outcome: ended && decodeOutcome(who, ended),
    }
  }

  async head(limit: number, writes: WaitQueueWrites): Promise<readonly Waiter[]> {
    const answers = await this.send([...this.encode(writes), this.#selectHead(limit)])
    return (answers.at(-1) as StoredWaiter[]).map(decodeWaiter)
  }

  async countBefore(seq: number, writes: WaitQueueWrites): Promise<number> {
    const answers = await this.send([
      ...this.encode(writes),
      [
        `SELECT COUNT(*) AS \`before\` FROM ${this.#tables.waiter} FORCE INDEX (PRIMARY)
          WHERE queue_key = ? AND seq < ?`,
        [this.#queue.queueKey, seq],
      ],
    ])
    return Number((answers.at(-1) as { before: number }[])[0]!.before)
  }

  async dissolve(
    wants: 'result' | 'all',
    { kind, value, isTold, keptUntil, revision }: Omit<Outcome, 'node' | 'requestId' | 'seq'>,
    writes: WaitQueueWrites,
  ): Promise<number> {
    const { waiter, outcome } = this.#tables
    const { queueKey } = this.#queue
    this.#hasWritten = true
    const wanting = wants === 'all' ? '' : `AND want = 'result'`
    const answers = await this.send([
      ...this.encode(writes),
      ...(value === null ? [] : [encodeResult(this.#tables, this.#queue, { revision, value, keptUntil })]),
      [
        `INSERT INTO ${outcome} (queue_key, namespace, node, request_id, kind, seq, is_told, kept_until, revision)
          SELECT queue_key, namespace, node, request_id, ?, seq, ?, ?, ? FROM ${waiter} WHERE queue_key = ? ${wanting}
          ON DUPLICATE KEY UPDATE kind = VALUES(kind), seq = VALUES(seq), is_told = VALUES(is_told),
            kept_until = VALUES(kept_until), revision = VALUES(revision)`,
        [kind, isTold, keptUntil, revision, queueKey],
      ],
      [`DELETE FROM ${waiter} WHERE queue_key = ? ${wanting}`, [queueKey]],
    ])
    return rowCount(answers.at(-1))
  }

  async mintToken(): Promise<number> {
    const { shard } = this.#tables
    const number = shardOf(this.#queue)
    const [, [row]] = (await this.#call.packet([
      [
        `UPDATE ${shard} SET last_token = GREATEST(last_token + 1,
          TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) WHERE shard = ?`,
        [number],
      ],
      [`SELECT last_token FROM ${shard} WHERE shard = ?`, [number]],
    ])) as [unknown, { last_token: number }[]]
    return row!.last_token
  }

  #selectHead(limit: number): Statement {
    return [
      `SELECT ${waiterColumns.join(', ')} FROM ${this.#tables.waiter} FORCE INDEX (PRIMARY)
        WHERE queue_key = ? ORDER BY seq LIMIT ?`,
      [this.#queue.queueKey, limit],
    ]
  }

  get hasWritten(): boolean {
    return this.#hasWritten
  }

  encode(writes: WaitQueueWrites): readonly Statement[] {
    const statements = encodeWrites(this.#tables, this.#queue, writes)
    this.#hasWritten ||= statements.length > 0
    return statements
  }

  /** In one packet, unless it would be larger than the server takes. */
  async send(statements: readonly Statement[]): Promise<readonly unknown[]> {
    const answers: unknown[] = []
    for (const packet of packStatements(statements, this.#packetBytes)) {
      answers.push(...(await this.#call.packet(packet)))
    }
    return answers
  }
}

/** Begins, waits for the wait queues in the order given and reads them; by operation. */
export async function openQueues(
  call: Call,
  queues: readonly MariadbWaitQueue[],
): Promise<ReadonlyMap<string, WaitQueueBuffer>> {
  const answers = await call.packet([
    begin,
    ...queues.map((queue) => queue.lockStatement()),
    ...queues.flatMap((queue) => queue.readStatements()),
  ])
  const read = answers.slice(1 + queues.length) as (OpenedRow[] & StoredWaiter[])[]
  return new Map(
    queues.map((queue, at) => [queue.operation, queue.bufferOf(read[2 * at]!, read[2 * at + 1]!)] as const),
  )
}

export async function commitQueues(
  call: Call,
  changes: readonly (readonly [MariadbWaitQueue, WaitQueueWrites])[],
): Promise<void> {
  const statements = changes.flatMap(([queue, writes]) => queue.encode(writes))
  if (changes.some(([queue]) => queue.hasWritten)) await changes[0]![0].send([...statements, commit])
  else await call.packet([['ROLLBACK', []]])
}

const readColumns = `${queueColumns.join(', ')}, ${nowMs} AS now`

interface OpenedRow extends StoredWaitQueue {
  readonly now: number
  readonly has_outcomes: number
}
