import type { NewJob } from '../../../jobs/index.ts'
import type { ChannelRef, SendingEnd, SendingStep } from '../../../monitor/monitor-store.ts'
import { begin, commit, type Statement } from '../connection/calls.ts'
import { movingMs } from '../connection/clock.ts'
import { sendAll } from '../connection/packets.ts'
import { PinnedCalls } from '../connection/pinned.ts'
import type { Store } from '../engine-store.ts'
import { createAdd } from '../jobs/add.ts'
import { lockChannel } from './monitor-channels.ts'
import { encodeRows, given, now, nowPlus, setNow } from './monitor-rows.ts'
import { encodeReservations, eventSpace } from './monitor-write.ts'

/** What a notification's row tells those who end it. */
interface OpenRow {
  readonly id: string
  readonly subject: string
  readonly subscription_id: string
  readonly state_hash: string
  readonly window_ms: number
  readonly event_id: string | null
  /** The state that the subject has now. */
  readonly present: string | null
}

type Ended = OpenRow & Omit<SendingEnd, 'id'>

/**
 * MonitorStore.proceed: one transaction, for which the channel's row stays locked.
 *
 *     START, lock the channel, lock what ends ──▶ ends, windows, event ids, beginnings, the channel itself, COMMIT
 */
export function proceed(store: Store, ref: ChannelRef, step: SendingStep): Promise<boolean> {
  const { calls, tables, namespace, packetBytes } = store
  return calls.run('write how sending went', async (call) => {
    const ids = step.ends.map(({ id }) => id)
    const asked = ids.length === 0 ? [''] : ids
    const [, , held, rows, subjects] = (await call.packet([
      begin,
      setNow,
      lockChannel(store, ref),
      [
        `SELECT id, subject, subscription_id, state_hash, window_ms, event_id FROM ${tables.monitor.notification}
          FORCE INDEX (PRIMARY) WHERE namespace = ? AND id IN (?) AND ${isOpen} FOR UPDATE`,
        [namespace, asked, ref.channel],
      ],
      // Read and not locked: reports write subjects first and windows last.
      [
        `SELECT n.id, s.state_hash AS present FROM ${tables.monitor.notification} n FORCE INDEX (PRIMARY)
          STRAIGHT_JOIN ${tables.monitor.subject} s ON s.namespace = n.namespace AND s.subject = n.subject
          WHERE n.namespace = ? AND n.id IN (?)`,
        [namespace, asked],
      ],
    ])) as [unknown, unknown, unknown[], Omit<OpenRow, 'present'>[], { id: string; present: string }[]]
    if (held.length === 0) {
      await call.packet([['ROLLBACK', []]])
      return false
    }
    const present = new Map(subjects.map((row) => [row.id, row.present]))
    const open = new Map(rows.map((row) => [row.id, { ...row, present: present.get(row.id) ?? null }]))
    const ended = step.ends.flatMap((end): Ended[] => {
      const row = open.get(end.id)
      // Of two ends of one the first counts.
      open.delete(end.id)
      return row ? [{ ...row, ...end }] : []
    })
    await sendAll(
      call,
      [
        ...encodeEnds(store, ended),
        ...encodeNotified(store, ended),
        ...encodeFailed(store, ended),
        ...encodeBegin(store, ref, step),
        [
          `UPDATE ${tables.monitor.channel} SET state = ?,
            lease_ends_at = GREATEST(lease_ends_at, ${movingMs} + ?) WHERE namespace = ? AND channel = ?`,
          [step.state, step.leaseMs, namespace, ref.channel],
        ],
        commit,
      ],
      packetBytes,
    )
    return true
  })
}

const isOpen = "channel = ? AND status IN ('pending', 'sending')"

/** The ends themselves; those that are tried again are pending and fall due later. */
function encodeEnds(
  { tables, namespace, packetBytes }: Store,
  ended: readonly Ended[],
): readonly Statement[] {
  const rows = ended.map(({ id, outcome, afterMs = 0, free = false, error, digestId }) => [
    ...[id, outcome === 'retry' ? 'pending' : outcome, afterMs, free ? 1 : 0, error, digestId],
  ])
  return encodeRows(rows, packetBytes, (text) => [
    `UPDATE (WITH v (id, status, after_ms, is_free, error, digest_id) AS (VALUES ${text}) SELECT * FROM v) v
      STRAIGHT_JOIN ${tables.monitor.notification} n ON n.namespace = ? AND n.id = v.id
      SET n.status = v.status, n.error = v.error, n.digest_id = v.digest_id,
        n.due_at = IF(v.status = 'pending', ${now} + v.after_ms, n.due_at),
        n.attempt = n.attempt - v.is_free,
        n.finished_at = IF(v.status = 'pending', NULL, ${now})`,
    [namespace],
  ])
}

/** Windows that begin; of the same subject and subscription, what is over or owed of a past state is forgotten. */
function encodeNotified(
  { tables, namespace, packetBytes }: Store,
  ended: readonly Ended[],
): readonly Statement[] {
  const { window } = tables.monitor
  const out = ended.filter(({ outcome }) => outcome === 'sent' || outcome === 'held')
  const names = out.map((one) => [one.subject, one.subscription_id, one.present])
  const rows = out.map((one) => [
    ...[namespace, one.subject, one.subscription_id, one.state_hash, 'notified', one.id],
    nowPlus(0),
    nowPlus(Number(one.window_ms)),
  ])
  return [
    ...encodeRows(
      names,
      packetBytes,
      (text): Statement => [
        `DELETE t FROM (WITH v (subject, subscription_id, present) AS (VALUES ${text}) SELECT * FROM v) v
        STRAIGHT_JOIN ${window} t
        ON t.namespace = ? AND t.subject = v.subject AND t.subscription_id = v.subscription_id
        WHERE (t.status = 'owed' AND NOT t.state_hash <=> v.present)
          OR (t.status = 'notified' AND (t.ends_at IS NULL OR t.ends_at <= ${now}))`,
        [namespace],
      ],
    ),
    ...encodeRows(
      rows,
      packetBytes,
      (text): Statement => [
        `INSERT INTO ${window} (namespace, subject, subscription_id, state_hash, status, notification_id, notified_at, ends_at)
        VALUES ${text} ON DUPLICATE KEY UPDATE ${given(['status', 'notification_id', 'notified_at', 'ends_at'])}`,
        [],
      ],
    ),
  ]
}

/** Reservations and event ids of those that reached nobody. */
function encodeFailed(
  { tables, namespace, packetBytes }: Store,
  ended: readonly Ended[],
): readonly Statement[] {
  const { notification, window } = tables.monitor
  const idsOf = (outcome: SendingEnd['outcome']) =>
    ended.filter((one) => one.outcome === outcome).map(({ id }) => id)
  const reserved = `${notification} n STRAIGHT_JOIN ${window} t
    ON t.namespace = n.namespace AND t.subject = n.subject AND t.subscription_id = n.subscription_id
      AND t.state_hash = n.state_hash AND t.status = 'pending' AND t.notification_id = n.id`
  const statements: Statement[] = []
  const dead = idsOf('dead')
  if (dead.length > 0) {
    // Of past states nothing is owed that was never told.
    const names = ended
      .filter(({ outcome }) => outcome === 'dead')
      .map((one) => [one.subject, one.subscription_id, one.present])
    statements.push(
      ...encodeRows(
        names,
        packetBytes,
        (text): Statement => [
          `DELETE t FROM (WITH v (subject, subscription_id, present) AS (VALUES ${text}) SELECT * FROM v) v
          STRAIGHT_JOIN ${window} t
          ON t.namespace = ? AND t.subject = v.subject AND t.subscription_id = v.subscription_id
          WHERE t.status = 'owed' AND t.notified_at IS NULL AND NOT t.state_hash <=> v.present`,
          [namespace],
        ],
      ),
    )
    statements.push([
      `UPDATE ${reserved} SET t.status = 'owed' WHERE n.namespace = ? AND n.id IN (?)`,
      [namespace, dead],
    ])
  }
  const cancelled = idsOf('cancelled')
  if (cancelled.length > 0) {
    statements.push([
      `DELETE t FROM ${reserved} WHERE n.namespace = ? AND n.id IN (?)`,
      [namespace, cancelled],
    ])
  }
  const events = ended.flatMap(({ outcome, event_id: id }) => (outcome === 'dead' && id !== null ? [id] : []))
  if (events.length > 0) {
    statements.push([
      `DELETE FROM ${tables.guard} WHERE namespace = ? AND space = ? AND guard_key IN (?)`,
      [namespace, eventSpace, events],
    ])
  }
  return statements
}

function encodeBegin(
  { tables, namespace }: Store,
  { channel }: ChannelRef,
  { begin: begun }: SendingStep,
): readonly Statement[] {
  if (begun.length === 0) return []
  const repeats = begun.filter(({ repeat }) => repeat).map(({ id }) => id)
  return [
    [
      `UPDATE ${tables.monitor.notification} SET status = 'sending', attempt = attempt + 1,
        possible_repeat = possible_repeat OR id IN (?) WHERE namespace = ? AND id IN (?) AND ${isOpen}`,
      [repeats.length === 0 ? [''] : repeats, namespace, begun.map(({ id }) => id), channel],
    ],
  ]
}

/** MonitorStore.replay. */
export function replay(store: Store, id: string, job: NewJob): Promise<boolean> {
  const { calls, tables, namespace } = store
  const { notification } = tables.monitor
  return calls.run('replay a notification', async (call) => {
    const [, , [row]] = (await call.packet([
      begin,
      setNow,
      [
        `SELECT subject, subscription_id, state_hash FROM ${notification}
          WHERE namespace = ? AND id = ? AND status IN ('dead', 'held') FOR UPDATE`,
        [namespace, id],
      ],
    ])) as [unknown, unknown, OpenRow[]]
    if (!row) {
      await call.packet([['ROLLBACK', []]])
      return false
    }
    const pinned = new PinnedCalls(call)
    await createAdd({ ...store, calls: pinned })([job])
    const { subject, subscription_id: subscriptionId, state_hash: stateHash } = row
    await call.packet([
      [
        `UPDATE ${notification} SET possible_repeat = possible_repeat OR status = 'held', status = 'pending',
          attempt = 0, due_at = ${now}, finished_at = NULL WHERE namespace = ? AND id = ?`,
        [namespace, id],
      ],
      ...encodeReservations(store, [{ subject, subscriptionId, stateHash, notificationId: id }]),
      commit,
    ])
    pinned.committed()
    return true
  })
}
