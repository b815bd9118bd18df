import type { NewSilence, NewSubscription, Rules } from '../../../monitor/monitor-store.ts'
import {
  decodeSilence,
  decodeSubscription,
  type SilenceRow,
  type SubscriptionRow,
} from '../../sql/monitor-row.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'
import { snapshot } from './monitor-reads.ts'
import { now, setNow } from './monitor-rows.ts'

/**
 * Subscriptions and silences. Whoever changes one takes the row of the rules first and counts it up, so nothing that was
 * decided by the old rules is written after that.
 */
export function readRules({ calls, tables, namespace }: Store): Promise<Rules> {
  const { rules, subscription, silence } = tables.monitor
  return calls.run('read subscriptions', async (call) => {
    const [[rule], subscriptions, silences] = (await snapshot(call, [
      [`SELECT revision FROM ${rules} WHERE namespace = ?`, [namespace]],
      [
        `SELECT id, name, match_on, channel, options, created_at FROM ${subscription} WHERE namespace = ? ORDER BY id`,
        [namespace],
      ],
      [
        `SELECT id, match_on, comment, starts_at, ends_at FROM ${silence}
          WHERE namespace = ? AND ends_at > ${now} ORDER BY id`,
        [namespace],
      ],
    ])) as [{ revision: number }[], SubscriptionRow[], SilenceRow[]]
    return {
      revision: Number(rule?.revision ?? 0),
      subscriptions: subscriptions.map(decodeSubscription),
      silences: silences.map(decodeSilence),
    }
  })
}

export function subscribe(store: Store, one: NewSubscription): Promise<void> {
  const { subscription } = store.tables.monitor
  return change(store, 'subscribe', [
    `REPLACE INTO ${subscription} (namespace, id, name, match_on, channel, options, created_at)
      VALUES (?, ?, ?, ?, ?, ?, ${now})`,
    [store.namespace, one.id, one.name, one.match, one.channel, one.options],
  ])
}

export function rewriteChannel(store: Store, id: string, from: string, to: string): Promise<boolean> {
  const { subscription } = store.tables.monitor
  return store.calls.run('reseal a channel', async (call) => {
    const [answer] = await call.packet([
      [
        `UPDATE ${subscription} SET channel = ? WHERE namespace = ? AND id = ? AND channel = ?`,
        [to, store.namespace, id, from],
      ],
    ])
    return rowCount(answer) > 0
  })
}

export function silence(store: Store, one: NewSilence): Promise<void> {
  return change(store, 'add a silence', [
    `REPLACE INTO ${store.tables.monitor.silence} (namespace, id, match_on, comment, starts_at, ends_at)
      VALUES (?, ?, ?, ?, COALESCE(?, ${now}), starts_at + ?)`,
    [store.namespace, one.id, one.match, one.comment, one.startsAt, one.forMs],
  ])
}

async function change(store: Store, doing: string, statement: Statement): Promise<void> {
  await store.calls.run(doing, (call) => call.packet([begin, setNow, countUp(store), statement, commit]))
}

function countUp({ tables, namespace }: Store): Statement {
  return [
    `INSERT INTO ${tables.monitor.rules} (namespace, revision) VALUES (?, 1)
      ON DUPLICATE KEY UPDATE revision = revision + 1`,
    [namespace],
  ]
}

export function unsilence(store: Store, id: string): Promise<boolean> {
  return store.calls.run('end a silence', (call) => remove(store, call, store.tables.monitor.silence, id, []))
}

export function unsubscribe(store: Store, id: string): Promise<boolean> {
  const { namespace, tables } = store
  const { notification, subscription, window } = tables.monitor
  return store.calls.run('unsubscribe', (call) =>
    remove(store, call, subscription, id, [
      [
        `UPDATE ${notification} SET status = 'cancelled', finished_at = ${now}
          WHERE namespace = ? AND subscription_id = ? AND status = 'pending'`,
        [namespace, id],
      ],
      [
        `DELETE t FROM ${notification} n STRAIGHT_JOIN ${window} t
          ON t.namespace = n.namespace AND t.subject = n.subject AND t.subscription_id = n.subscription_id
            AND t.state_hash = n.state_hash
          WHERE n.namespace = ? AND n.subscription_id = ? AND n.status = 'cancelled'
            AND t.status = 'pending' AND t.notification_id = n.id`,
        [namespace, id],
      ],
    ]),
  )
}

async function remove(
  store: Store,
  call: Call,
  table: string,
  id: string,
  also: readonly Statement[],
): Promise<boolean> {
  const answers = await call.packet([
    begin,
    setNow,
    countUp(store),
    [`DELETE FROM ${table} WHERE namespace = ? AND id = ?`, [store.namespace, id]],
  ])
  const isGone = rowCount(answers[3]) > 0
  await call.packet(isGone ? [...also, commit] : [['ROLLBACK', []]])
  return isGone
}
