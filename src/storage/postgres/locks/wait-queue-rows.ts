import type { PoolClient, QueryResult, QueryResultRow } from 'pg'
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
  lastValues,
  queueValues,
  type StoredOutcome,
  type StoredWaiter,
  type StoredWaitQueue,
  type WaitQueueSave,
  waiterDueAt,
} from '../../sql/locks/wait-queue-record.ts'
import type { Connections, Statement } from '../connection/connection.ts'
import { inOnePacket } from '../connection/driver.ts'
import type { WaitQueueStatements } from './wait-queue-statements.ts'

/** The rows of one wait queue in one transaction on one connection; all that is sent together goes out in one packet. */
export class PostgresWaitQueue implements WaitQueueCalls {
  readonly #connections: Connections
  readonly #client: PoolClient
  readonly #statements: WaitQueueStatements
  readonly #queue: WaitQueueName

  constructor(
    connections: Connections,
    client: PoolClient,
    statements: WaitQueueStatements,
    queue: WaitQueueName,
  ) {
    this.#connections = connections
    this.#client = client
    this.#statements = statements
    this.#queue = queue
  }

  get operation(): string {
    return this.#queue.operation
  }

  /** Waits for the wait queue. In a packet. */
  lock(): Promise<unknown> {
    return this.#send(this.#statements.lock, [])
  }

  /** Reads it. In a packet, after the lock. */
  async read(): Promise<WaitQueueBuffer> {
    const [[opened], head] = await Promise.all([this.#readLine(), this.#readHead()])
    return this.#bufferOf(opened!, head)
  }

  /** The same without waiting, with those who wait at these positions; undefined when somebody else has the wait queue. */
  async tryOpen(
    seqs: readonly number[],
  ): Promise<{ readonly buffer: WaitQueueBuffer; readonly waiters: readonly Waiter[] } | undefined> {
    const { tryLock, atPositions } = this.#statements
    const [, [lock], [opened], head, rows] = await inOnePacket(this.#client, () =>
      Promise.all([
        this.#client.query(begin),
        this.#rows<{ got: boolean }>(tryLock, []),
        this.#readLine(),
        this.#readHead(),
        seqs.length === 0 ? [] : this.#rows<StoredWaiter>(atPositions, [seqs]),
      ]),
    )
    if (!lock!.got) return undefined
    const buffer = this.#bufferOf(opened!, head)
    const waiters = rows.map(decodeWaiter)
    buffer.note(waiters)
    return { buffer, waiters }
  }

  #readLine(): Promise<OpenedRow[]> {
    return this.#rows<OpenedRow>(this.#statements.open, [])
  }

  #readHead(): Promise<StoredWaiter[]> {
    return this.#rows<StoredWaiter>(this.#statements.head, [openedHeadSize])
  }

  #bufferOf(opened: OpenedRow, head: readonly StoredWaiter[]): WaitQueueBuffer {
    const isThere = opened.queue_key !== null
    return new WaitQueueBuffer(this, {
      operation: this.#queue.operation,
      now: Number(opened.now),
      row: isThere ? decodeQueue(opened) : undefined,
      dueAt: opened.due_at === null ? null : Number(opened.due_at),
      waiterCount: isThere ? Number(opened.waiter_count) : 0,
      head: head.map(decodeWaiter),
      hasOutcomes: opened.has_outcomes,
    })
  }

  async find(who: Requester, writes: WaitQueueWrites): Promise<FoundRequester> {
    const { findWaiter, findOutcome } = this.#statements
    const named = [who.node, who.requestId]
    const [[waiter], [outcome]] = await this.#after(writes, () =>
      Promise.all([
        this.#rows<StoredWaiter & { before: string }>(findWaiter, named),
        this.#rows<StoredOutcome>(findOutcome, named),
      ]),
    )
    return {
      waiter: waiter && decodeWaiter(waiter),
      before: Number(waiter?.before ?? 0),
      outcome: outcome && decodeOutcome(who, outcome),
    }
  }

  async head(limit: number, writes: WaitQueueWrites): Promise<readonly Waiter[]> {
    const rows = await this.#after(writes, () => this.#rows<StoredWaiter>(this.#statements.head, [limit]))
    return rows.map(decodeWaiter)
  }

  async countBefore(seq: number, writes: WaitQueueWrites): Promise<number> {
    const [row] = await this.#after(writes, () =>
      this.#rows<{ before: string }>(this.#statements.countBefore, [seq]),
    )
    return Number(row!.before)
  }

  async dissolve(
    wants: 'result' | 'all',
    { kind, value, isTold, keptUntil, revision }: Omit<Outcome, 'node' | 'requestId' | 'seq'>,
    writes: WaitQueueWrites,
  ): Promise<number> {
    const { namespace } = this.#queue
    const results = value === null ? writes.results : [...writes.results, { revision, value, keptUntil }]
    const [row] = await this.#after({ ...writes, results }, () =>
      this.#rows<{ count: string }>(this.#statements.dissolve, [
        namespace,
        wants === 'all',
        kind,
        isTold,
        keptUntil,
        revision,
      ]),
    )
    return Number(row!.count)
  }

  async mintToken(): Promise<number> {
    const { rows } = await this.#connections.send<{ last_token: string }>(
      this.#client,
      this.#statements.mint,
      [shardOf(this.#queue)],
    )
    return Number(rows[0]!.last_token)
  }

  async #after<Answer>(writes: WaitQueueWrites, ask: () => Promise<Answer>): Promise<Answer> {
    const [answer] = await inOnePacket(this.#client, () => {
      const written = this.write(writes)
      return Promise.all([ask(), ...written])
    })
    return answer
  }

  /** Sends all of it. In a packet. */
  write(writes: WaitQueueWrites): Promise<unknown>[] {
    const { removeWaiters, saveWaiters, removeOutcome, saveOutcomes, saveResult, saveQueue } =
      this.#statements
    const { namespace } = this.#queue
    const sent: Promise<unknown>[] = []
    if (writes.goneSeqs.length > 0) sent.push(this.#send(removeWaiters, [writes.goneSeqs]))
    if (writes.waiters.length > 0)
      sent.push(this.#send(saveWaiters, [namespace, ...waiterArrays(writes.waiters)]))
    for (const { node, requestId } of writes.goneOutcomes)
      sent.push(this.#send(removeOutcome, [node, requestId]))
    for (const { revision, value, keptUntil } of writes.results)
      sent.push(this.#send(saveResult, [namespace, revision, value, keptUntil]))
    if (writes.outcomes.length > 0)
      sent.push(this.#send(saveOutcomes, [namespace, ...outcomeArrays(writes.outcomes)]))
    if (writes.queue) sent.push(this.#send(saveQueue, this.#queueParams(writes.queue)))
    return sent
  }

  #queueParams(save: WaitQueueSave): unknown[] {
    const { namespace, operation, resource } = this.#queue
    return [namespace, operation, resource, ...queueValues(save), ...lastValues(save), save.writesProgress]
  }

  async #rows<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<Row[]> {
    return (await this.#send<Row>(statement, values)).rows
  }

  /** Every statement but `mint` has the wait queue's key as its first value. */
  #send<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<QueryResult<Row>> {
    return this.#connections.send<Row>(this.#client, statement, [this.#queue.queueKey, ...values])
  }
}

const begin = 'BEGIN ISOLATION LEVEL READ COMMITTED'

/** Begins, waits for the wait queues in the order given and reads them; by operation. */
export async function openQueues(
  client: PoolClient,
  queues: readonly PostgresWaitQueue[],
): Promise<ReadonlyMap<string, WaitQueueBuffer>> {
  const [, , buffers] = await inOnePacket(client, () =>
    Promise.all([
      client.query(begin),
      Promise.all(queues.map((queue) => queue.lock())),
      Promise.all(queues.map((queue) => queue.read())),
    ]),
  )
  return new Map(buffers.map((buffer) => [buffer.operation(), buffer]))
}

/** Writes and commits; who has nothing to write only ends. */
export async function commitQueues(
  client: PoolClient,
  changes: readonly (readonly [PostgresWaitQueue, WaitQueueWrites])[],
): Promise<void> {
  // COMMIT goes out at once: behind a statement that failed it is a rollback.
  const [committed] = await inOnePacket(client, () => {
    const written = changes.flatMap(([queue, writes]) => queue.write(writes))
    return Promise.all([client.query('COMMIT'), ...written])
  })
  if (committed.command !== 'COMMIT') throw new Error(`COMMIT was answered with ${committed.command}`)
}

interface OpenedRow extends StoredWaitQueue {
  readonly now: string
  readonly queue_key: string | null
  readonly has_outcomes: boolean
}

function namesOf(requesters: readonly Requester[]): unknown[] {
  return [requesters.map(({ node }) => node), requesters.map(({ requestId }) => requestId)]
}

function waiterArrays(waiters: readonly Waiter[]): unknown[] {
  return [
    ...namesOf(waiters),
    waiters.map(({ seq }) => seq),
    waiters.map(({ want }) => want),
    waiters.map(({ ttlMs }) => ttlMs),
    waiters.map(({ since }) => since),
    waiters.map(({ leaseEndsAt }) => leaseEndsAt),
    waiters.map(({ deadlineAt }) => deadlineAt),
    waiters.map(({ isStreamed }) => isStreamed),
    waiters.map(waiterDueAt),
  ]
}

function outcomeArrays(outcomes: readonly Outcome[]): unknown[] {
  return [
    ...namesOf(outcomes),
    outcomes.map(({ kind }) => kind),
    outcomes.map(({ seq }) => seq),
    outcomes.map(({ isTold }) => isTold),
    outcomes.map(({ keptUntil }) => keptUntil),
    outcomes.map(({ revision }) => revision),
  ]
}
