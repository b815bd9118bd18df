import type {
  DeadCount,
  DecisionQuery,
  DecisionRecord,
  MonitorStore,
  NotificationQuery,
  NotificationRecord,
  SubjectQuery,
  SubjectRecord,
} from '../../../monitor/monitor-store.ts'
import {
  type DeadCountRow,
  type DecisionRow,
  decodeDeadCount,
  decodeDecision,
  decodeNotification,
  decodeSubject,
  type NotificationRow,
  type SubjectRow,
} from '../../sql/monitor-row.ts'
import { nowMs } from '../connection/columns.ts'
import type { Connections, Statement } from '../connection/connection.ts'

/** Looking at what was decided and sent, and forgetting what is old. */
export class MonitorReads
  implements
    Pick<MonitorStore, 'decisions' | 'notifications' | 'notification' | 'countDead' | 'subjects' | 'prune'>
{
  readonly #connections: Connections
  readonly #namespace: string
  readonly #schema: string

  constructor(connections: Connections, namespace: string, schema: string) {
    this.#connections = connections
    this.#namespace = namespace
    this.#schema = schema
  }

  async decisions({ subject, reason, before, limit }: DecisionQuery): Promise<readonly DecisionRecord[]> {
    const conditions: readonly Condition[] = [
      ['subject = ?', subject],
      ['reason = ?', reason],
      ['id < ?', before],
    ]
    return (await this.#newest<DecisionRow>('monitor_decision', conditions, limit)).map(decodeDecision)
  }

  async notifications(query: NotificationQuery): Promise<readonly NotificationRecord[]> {
    const { subject, subscriptionId, status, ids, before, limit } = query
    const conditions: readonly Condition[] = [
      // With the conditions that their indexes have.
      ['attempt >= 0 AND subject = ?', subject],
      ['created_at > 0 AND subscription_id = ?', subscriptionId],
      ['status = ?', status],
      ['id = ANY (?::text[])', ids],
      ['id < ?', before],
    ]
    const rows = await this.#newest<NotificationRow>('monitor_notification', conditions, limit)
    return rows.map(decodeNotification)
  }

  async notification(id: string): Promise<NotificationRecord | undefined> {
    return (await this.notifications({ ids: [id], limit: 1 }))[0]
  }

  async countDead(): Promise<readonly DeadCount[]> {
    const { rows } = await this.#connections.run<DeadCountRow & Record<string, unknown>>(
      {
        name: 'sb_monitor_dead',
        text: `
SELECT subscription_id, count(*) AS count, min(finished_at) AS since FROM ${this.#schema}.monitor_notification
WHERE namespace = $1 AND status = 'dead' GROUP BY subscription_id`,
      },
      [this.#namespace],
    )
    return rows.map(decodeDeadCount)
  }

  async subjects({ source, search, limit, after }: SubjectQuery): Promise<readonly SubjectRecord[]> {
    const values = [source, search, after?.source, after?.group, after?.name]
    const { rows } = await this.#connections.run<SubjectRow & Record<string, unknown>>(
      subjectStatement(this.#schema, source !== undefined, after !== undefined),
      [this.#namespace, limit, ...values.map((value) => value ?? null)],
    )
    return rows.map(decodeSubject)
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const values = [this.#namespace, olderThanMs, limit]
    let count = 0
    for (const statement of pruneStatements(this.#schema))
      count += (await this.#connections.run(statement, values)).rowCount ?? 0
    return count
  }

  /** The conditions whose value is given, each an equation or a bound that an index has. */
  async #newest<Row>(
    table: 'monitor_decision' | 'monitor_notification',
    conditions: readonly Condition[],
    limit: number,
  ): Promise<readonly Row[]> {
    const given = conditions.filter(([, value]) => value !== undefined)
    const where = given.map(([condition], nr) => ` AND ${condition.replace('?', `$${nr + 3}`)}`).join('')
    const { rows } = await this.#connections.run(
      {
        // None: planned each time, with the status that is asked for, which decides the index.
        name: '',
        text: `SELECT * FROM ${this.#schema}.${table} WHERE namespace = $1${where} ORDER BY id DESC LIMIT $2`,
      },
      [this.#namespace, limit, ...given.map(([, value]) => value)],
    )
    return rows as unknown as readonly Row[]
  }
}

/** A condition with a place for its value; without one it is left out. */
type Condition = readonly [condition: string, value: string | readonly string[] | undefined]

function subjectStatement(s: string, hasSource: boolean, hasAfter: boolean): Statement {
  const source = hasSource ? 'AND source = $3' : 'AND $3::text IS NULL'
  const after = hasAfter
    ? 'AND (source, time_slot, venue_id) > ($5, $6, $7)'
    : 'AND coalesce($5::text, $6::text, $7::text) IS NULL'
  return {
    name: `sb_monitor_subjects_${Number(hasSource)}${Number(hasAfter)}`,
    text: `
SELECT * FROM ${s}.monitor_subject
WHERE namespace = $1 AND version > 0 ${source} ${after} AND ($4::text IS NULL OR strpos(venue_id, $4) > 0)
ORDER BY source, time_slot, venue_id LIMIT $2`,
  }
}

function pruneStatements(s: string): readonly Statement[] {
  const old = (table: string, at: string, condition: string): Statement => ({
    name: `sb_prune_${table}`,
    text: `
DELETE FROM ${s}.${table} WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM ${s}.${table}
  WHERE namespace = $1 AND ${condition} AND ${at} < (SELECT ${nowMs} - $2::bigint)
  ORDER BY ${at} LIMIT $3 FOR UPDATE SKIP LOCKED))`,
  })
  return [
    old('monitor_decision', 'decided_at', 'true'),
    old('monitor_notification', 'finished_at', 'finished_at IS NOT NULL'),
    old('monitor_window', 'ends_at', `status = 'notified'`),
    old('monitor_silence', 'ends_at', 'true'),
  ]
}
