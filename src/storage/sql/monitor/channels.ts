import type { ChannelRef, DueAnswer, TakeAsk, Taken } from '../../../monitor/monitor-store.ts'
import type { Dialect } from '../dialect.ts'
import { last, type Operation, operation, type Procedure, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { notification, type Whole } from './reads.ts'

/** Channels. One sender at a time holds a channel, under a lease. A sender that comes meanwhile sets `wanted`. */
const take = statement(
  'monitor_channel_take',
  { namespace: 'text', channel: 'text', token: 'text', leaseMs: 'integer' },
  (d) => `${d.upsertWhen({
    into: '@monitor_channel',
    columns: 'namespace, channel, token, lease_ends_at, wanted',
    source: `VALUES (:namespace, :channel, :token, ${d.now} + :leaseMs, FALSE)`,
    key: 'namespace, channel',
    mark: 'token',
    when: `(old.token IS NULL OR old.token = new.token OR old.lease_ends_at <= new.lease_ends_at - :leaseMs)`,
    set: { lease_ends_at: 'new.lease_ends_at', wanted: 'new.wanted' },
  })}
RETURNING token, state, ${d.movingNow} AS now`,
)

// The statement before it locked the row.
const leaveWord = statement(
  'monitor_channel_want',
  { namespace: 'text', channel: 'text', token: 'text' },
  () => `
UPDATE @monitor_channel SET wanted = TRUE
WHERE namespace = :namespace AND channel = :channel AND token <> :token AND NOT wanted`,
)

export const takeChannel: Operation<[string, TakeAsk], Taken> = operation({
  name: 'take a channel',
  connectionGroup: 'waiting',
  *procedure(namespace: string, { channel, token, leaseMs }: TakeAsk): Procedure<Taken> {
    const ref = { namespace, channel, token }
    const [taken] = yield* last(run(take({ ...ref, leaseMs }), leaveWord(ref)))
    const [row] = taken!.rows as readonly { token: string; state: string | null; now: Whole }[]
    return row?.token === token ? { taken: true, now: Number(row.now), state: row.state } : { taken: false }
  },
})

const ref = { namespace: 'text', channel: 'text', token: 'text' } as const
/** While the condition holds, the sender holds the channel. */
export const isHeld = (d: Dialect): string =>
  `namespace = :namespace AND channel = :channel AND token = :token AND lease_ends_at > ${d.movingNow}`

const release = statement(
  'monitor_channel_release',
  ref,
  (d) => `UPDATE @monitor_channel SET token = NULL, lease_ends_at = NULL WHERE ${isHeld(d)} AND NOT wanted`,
)
const hearWord = statement(
  'monitor_channel_hear',
  ref,
  (d) => `UPDATE @monitor_channel SET wanted = FALSE WHERE ${isHeld(d)} AND wanted`,
)

export const letGo: Operation<[string, ChannelRef], 'released' | 'wanted' | 'lost'> = operation({
  name: 'let go of a channel',
  connectionGroup: 'waiting',
  *procedure(namespace: string, { channel, token }: ChannelRef) {
    const held = { namespace, channel, token }
    const [released, heard] = yield* last(run(release(held), hearWord(held)))
    if (released!.rowCount > 0) return 'released'
    return heard!.rowCount > 0 ? 'wanted' : 'lost'
  },
})

const selectHeld = statement(
  'monitor_channel_held',
  ref,
  (d) => `SELECT ${d.now} AS now FROM @monitor_channel WHERE ${isHeld(d)}`,
)

const unsettled = (alias: string) =>
  `${alias}.namespace = :namespace AND ${alias}.channel = :channel AND ${alias}.finished_at IS NULL`

const selectNext = statement(
  'monitor_next',
  { namespace: 'text', channel: 'text' },
  (d) => `
SELECT min(n.due_at) AS at FROM @monitor_notification n ${d.byIndex('monitor_notification_due')}
WHERE ${unsettled('n')} AND n.max_attempts >= 0 AND n.due_at > ${d.now}`,
)

// Walks in the order of ids until it has enough rows. It skips a row if an earlier one of the same subject is unsettled.
const selectDue = statement(
  'monitor_due',
  { namespace: 'text', channel: 'text', limit: 'integer' },
  (d) => `
SELECT n.* FROM @monitor_notification n ${d.byIndex('monitor_notification_unsettled')}
WHERE ${unsettled('n')} AND n.due_at <= ${d.now} AND n.id = (
  SELECT e.id FROM @monitor_notification e ${d.byIndex('monitor_notification_first')}
  WHERE ${unsettled('e')} AND e.subject = n.subject AND e.subject > '' ORDER BY e.id LIMIT 1)
ORDER BY n.id LIMIT :limit`,
)

export const readDue: Operation<[string, ChannelRef, number], DueAnswer | undefined> = operation({
  name: 'look for due notifications',
  isRead: true,
  *procedure(namespace: string, { channel, token }: ChannelRef, limit: number) {
    const [held, next, due] = yield* run(
      selectHeld({ namespace, channel, token }),
      selectNext({ namespace, channel }),
      selectDue({ namespace, channel, limit }),
    )
    const [clock] = held!.rows as readonly { now: Whole }[]
    if (clock === undefined) return undefined
    const now = Number(clock.now)
    const items = due!.rows.map(notification.decode)
    // Each statement reads the clock again: a notification that becomes due between two statements belongs to the next
    // one.
    const { at } = next!.rows[0] as { at: Whole | null }
    const later = [at === null ? [] : Number(at), items.map(({ dueAt }) => dueAt)]
      .flat()
      .filter((dueAt) => dueAt > now)
    return {
      now,
      items: items.filter(({ dueAt }) => dueAt <= now),
      nextAt: later.length === 0 ? null : Math.min(...later),
    }
  },
})
