import type { Outcome, Requester, Waiter } from '../../../locks/rules/index.ts'
import {
  type FoundRequester,
  LineBook,
  type LinePages,
  type LineWrites,
  openedHeadSize,
} from '../../sql/wait-queue-book.ts'
import { type LineName, shardOf } from '../../sql/wait-queue-key.ts'
import {
  decodeLine,
  decodeOutcome,
  decodeWaiter,
  lineColumns,
  type StoredLine,
  type StoredOutcome,
  type StoredWaiter,
  waiterColumns,
} from '../../sql/wait-queue-record.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import { packStatements } from '../connection/packets.ts'
import type { LockTables } from '../tables.ts'
import { encodeResult, encodeWrites } from './wait-queue-writes.ts'

/**
 * The rows of one line in one transaction on one connection.
 *
 * The line's own row is its lock. Where there is none it is inserted, blank, with revision 0. A transaction that had
 * nothing to write is rolled back, so one stays so only beside another line that changed, until the next sweep: it is
 * as good as none.
 */
export class MariadbLine implements LinePages {
  readonly #call: Call
  readonly #tables: LockTables
  readonly #line: LineName
  readonly #packetBytes: number
  /** Something else than the blank row. */
  #hasWritten = false

  constructor(call: Call, tables: LockTables, line: LineName, packetBytes: number) {
    this.#call = call
    this.#tables = tables
    this.#line = line
    this.#packetBytes = packetBytes
  }

  get operation(): string {
    return this.#line.operation
  }

  /** Waits for the line, in a statement of its own: what follows sees what was committed before. */
  lockStatement(): Statement {
    const { lineKey, namespace, operation, resource } = this.#line
    return [
      // It takes the row exclusively at once; INSERT IGNORE would share it first, and two who share it deadlock.
      `INSERT INTO ${this.#tables.line} (queue_key, namespace, operation, resource) VALUES (?, ?, ?, ?)
        ON DUPLICATE KEY UPDATE revision = revision`,
      [lineKey, namespace, operation, resource],
    ]
  }

  /** Reads the line, and the head of it. */
  readStatements(): readonly [Statement, Statement] {
    const { line, outcome } = this.#tables
    const { lineKey } = this.#line
    return [
      [
        `SELECT ${readColumns}, EXISTS (SELECT 1 FROM ${outcome} WHERE queue_key = ?) AS has_outcomes
          FROM ${line} WHERE queue_key = ?`,
        [lineKey, lineKey],
      ],
      this.#selectHead(openedHeadSize),
    ]
  }

  bookOf([opened]: readonly OpenedRow[], head: readonly StoredWaiter[]): LineBook {
    return this.#bookOf(opened!, head, opened!.has_outcomes === 1)
  }

  /** The same without waiting, with those who wait at these places; undefined when it is gone or somebody has it. */
  async tryOpen(
    seqs: readonly number[],
  ): Promise<{ readonly book: LineBook; readonly waiters: readonly Waiter[] } | undefined> {
    const { line, waiter } = this.#tables
    const { lineKey } = this.#line
    const [, [opened], head, rows] = (await this.#call.packet([
      begin,
      [`SELECT ${readColumns} FROM ${line} WHERE queue_key = ? FOR UPDATE SKIP LOCKED`, [lineKey]],
      this.#selectHead(openedHeadSize),
      [
        `SELECT ${waiterColumns.join(', ')} FROM ${waiter} FORCE INDEX (PRIMARY)
          WHERE queue_key = ? AND seq IN (?)`,
        [lineKey, seqs.length === 0 ? [0] : seqs],
      ],
    ])) as [unknown, OpenedRow[], StoredWaiter[], StoredWaiter[]]
    if (!opened) return undefined
    // Whether there are outcomes was not asked: those who sweep look at none.
    const book = this.#bookOf(opened, head, true)
    const waiters = rows.map(decodeWaiter)
    book.note(waiters)
    return { book, waiters }
  }

  #bookOf(opened: OpenedRow, head: readonly StoredWaiter[], hasOutcomes: boolean): LineBook {
    return new LineBook(this, {
      operation: this.#line.operation,
      now: opened.now,
      row: opened.revision === 0 ? undefined : decodeLine(opened),
      dueAt: opened.due_at === null ? null : Number(opened.due_at),
      waiterCount: Number(opened.waiter_count),
      head: head.map(decodeWaiter),
      hasOutcomes,
    })
  }

  async find(who: Requester, writes: LineWrites): Promise<FoundRequester> {
    const { waiter, outcome, result } = this.#tables
    const named = [this.#line.lineKey, who.node, who.requestId]
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

  async head(limit: number, writes: LineWrites): Promise<readonly Waiter[]> {
    const answers = await this.send([...this.encode(writes), this.#selectHead(limit)])
    return (answers.at(-1) as StoredWaiter[]).map(decodeWaiter)
  }

  async countBefore(seq: number, writes: LineWrites): Promise<number> {
    const answers = await this.send([
      ...this.encode(writes),
      [
        `SELECT COUNT(*) AS \`before\` FROM ${this.#tables.waiter} FORCE INDEX (PRIMARY)
          WHERE queue_key = ? AND seq < ?`,
        [this.#line.lineKey, seq],
      ],
    ])
    return Number((answers.at(-1) as { before: number }[])[0]!.before)
  }

  async dissolve(
    wants: 'result' | 'all',
    { kind, value, isTold, keptUntil, revision }: Omit<Outcome, 'node' | 'requestId' | 'seq'>,
    writes: LineWrites,
  ): Promise<number> {
    const { waiter, outcome } = this.#tables
    const { lineKey } = this.#line
    this.#hasWritten = true
    const wanting = wants === 'all' ? '' : `AND want = 'result'`
    const answers = await this.send([
      ...this.encode(writes),
      ...(value === null ? [] : [encodeResult(this.#tables, this.#line, { revision, value, keptUntil })]),
      [
        `INSERT INTO ${outcome} (queue_key, namespace, node, request_id, kind, seq, is_told, kept_until, revision)
          SELECT queue_key, namespace, node, request_id, ?, seq, ?, ?, ? FROM ${waiter} WHERE queue_key = ? ${wanting}
          ON DUPLICATE KEY UPDATE kind = VALUES(kind), seq = VALUES(seq), is_told = VALUES(is_told),
            kept_until = VALUES(kept_until), revision = VALUES(revision)`,
        [kind, isTold, keptUntil, revision, lineKey],
      ],
      [`DELETE FROM ${waiter} WHERE queue_key = ? ${wanting}`, [lineKey]],
    ])
    return rowCount(answers.at(-1))
  }

  async mintToken(): Promise<number> {
    const { shard } = this.#tables
    const number = shardOf(this.#line)
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
      [this.#line.lineKey, limit],
    ]
  }

  get hasWritten(): boolean {
    return this.#hasWritten
  }

  encode(writes: LineWrites): readonly Statement[] {
    const statements = encodeWrites(this.#tables, this.#line, writes)
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

/** Begins, waits for the lines in the order given and reads them; by operation. */
export async function openLines(
  call: Call,
  lines: readonly MariadbLine[],
): Promise<ReadonlyMap<string, LineBook>> {
  const answers = await call.packet([
    begin,
    ...lines.map((line) => line.lockStatement()),
    ...lines.flatMap((line) => line.readStatements()),
  ])
  const read = answers.slice(1 + lines.length) as (OpenedRow[] & StoredWaiter[])[]
  return new Map(
    lines.map((line, at) => [line.operation, line.bookOf(read[2 * at]!, read[2 * at + 1]!)] as const),
  )
}

export async function commitLines(
  call: Call,
  changes: readonly (readonly [MariadbLine, LineWrites])[],
): Promise<void> {
  const statements = changes.flatMap(([line, writes]) => line.encode(writes))
  if (changes.some(([line]) => line.hasWritten)) await changes[0]![0].send([...statements, commit])
  else await call.packet([['ROLLBACK', []]])
}

const readColumns = `${lineColumns.join(', ')}, ${nowMs} AS now`

interface OpenedRow extends StoredLine {
  readonly now: number
  readonly has_outcomes: number
}
