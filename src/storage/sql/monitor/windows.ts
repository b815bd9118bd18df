import type { ReportBatch, WindowRecord } from '../../../monitor/monitor-store.ts'
import { type Columns, columns } from '../columns.ts'
import { type Bound, statement } from '../statement.ts'

/**
 * Windows: each records that a subscription was notified of a state of a subject, or will be. Reports reserve windows,
 * and ends of notifications change them as monitor/delivery/sending-end.ts defines. A statement changes a window that
 * was read without a lock only if it is unchanged: another notification may have reserved it since.
 */
export const storedWindow: Columns<SubjectWindow> = columns<SubjectWindow>({
  ...{ subject: 'text', subscriptionId: 'text', stateHash: 'text', status: 'text', notificationId: 'text' },
  ...{ notifiedAt: 'integer | null', endsAt: 'integer | null' },
})

/** A window and its subject. */
export type SubjectWindow = WindowRecord & { readonly subject: string }

const key = 'namespace, subject, subscription_id, state_hash'
const keyRows = {
  subject: 'text',
  subscription_id: 'text',
  state_hash: 'text',
  notification_id: 'text',
} as const

const reserve = statement('monitor_window_reserve', { namespace: 'text', rows: keyRows }, (d) =>
  d.upsert({
    into: '@monitor_window',
    columns: `${key}, status, notification_id`,
    source: `SELECT :namespace, v.subject, v.subscription_id, v.state_hash, 'pending', v.notification_id
    FROM :rows WHERE 1 = 1`,
    key,
    set: { status: 'new.status', notification_id: 'new.notification_id', ends_at: 'NULL' },
  }),
)

const notify = statement(
  'monitor_window_notify',
  { namespace: 'text', rows: { ...keyRows, notified_at: 'integer', ends_at: 'integer' } },
  (d) =>
    d.upsert({
      into: '@monitor_window',
      columns: `${key}, status, notification_id, notified_at, ends_at`,
      source: `SELECT :namespace, v.subject, v.subscription_id, v.state_hash, 'notified', v.notification_id,
      v.notified_at, v.ends_at
    FROM :rows WHERE 1 = 1`,
      key,
      set: {
        ...{ status: 'new.status', notification_id: 'new.notification_id' },
        ...{ notified_at: 'new.notified_at', ends_at: 'new.ends_at' },
      },
    }),
)

const isAsRead = `t.namespace = :namespace AND t.subject = v.subject AND t.subscription_id = v.subscription_id
  AND t.state_hash = v.state_hash AND t.status = v.status AND t.notification_id = v.notification_id`
const readRows = { namespace: 'text', rows: { ...keyRows, status: 'text' } } as const

const owe = statement('monitor_window_owe', readRows, (d) =>
  d.updateByRows('@monitor_window', { status: `'owed'` }, isAsRead),
)
const forget = statement('monitor_window_forget', readRows, (d) =>
  d.deleteByRows('@monitor_window', isAsRead),
)

/** All statements on windows lock them in this order, so that no two transactions deadlock. */
function inOrder<Window extends Pick<SubjectWindow, 'subject' | 'subscriptionId' | 'stateHash'>>(
  windows: readonly Window[],
): readonly Window[] {
  const nameOf = ({ subject, subscriptionId, stateHash }: Window) =>
    `${subject}\n${subscriptionId}\n${stateHash}`
  return windows.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
}

function encodeKey(window: ReportBatch['reservations'][number]) {
  return {
    ...{ subject: window.subject, subscription_id: window.subscriptionId, state_hash: window.stateHash },
    notification_id: window.notificationId,
  }
}

export function reserveWindows(
  namespace: string,
  reservations: ReportBatch['reservations'],
): readonly Bound[] {
  if (reservations.length === 0) return []
  return [reserve({ namespace, rows: inOrder(reservations).map(encodeKey) })]
}

/** Deletes windows that have not changed since they were read. */
export function forgetWindows(
  namespace: string,
  windows: readonly Pick<
    SubjectWindow,
    'subject' | 'subscriptionId' | 'stateHash' | 'status' | 'notificationId'
  >[],
): readonly Bound[] {
  const rows = inOrder(windows).map((window) => ({ ...encodeKey(window), status: window.status }))
  return rows.length === 0 ? [] : [forget({ namespace, rows })]
}

/** The windows of one subject and subscription, before and after the change. */
export interface WindowChange {
  readonly subject: string
  readonly before: readonly WindowRecord[]
  readonly after: readonly WindowRecord[]
}

/** The statements that write the changes. If a window is the same object before and after, it is not written. */
export function changeWindows(namespace: string, changes: readonly WindowChange[]): readonly Bound[] {
  const changed = changes.flatMap(({ subject, before, after }) =>
    after.filter((window) => !before.includes(window)).map((window) => ({ subject, ...window })),
  )
  const forgotten = changes.flatMap(({ subject, before, after }) =>
    before
      .filter(({ stateHash }) => !after.some((window) => window.stateHash === stateHash))
      .map((window) => ({ subject, ...window })),
  )
  const owed = inOrder(changed.filter(({ status }) => status === 'owed')).map((window) => ({
    ...{ ...encodeKey(window), status: 'pending' },
  }))
  const notified = inOrder(changed.filter(({ status }) => status === 'notified')).map((window) => ({
    ...{ ...encodeKey(window), notified_at: window.notifiedAt!, ends_at: window.endsAt! },
  }))
  return [
    ...forgetWindows(namespace, forgotten),
    ...(owed.length === 0 ? [] : [owe({ namespace, rows: owed })]),
    ...(notified.length === 0 ? [] : [notify({ namespace, rows: notified })]),
  ]
}
