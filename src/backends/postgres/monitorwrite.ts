import type { BatchAnswer, Known, KnownAsk, MonitorStore, ReportBatch } from '../../monitor/store.ts'
import type { GuardAsk } from '../../once/store.ts'
import { decodeKnownSubject, decodeTold, type KnownSubjectRow, type ToldRow } from '../monitorrow.ts'
import { createNonce } from '../token.ts'
import type { Connections } from './connection.ts'
import { type ClaimRow, claimValues } from './guards.ts'
import type { GuardStatements } from './guardsql.ts'
import { PostgresJobs } from './jobs.ts'
import type { MonitorRules } from './monitorrules.ts'
import {
  decisionValues,
  notificationValues,
  type ReportStatements,
  reservationValues,
  subjectValues,
} from './monitorsql.ts'
import { transact } from './monitortx.ts'
import type { Sender } from './sender.ts'
import type { Space } from './space.ts'

/**
 * Reports. What is known is read by one statement, so it was so at one moment. A batch is one transaction in two trips:
 *
 *     BEGIN, share the rules, read their revision, write subjects, claim events ──▶ the rest, COMMIT
 *
 * Subjects are written where they have the version that was decided on; if not all of them do, all is taken back. Rows
 * are written in the same order by everybody: subjects, events, windows, each sorted.
 */
export class MonitorReports implements Pick<MonitorStore, 'known' | 'write'> {
  readonly #connections: Connections
  readonly #space: Space
  readonly #rules: MonitorRules
  readonly #statements: ReportStatements
  readonly #guards: GuardStatements

  constructor(
    connections: Connections,
    space: Space,
    rules: MonitorRules,
    statements: ReportStatements,
    guards: GuardStatements,
  ) {
    this.#connections = connections
    this.#space = space
    this.#rules = rules
    this.#statements = statements
    this.#guards = guards
  }

  async known({ subjects, throttles }: KnownAsk): Promise<Known> {
    const { rows } = await this.#connections.run<KnownRow>(this.#statements.known, [
      this.#space.namespace,
      subjects,
      throttles.map(({ subscriptionId }) => subscriptionId),
      throttles.map(({ perMs }) => perMs),
    ])
    const found = new Map(rows.map((row) => [row.subject, row]))
    const { now, revision, counts } = found.get(null)!.meta!
    return {
      now,
      revision,
      counts,
      subjects: subjects.map((subject) => {
        const row = found.get(subject)
        return row && decodeKnownSubject(row as KnownSubjectRow, (row.windows ?? []).map(decodeTold))
      }),
    }
  }

  write(batch: ReportBatch): Promise<BatchAnswer> {
    return transact(
      this.#connections,
      (tx) => this.#write(tx, batch),
      ({ status }) => status === 'written',
    )
  }

  async #write(tx: Sender, batch: ReportBatch): Promise<BatchAnswer> {
    const [revision, isUsedUp, written, taken] = await Promise.all([
      this.#rules.share(tx),
      this.#isUsedUp(tx, batch.throttles),
      this.#writeSubjects(tx, batch.subjects),
      this.#claimEvents(tx, batch.events),
    ])
    if (revision !== batch.revision || isUsedUp || !written) return { status: 'overtaken' }
    if (taken.length > 0) return { status: 'duplicate', events: taken }
    const { namespace } = this.#space
    const { reserve, decide, notify } = this.#statements
    const { reservations, decisions, notifications, jobs } = batch
    await Promise.all([
      reservations.length > 0 && tx.run(reserve, reservationValues(namespace, reservations)),
      decisions.length > 0 && tx.run(decide, decisionValues(namespace, decisions)),
      notifications.length > 0 && tx.run(notify, notificationValues(namespace, notifications)),
      jobs.length > 0 && new PostgresJobs(this.#connections, this.#space, tx).add(jobs),
    ])
    return { status: 'written' }
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
    if (subjects.length === 0) return true
    const values = subjectValues(this.#space.namespace, subjects)
    const { rows } = await tx.run<{ count: number }>(this.#statements.subjects, values)
    return rows[0]!.count === subjects.length
  }

  /** Claims event ids as done; answers those that are taken. */
  async #claimEvents(tx: Sender, events: ReportBatch['events']): Promise<readonly string[]> {
    if (events.length === 0) return []
    // Of one that is named twice, the second finds it taken.
    const byKey = new Map(events.map((event) => [event.key, event]))
    const repeats = events.filter((event) => byKey.get(event.key) !== event).map(({ key }) => key)
    const claims = [...byKey.values()].map((event) => ({ ask: eventAsk(event), nonce: createNonce() }))
    const { rows } = await tx.run<ClaimRow & Record<string, unknown>>(
      this.#guards.claim,
      claimValues(this.#space.namespace, claims, true),
    )
    const ours = new Set(rows.filter(({ standing }) => standing === 'run').map(({ asked }) => asked))
    return [...claims.filter(({ nonce }) => !ours.has(nonce)).map(({ ask }) => ask.key), ...repeats]
  }
}

interface KnownRow extends Partial<Omit<KnownSubjectRow, 'subject'>> {
  /** Null: the row that has what is known of all. */
  readonly subject: string | null
  readonly meta: {
    readonly now: number
    readonly revision: number
    readonly counts: readonly number[]
  } | null
  readonly windows: readonly ToldRow[] | null
}

function eventAsk({ key, keepMs }: ReportBatch['events'][number]): GuardAsk {
  return {
    space: 'monitor.event',
    key,
    leaseMs: keepMs,
    keepMs,
    mode: 'at-least-once',
    fingerprint: null,
  }
}
