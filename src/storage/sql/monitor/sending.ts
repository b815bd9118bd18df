import type { NewJob } from '../../../jobs/index.ts'
import { endNotification, endWindows } from '../../../monitor/delivery/sending-end.ts'
import type { ChannelRef, SendingEnd, SendingStep } from '../../../monitor/monitor-store.ts'
import { columns } from '../columns.ts'
import { forgetKeys } from '../guards/guards.ts'
import { addJobs, last, type Operation, one, operation, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { isHeld } from './channels.ts'
import type { Whole } from './reads.ts'
import { eventSpace } from './reports.ts'
import {
  changeWindows,
  reserveWindows,
  type SubjectWindow,
  storedWindow,
  type WindowChange,
} from './windows.ts'

const ref = { namespace: 'text', channel: 'text', token: 'text' } as const

/** Locks the channel's row until the commit, if this sender holds the channel. */
const lockChannel = statement(
  'monitor_channel_lock',
  ref,
  (d) => `SELECT ${d.now} AS now FROM @monitor_channel WHERE ${isHeld(d)} ${d.forUpdate}`,
)

const keepChannel = statement(
  'monitor_channel_keep',
  { ...ref, leaseMs: 'integer', state: 'text | null' },
  (d) => `
UPDATE @monitor_channel SET state = :state, lease_ends_at = ${d.greatest('lease_ends_at', `${d.now} + :leaseMs`)}
WHERE ${isHeld(d)}`,
)

const isUnsettled =
  't.namespace = :namespace AND t.id = v.id AND t.channel = :channel AND t.finished_at IS NULL'

const begin = statement(
  'monitor_sending_begin',
  { ...ref, rows: { id: 'text', is_repeat: 'boolean' } },
  (d) =>
    d.updateByRows(
      '@monitor_notification',
      {
        ...{ status: `'sending'`, attempt: 't.attempt + 1' },
        possible_repeat: '(t.possible_repeat OR v.is_repeat)',
      },
      `${isUnsettled} AND EXISTS (SELECT 1 FROM @monitor_channel WHERE ${isHeld(d)})`,
    ),
)

const notificationKeys = {
  ...{ from: '@monitor_notification', alias: 'n', where: 'n.namespace = :namespace' },
  ...{ key: 'n.id', keys: ':ids' },
}
const ofIds = { namespace: 'text', channel: 'text', ids: 'text[]' } as const
const selectUnsettled = statement(
  'monitor_unsettled',
  ofIds,
  (d) => `
SELECT n.id, n.subject, n.subscription_id, n.state_hash, n.window_ms, n.event_id, n.attempt, n.due_at,
  (SELECT s.state_hash FROM @monitor_subject s WHERE s.namespace = :namespace AND s.subject = n.subject) AS present_hash
${d.byKeys({ ...notificationKeys, where: `${notificationKeys.where} AND n.channel = :channel AND n.finished_at IS NULL` })}
ORDER BY n.id ${d.forUpdate}`,
)

// The windows that an end may change, without those that other notifications reserved. Not locked: reports lock guards
// before windows.
const selectWindows = statement(
  'monitor_windows_of',
  { namespace: 'text', ids: 'text[]' },
  (d) => `
SELECT ${storedWindow.of('w')}
${d.byKeys({
  ...notificationKeys,
  join: d.thenJoin(
    '@monitor_window',
    'w',
    `w.namespace = :namespace AND w.subject = n.subject AND w.subscription_id = n.subscription_id
      AND (w.status <> 'pending' OR w.state_hash = n.state_hash)`,
  ),
})}`,
)

interface Unsettled {
  readonly id: string
  readonly subject: string
  readonly subscriptionId: string
  readonly stateHash: string
  readonly windowMs: number
  readonly eventId: string | null
  readonly attempt: number
  readonly dueAt: number
  readonly presentHash: string | null
}

const unsettled = columns<Unsettled>({
  ...{ id: 'text', subject: 'text', subscriptionId: 'text', stateHash: 'text', windowMs: 'integer' },
  ...{ eventId: 'text | null', attempt: 'integer', dueAt: 'integer', presentHash: 'text | null' },
})

const settle = statement(
  'monitor_sending_end',
  {
    namespace: 'text',
    rows: {
      ...{ id: 'text', status: 'text', attempt: 'integer', due_at: 'integer', finished_at: 'integer | null' },
      ...{ error: 'text | null', digest_id: 'text | null' },
    },
  },
  (d) =>
    d.updateByRows(
      '@monitor_notification',
      {
        ...{ status: 'v.status', attempt: 'v.attempt', due_at: 'v.due_at', finished_at: 'v.finished_at' },
        ...{ error: 'v.error', digest_id: 'v.digest_id' },
      },
      't.namespace = :namespace AND t.id = v.id',
    ),
)

/**
 * Writes the results of sending in one transaction that locks the channel's row.
 *
 *     BEGIN, lock the channel and what ends, read its windows ──▶ event ids, windows, ends, beginnings, the channel, COMMIT
 *
 * Without ends there is nothing to decide, and the whole transaction is one step.
 */
export const proceed: Operation<[string, ChannelRef, SendingStep], boolean> = operation({
  name: 'write how sending went',
  connectionGroup: 'waiting',
  *procedure(namespace: string, { channel, token }: ChannelRef, step: SendingStep) {
    const held = { namespace, channel, token }
    const { ends, leaseMs, state } = step
    const rows = step.begin.map(({ id, repeat }) => ({ id, is_repeat: repeat }))
    const keeping = [
      ...(rows.length === 0 ? [] : [begin({ ...held, rows })]),
      keepChannel({ ...held, leaseMs, state }),
    ]
    if (ends.length === 0) {
      const [locked] = yield* last(run(lockChannel(held), ...keeping))
      return locked!.rows.length > 0
    }
    const ids = ends.map(({ id }) => id).sort()
    const [locked, notifications, windows] = yield* run(
      lockChannel(held),
      selectUnsettled({ namespace, channel, ids }),
      selectWindows({ namespace, ids }),
    )
    const [clock] = locked!.rows as readonly { now: Whole }[]
    if (clock === undefined) return false
    const found = {
      notifications: notifications!.rows.map(unsettled.decode),
      windows: windows!.rows.map(storedWindow.decode),
    }
    yield* last(run(...bindEnds(namespace, ends, found, Number(clock.now)), ...keeping))
    return true
  },
})

/** The statements that end notifications, as sending-end.ts defines. Guards come before windows, as in reports. */
function bindEnds(
  namespace: string,
  ends: readonly SendingEnd[],
  found: { readonly notifications: readonly Unsettled[]; readonly windows: readonly SubjectWindow[] },
  now: number,
): readonly Bound[] {
  const open = new Map(found.notifications.map((one) => [one.id, one]))
  const changes = new Map<string, WindowChange>()
  for (const [name, windows] of Map.groupBy(found.windows, nameOf)) {
    // Each window once, though several of the notifications may belong to its subject and subscription.
    const before = [...new Map(windows.map((window) => [window.stateHash, window])).values()]
    changes.set(name, { subject: windows[0]!.subject, before, after: before })
  }
  const events: string[] = []
  const ended = ends.flatMap((end) => {
    const one = open.get(end.id)
    if (one === undefined) return []
    // If a notification ends twice, the first end counts.
    open.delete(end.id)
    const { id, subject, presentHash, eventId } = one
    const { before, after } = changes.get(nameOf(one)) ?? { before: [], after: [] }
    const moment = { notification: one, presentHash, now }
    changes.set(nameOf(one), { subject, before, after: endWindows(after, end.outcome, moment) })
    if (end.outcome === 'dead' && eventId !== null) events.push(eventId)
    const record = endNotification(one, end, now)
    const { status, attempt, dueAt, finishedAt, error, digestId } = record
    return [{ id, status, attempt, due_at: dueAt, finished_at: finishedAt, error, digest_id: digestId }]
  })
  return [
    ...forgetKeys(namespace, eventSpace, events),
    ...changeWindows(namespace, [...changes.values()]),
    ...(ended.length === 0 ? [] : [settle({ namespace, rows: ended })]),
  ]
}

function nameOf({ subject, subscriptionId }: Pick<SubjectWindow, 'subject' | 'subscriptionId'>): string {
  return `${subject}\n${subscriptionId}`
}

const ofId = { namespace: 'text', id: 'text' } as const
const selectOne = statement(
  'monitor_notification_lock',
  ofId,
  (d) => `
SELECT subject, subscription_id, state_hash, status FROM @monitor_notification
WHERE namespace = :namespace AND id = :id ${d.forUpdate}`,
)

// The status comes after the columns that read it, because MariaDB assigns in this order.
const sendAgain = statement(
  'monitor_replay',
  ofId,
  (d) => `
UPDATE @monitor_notification SET possible_repeat = (possible_repeat OR status = 'held'), status = 'pending', attempt = 0,
  due_at = ${d.now}, finished_at = NULL
WHERE namespace = :namespace AND id = :id`,
)

export const replay: Operation<[string, string, NewJob], boolean> = operation({
  name: 'replay a notification',
  connectionGroup: 'waiting',
  *procedure(namespace: string, id: string, job: NewJob) {
    const row = yield* one<Record<'subject' | 'subscription_id' | 'state_hash' | 'status', string>>(
      selectOne({ namespace, id }),
    )
    if (row?.status !== 'dead' && row?.status !== 'held') return false
    const { subject, subscription_id: subscriptionId, state_hash: stateHash } = row
    const reserving = reserveWindows(namespace, [{ subject, subscriptionId, stateHash, notificationId: id }])
    yield* last(addJobs(namespace, [job], sendAgain({ namespace, id }), ...reserving))
    return true
  },
})
