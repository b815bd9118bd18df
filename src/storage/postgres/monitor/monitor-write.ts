import type {
  BatchAnswer,
  Known,
  KnownAsk,
  MonitorStore,
  ReportBatch,
  WindowRecord,
} from '../../../monitor/monitor-store.ts'
import { claimAsDone } from '../../sql/guards/guard-claims.ts'
import {
  decodeKnownSubject,
  decodeWindow,
  type KnownSubjectRow,
  type WindowRow,
} from '../../sql/monitor-row.ts'
import type { Connections } from '../connection/connection.ts'
import type { PostgresDatabase } from '../connection/database.ts'
import { inOnePacket } from '../connection/driver.ts'
import type { Sender } from '../connection/sender.ts'
import { plainAdd } from '../jobs/add.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import type { Pinned } from '../jobs/pinned.ts'
import type { MonitorRules } from './monitor-rules.ts'
import {
  decisionValues,
  newSubjectValues,
  notificationValues,
  type ReportStatements,
  reservationValues,
  subjectValues,
} from './monitor-statements.ts'
import { transact } from './monitor-transaction.ts'

/**
 * Reports. What is known is read by one statement, so it was so at one moment. A batch is one transaction in two trips:
 *
 *     BEGIN, share the rules, read their revision, write subjects, claim events ──▶ the rest, COMMIT
 *
 * Subjects are written where they have the version that was decided on; if not all of them do, all is taken back. Rows
 * are written in the same order by everybody: subjects that are known, new ones, events, windows, each sorted.
 */
export class MonitorReports implements Pick<MonitorStore, 'known' | 'write'> {
  readonly #connections: Connections
  readonly #space: Space
  readonly #rules: MonitorRules
  readonly #statements: ReportStatements
  readonly #database: PostgresDatabase

  constructor(
    connections: Connections,
    space: Space,
    rules: MonitorRules,
    statements: ReportStatements,
    database: PostgresDatabase,
  ) {
    this.#connections = connections
    this.#space = space
    this.#rules = rules
    this.#statements = statements
    this.#database = database
  }

  async known({ subjects, throttles }: KnownAsk): Promise<Known> {
    const { rows } = await this.#connections.run<KnownRow>(this.#statements.known, [
      this.#space.namespace,
      subjects,
      throttles.map(({ subscriptionId }) => subscriptionId),
      throttles.map(({ perMs }) => perMs),
    ])
    const found = new Map<string | null, KnownRow>()
    const windows = new Map<string, WindowRecord[]>()
    for (const row of rows) {
      const { subject, open_window: window } = row
      if (window === null) found.set(subject, row)
      else if (windows.has(subject!)) windows.get(subject!)!.push(decodeWindow(window))
      else windows.set(subject!, [decodeWindow(window)])
    }
    const all = found.get(null)!
    return {
      now: Number(all.observed_at),
      revision: Number(all.version),
      counts: JSON.parse(all.state),
      subjects: subjects.map((subject) => {
        const row = found.get(subject)
        return row && decodeKnownSubject(row as KnownSubjectRow, windows.get(subject) ?? [])
      }),
    }
  }

  write(batch: ReportBatch): Promise<BatchAnswer> {
    return transact(
      this.#connections,
      (tx, keep) => this.#write(tx, batch, keep),
      ({ status }) => status === 'written',
    )
  }

  async #write(tx: Pinned, batch: ReportBatch, keep: () => void): Promise<BatchAnswer> {
    const [revision, isUsedUp, written, taken] = await Promise.all([
      this.#rules.share(tx),
      this.#isUsedUp(tx, batch.throttles),
      this.#writeSubjects(tx, batch.subjects),
      this.#claimEvents(tx, batch.events),
    ])
    if (revision !== batch.revision || isUsedUp || !written) return { status: 'overtaken' }
    if (taken.length > 0) return { status: 'duplicate', events: taken }
    // Nothing of this depends on an answer, so the commit goes out with it.
    await tx.use((client) =>
      inOnePacket(client, () => {
        const sent = this.#writeRest(tx, batch)
        keep()
        return Promise.all(sent)
      }),
    )
    return { status: 'written' }
  }

  #writeRest(
    tx: Sender,
    { reservations, decisions, notifications, jobs }: ReportBatch,
  ): readonly Promise<unknown>[] {
    const { namespace, cursors } = this.#space
    const { reserve, decide, notify } = this.#statements
    const sent: Promise<unknown>[] = []
    if (reservations.length > 0) sent.push(tx.run(reserve, reservationValues(namespace, reservations)))
    if (decisions.length > 0) sent.push(tx.run(decide, decisionValues(namespace, decisions)))
    if (notifications.length > 0) sent.push(tx.run(notify, notificationValues(namespace, notifications)))
    if (jobs.length > 0) {
      // The monitor's own jobs have no unique keys.
      const { statement, values } = plainAdd(this.#space.statements.add, namespace, jobs)
      sent.push(tx.run(statement, values))
      tx.onCommit(() => cursors.added(jobs))
    }
    return sent
  }

  /** Whether others have used up a throttle; until the commit no others can. */
  async #isUsedUp(tx: Sender, throttles: ReportBatch['throttles']): Promise<boolean> {
    if (throttles.length === 0) return false
    const { namespace } = this.#space
    const ids = throttles.map(({ subscriptionId }) => subscriptionId)
    const spans = throttles.map(({ perMs }) => perMs)
    const most = throttles.map((throttle) => throttle.most)
    const [, { rows }] = await Promise.all([
      tx.run(this.#statements.queue, [namespace, ids]),
      tx.run<{ used_up: number }>(this.#statements.throttles, [namespace, ids, spans, most]),
    ])
    return rows[0]!.used_up > 0
  }

  /** Whether all of them had the version decided on. */
  async #writeSubjects(tx: Sender, subjects: ReportBatch['subjects']): Promise<boolean> {
    const { namespace } = this.#space
    const { newSubjects, subjects: knownSubjects } = this.#statements
    const known = subjects.filter(({ version }) => version > 0)
    const fresh = known.length === subjects.length ? [] : subjects.filter(({ version }) => version === 0)
    const results = await Promise.all([
      known.length > 0 && tx.run(knownSubjects, subjectValues(namespace, known)),
      fresh.length > 0 && tx.run(newSubjects, newSubjectValues(namespace, fresh)),
    ])
    const written = results.reduce((sum, result) => sum + (result ? (result.rowCount ?? 0) : 0), 0)
    return written === subjects.length
  }

  /** Claims event ids as done; answers those that are taken. */
  #claimEvents(tx: Sender, events: ReportBatch['events']): Promise<readonly string[]> {
    const claiming = claimAsDone(this.#space.namespace, 'monitor.event', events)
    return tx.use((client) => this.#database.runWithin(client, claiming))
  }
}

/** A subject; or a window of one, if `open_window` is set; or, of no subject, what is known of all. */
interface KnownRow extends Omit<KnownSubjectRow, 'subject'> {
  readonly subject: string | null
  readonly open_window: WindowRow | null
}
