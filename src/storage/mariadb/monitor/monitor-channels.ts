import type { ChannelRef, DueAnswer, TakeAsk, Taken } from '../../../monitor/monitor-store.ts'
import { decodeNotification, type NotificationRow } from '../../sql/monitor-row.ts'
import { begin, commit, type Statement } from '../connection/calls.ts'
import { movingMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { snapshot } from './monitor-reads.ts'
import { now } from './monitor-rows.ts'

/** MonitorStore.take: one statement. Its first assignment alone asks whether the channel is free; the others ask whose it is. */
export function take(
  { calls, tables, namespace }: Store,
  { channel, token, leaseMs }: TakeAsk,
): Promise<Taken> {
  return calls.run('take a channel', async (call) => {
    const [row] = await call.rows<{ token: string; state: string | null; now: number }>(
      `INSERT INTO ${tables.monitor.channel} (namespace, channel, token, lease_ends_at)
        VALUES (?, ?, ?, ${movingMs} + ?)
        ON DUPLICATE KEY UPDATE
          token = IF(token IS NULL OR token = VALUES(token) OR lease_ends_at <= ${movingMs}, VALUES(token), token),
          lease_ends_at = IF(token = VALUES(token), ${movingMs} + ?, lease_ends_at),
          wanted = token <> VALUES(token)
        RETURNING token, state, ${movingMs} AS now`,
      [namespace, channel, token, leaseMs, leaseMs],
    )
    if (row!.token !== token) return { taken: false }
    return { taken: true, now: Number(row!.now), state: row!.state }
  })
}

/** MonitorStore.due: the first unsettled one of each subject, of those the due ones. */
export function due(
  { calls, tables, namespace }: Store,
  { channel, token }: ChannelRef,
  limit: number,
): Promise<DueAnswer | undefined> {
  const { channel: channels, notification } = tables.monitor
  const open = `${notification} FORCE INDEX (monitor_notification_open) WHERE namespace = ? AND open_channel = ?`
  return calls.run('look for due notifications', async (call) => {
    const [[held], rows, [next]] = (await snapshot(call, [
      [
        `SELECT ${now} AS now FROM ${channels}
          WHERE namespace = ? AND channel = ? AND token = ? AND lease_ends_at > ${now}`,
        [namespace, channel, token],
      ],
      [
        `SELECT n.* FROM (SELECT MIN(id) AS id FROM ${open} GROUP BY subject) first
          STRAIGHT_JOIN ${notification} n ON n.namespace = ? AND n.id = first.id
          WHERE n.due_at <= ${now} ORDER BY n.id LIMIT ?`,
        [namespace, channel, namespace, limit],
      ],
      [`SELECT MIN(due_at) AS at FROM ${open} AND due_at > ${now}`, [namespace, channel]],
    ])) as [{ now: number }[], NotificationRow[], { at: number | null }[]]
    if (!held) return undefined
    return {
      now: Number(held.now),
      items: rows.map(decodeNotification),
      nextAt: next!.at === null ? null : Number(next!.at),
    }
  })
}

/** MonitorStore.letGo. */
export function letGo(store: Store, ref: ChannelRef): Promise<'released' | 'wanted' | 'lost'> {
  const { calls, tables, namespace } = store
  return calls.run('let go of a channel', async (call) => {
    const [, [row]] = (await call.packet([begin, lockChannel(store, ref)])) as [unknown, { wanted: number }[]]
    if (!row) {
      await call.packet([['ROLLBACK', []]])
      return 'lost'
    }
    await call.packet([
      [
        `UPDATE ${tables.monitor.channel} SET token = IF(wanted, token, NULL), wanted = FALSE
          WHERE namespace = ? AND channel = ?`,
        [namespace, ref.channel],
      ],
      commit,
    ])
    return row.wanted ? 'wanted' : 'released'
  })
}

/** Gives the channel's row while it is this sender's and its lease is live, and keeps it from all others until the commit. */
export function lockChannel({ tables, namespace }: Store, { channel, token }: ChannelRef): Statement {
  return [
    `SELECT wanted FROM ${tables.monitor.channel}
      WHERE namespace = ? AND channel = ? AND token = ? AND lease_ends_at > ${movingMs} FOR UPDATE`,
    [namespace, channel, token],
  ]
}
