import type { MonitorStore, NewSilence, NewSubscription, Rules } from '../../../monitor/monitor-store.ts'
import {
  decodeSilence,
  decodeSubscription,
  type SilenceRow,
  type SubscriptionRow,
} from '../../sql/monitor-row.ts'
import { nowMs } from '../connection/columns.ts'
import type { Connections, Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import { transactAtOnce } from './monitor-transaction.ts'

/**
 * Subscriptions and silences. Whoever changes them has the namespace's advisory lock to itself until it commits; whoever
 * writes what was decided by them shares it. So nothing is written by rules that are no more, and a change waits for
 * those that are writing, but not for those that come after it.
 */
export class MonitorRules
  implements
    Pick<MonitorStore, 'rules' | 'subscribe' | 'unsubscribe' | 'rewriteChannel' | 'silence' | 'unsilence'>
{
  readonly #connections: Connections
  readonly #namespace: string
  readonly #lockName: string
  readonly #statements: RuleStatements

  constructor(connections: Connections, namespace: string, schema: string) {
    this.#connections = connections
    this.#namespace = namespace
    this.#lockName = JSON.stringify([schema, namespace])
    this.#statements = ruleStatements(schema)
  }

  async rules(): Promise<Rules> {
    const { rows } = await this.#connections.run<RulesRow>(this.#statements.read, [this.#namespace])
    const { revision, subscriptions, silences } = rows[0]!
    return {
      revision: Number(revision),
      subscriptions: subscriptions.map(decodeSubscription),
      silences: silences.map(decodeSilence),
    }
  }

  async subscribe({ id, name, match, channel, options }: NewSubscription): Promise<void> {
    await this.#change(this.#statements.subscribe, [id, name, match, channel, options])
  }

  async unsubscribe(id: string): Promise<boolean> {
    return this.#change(this.#statements.unsubscribe, [id])
  }

  async rewriteChannel(id: string, from: string, to: string): Promise<boolean> {
    const values = [this.#namespace, id, from, to]
    return ((await this.#connections.run(this.#statements.rewriteChannel, values)).rowCount ?? 0) > 0
  }

  async silence({ id, match, comment, startsAt, forMs }: NewSilence): Promise<void> {
    await this.#change(this.#statements.silence, [id, match, comment, startsAt, forMs])
  }

  async unsilence(id: string): Promise<boolean> {
    return this.#change(this.#statements.unsilence, [id])
  }

  /** Shares the lock within a transaction, and reads the revision behind it. */
  async share(tx: Sender): Promise<number> {
    const { share, revision } = this.#statements
    const [, found] = await Promise.all([
      tx.run(share, [this.#lockName]),
      tx.run<{ revision: string }>(revision, [this.#namespace]),
    ])
    return Number(found.rows[0]?.revision ?? 0)
  }

  /** One change; the number of the rules rises if there was something to change. */
  async #change(statement: Statement, values: readonly unknown[]): Promise<boolean> {
    const { lock, raise } = this.#statements
    const [, changed] = await transactAtOnce(this.#connections, (client) => [
      this.#connections.send(client, lock, [this.#lockName]),
      this.#connections.send(client, statement, [this.#namespace, ...values]),
      ...(raises.has(statement.name) ? [this.#connections.send(client, raise, [this.#namespace])] : []),
    ])
    return (changed?.rowCount ?? 0) > 0
  }
}

interface RulesRow {
  readonly revision: string
  readonly subscriptions: readonly SubscriptionRow[]
  readonly silences: readonly SilenceRow[]
}

/** Those that always change something; the others raise the number themselves. */
const raises = new Set(['sb_monitor_subscribe', 'sb_monitor_silence'])

type RuleStatements = Record<
  | 'read'
  | 'lock'
  | 'share'
  | 'revision'
  | 'raise'
  | 'subscribe'
  | 'unsubscribe'
  | 'rewriteChannel'
  | 'silence'
  | 'unsilence',
  Statement
>

function ruleStatements(s: string): RuleStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_monitor_${name}`, text })
  const lockKey = `hashtextextended('signalbox rules ' || $1::text, 0)`
  const raise = (from: string) => `
INSERT INTO ${s}.monitor_rules AS r (namespace, revision) SELECT $1, 1 ${from}
ON CONFLICT (namespace) DO UPDATE SET revision = r.revision + 1`
  return {
    read: named(
      'rules',
      `
SELECT coalesce((SELECT revision FROM ${s}.monitor_rules WHERE namespace = $1), 0) AS revision,
       coalesce((SELECT json_agg(row_to_json(u) ORDER BY u.id)
                 FROM ${s}.monitor_subscription u WHERE u.namespace = $1), '[]') AS subscriptions,
       coalesce((SELECT json_agg(row_to_json(i) ORDER BY i.id)
                 FROM ${s}.monitor_silence i WHERE i.namespace = $1 AND i.ends_at > ${nowMs}), '[]') AS silences`,
    ),
    // In statements of their own, before anything is read: each statement sees what was committed when it began.
    lock: named('lock', `SELECT pg_advisory_xact_lock(${lockKey})`),
    share: named('share', `SELECT pg_advisory_xact_lock_shared(${lockKey})`),
    revision: named('revision', `SELECT revision FROM ${s}.monitor_rules WHERE namespace = $1`),
    raise: named('raise', raise('')),
    subscribe: named(
      'subscribe',
      `
INSERT INTO ${s}.monitor_subscription (namespace, id, name, match_on, channel, options, created_at)
VALUES ($1, $2, $3, $4, $5, $6, ${nowMs})
ON CONFLICT (namespace, id) DO UPDATE SET name = excluded.name, match_on = excluded.match_on,
  channel = excluded.channel, options = excluded.options, created_at = excluded.created_at`,
    ),
    // Without a name, so that it is planned each time: a plan made for few notifications is ruinous for many.
    unsubscribe: {
      name: '',
      text: `
WITH gone AS (DELETE FROM ${s}.monitor_subscription WHERE namespace = $1 AND id = $2 RETURNING id),
raised AS (${raise('FROM gone')}),
cancelled AS (
  UPDATE ${s}.monitor_notification n SET status = 'cancelled', finished_at = ${nowMs}
  FROM gone WHERE n.namespace = $1 AND n.subscription_id = $2 AND n.status = 'pending'
  RETURNING n.id, n.subject, n.state_hash
),
freed AS (
  DELETE FROM ${s}.monitor_window t USING cancelled c
  WHERE t.namespace = $1 AND t.subject = c.subject AND t.subscription_id = $2 AND t.state_hash = c.state_hash
    AND t.status = 'pending' AND t.notification_id = c.id
)
SELECT id FROM gone`,
    },
    rewriteChannel: named(
      'rewrite_channel',
      `UPDATE ${s}.monitor_subscription SET channel = $4 WHERE namespace = $1 AND id = $2 AND channel = $3`,
    ),
    silence: named(
      'silence',
      `
INSERT INTO ${s}.monitor_silence (namespace, id, match_on, comment, starts_at, ends_at)
SELECT $1, $2, $3, $4, start.at, start.at + $6::bigint FROM (SELECT coalesce($5::bigint, ${nowMs}) AS at) start
ON CONFLICT (namespace, id) DO UPDATE SET match_on = excluded.match_on, comment = excluded.comment,
  starts_at = excluded.starts_at, ends_at = excluded.ends_at`,
    ),
    unsilence: named(
      'unsilence',
      `
WITH gone AS (DELETE FROM ${s}.monitor_silence WHERE namespace = $1 AND id = $2 RETURNING id),
raised AS (${raise('FROM gone')})
SELECT id FROM gone`,
    ),
  }
}
