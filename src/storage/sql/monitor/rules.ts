import type {
  NewSilence,
  NewSubscription,
  Rules,
  SilenceRecord,
  SubscriptionRecord,
} from '../../../monitor/monitor-store.ts'
import { columns } from '../columns.ts'
import { count, last, type Operation, operation, type Procedure, run } from '../procedure.ts'
import { type Bound, type Statement, statement } from '../statement.ts'
import type { Whole } from './reads.ts'
import { forgetWindows } from './windows.ts'

/**
 * Subscriptions and silences. A transaction that changes them locks the row of the rules exclusively until it commits;
 * a report locks it shared. So no report is written by outdated rules, and a change waits only for reports that are
 * being written.
 */
const ofNamespace = { namespace: 'text' } as const
type OfNamespace = Statement<{ readonly namespace: string }>
const lockRules = statement('monitor_rules_lock', ofNamespace, (d) =>
  d.lockRow('@monitor_rules', 'namespace', ':namespace', 'alone'),
)
/**
 * Must run in a statement before the revision is read, because a statement sees only what was committed when it began.
 */
export const shareRules: OfNamespace = statement('monitor_rules_share', ofNamespace, (d) =>
  d.lockRow('@monitor_rules', 'namespace', ':namespace', 'shared'),
)

const raiseRevision = statement('monitor_rules_raise', ofNamespace, (d) =>
  d.upsert({
    into: '@monitor_rules',
    columns: 'namespace, revision',
    source: 'VALUES (:namespace, 1)',
    key: 'namespace',
    set: { revision: 'old.revision + 1' },
  }),
)

export const selectRevision: OfNamespace = statement(
  'monitor_revision',
  ofNamespace,
  (d) => `
SELECT ${d.now} AS now, (SELECT revision FROM @monitor_rules WHERE namespace = :namespace) AS revision`,
)

export interface RevisionRow {
  readonly now: Whole
  /** Null while the namespace has no row. */
  readonly revision: Whole | null
}

const insertRevision = statement(
  'monitor_rules_begin',
  ofNamespace,
  (d) =>
    `INSERT INTO @monitor_rules (namespace, revision) VALUES (:namespace, 0) ${d.keepExisting('namespace')}`,
)

/** A namespace that never had rules has no row to share. This creates the row and returns its revision. */
export function* beginRules(namespace: string): Procedure<number> {
  const [, found] = yield* run(insertRevision({ namespace }), selectRevision({ namespace }))
  return Number((found!.rows as readonly RevisionRow[])[0]!.revision)
}

const subscription = columns<SubscriptionRecord>({
  ...{ id: 'text', name: 'text', match: ['text', 'match_on'], channel: 'text', options: 'text' },
  createdAt: 'integer',
})

const silenced = columns<SilenceRecord>({
  ...{ id: 'text', match: ['text', 'match_on'], comment: 'text', startsAt: 'integer', endsAt: 'integer' },
})

const selectSubscriptions = statement(
  'monitor_subscriptions',
  ofNamespace,
  () => `
SELECT ${subscription.names} FROM @monitor_subscription
WHERE namespace = :namespace ORDER BY id`,
)

const selectSilences = statement(
  'monitor_silences',
  ofNamespace,
  (d) => `
SELECT ${silenced.names} FROM @monitor_silence
WHERE namespace = :namespace AND ends_at > ${d.now} ORDER BY id`,
)

/** Reads the revision first: if the rules change meanwhile, a report by these rules is refused. */
export const readRules: Operation<[string], Rules> = operation({
  name: 'read the rules',
  isRead: true,
  *procedure(namespace: string): Procedure<Rules> {
    const [revision, subscriptions, silences] = yield* run(
      selectRevision({ namespace }),
      selectSubscriptions({ namespace }),
      selectSilences({ namespace }),
    )
    return {
      revision: Number((revision!.rows as readonly RevisionRow[])[0]!.revision ?? 0),
      subscriptions: subscriptions!.rows.map(subscription.decode),
      silences: silences!.rows.map(silenced.decode),
    }
  },
})

const upsertSubscription = statement(
  'monitor_subscribe',
  { namespace: 'text', id: 'text', name: 'text', match: 'text', channel: 'text', options: 'text' },
  (d) =>
    d.upsert({
      into: '@monitor_subscription',
      columns: 'namespace, id, name, match_on, channel, options, created_at',
      source: `VALUES (:namespace, :id, :name, :match, :channel, :options, ${d.now})`,
      key: 'namespace, id',
      set: {
        ...{ name: 'new.name', match_on: 'new.match_on', channel: 'new.channel' },
        ...{ options: 'new.options', created_at: 'new.created_at' },
      },
    }),
)

export const subscribe: Operation<[string, NewSubscription], void> = operation({
  name: 'subscribe',
  connectionGroup: 'waiting',
  procedure: (namespace: string, { id, name, match, channel, options }: NewSubscription) =>
    changeRules(namespace, upsertSubscription({ namespace, id, name, match, channel, options })),
})

const upsertSilence = statement(
  'monitor_silence',
  {
    ...{ namespace: 'text', id: 'text', match: 'text', comment: 'text' },
    ...{ startsAt: 'integer | null', forMs: 'integer' },
  },
  (d) =>
    d.upsert({
      into: '@monitor_silence',
      columns: 'namespace, id, match_on, comment, starts_at, ends_at',
      source: `VALUES (:namespace, :id, :match, :comment, coalesce(:startsAt, ${d.now}), coalesce(:startsAt, ${d.now}) + :forMs)`,
      key: 'namespace, id',
      set: {
        ...{ match_on: 'new.match_on', comment: 'new.comment' },
        ...{ starts_at: 'new.starts_at', ends_at: 'new.ends_at' },
      },
    }),
)

export const silence: Operation<[string, NewSilence], void> = operation({
  name: 'add a silence',
  connectionGroup: 'waiting',
  procedure: (namespace: string, { id, match, comment, startsAt, forMs }: NewSilence) =>
    changeRules(namespace, upsertSilence({ namespace, id, match, comment, startsAt, forMs })),
})

function* changeRules(namespace: string, change: Bound): Procedure<void> {
  yield* last(run(lockRules({ namespace }), change, raiseRevision({ namespace })))
}

const ofId = { namespace: 'text', id: 'text' } as const
const deleteSilence = statement(
  'monitor_unsilence',
  ofId,
  () => 'DELETE FROM @monitor_silence WHERE namespace = :namespace AND id = :id',
)

export const unsilence: Operation<[string, string], boolean> = operation({
  name: 'end a silence',
  connectionGroup: 'waiting',
  *procedure(namespace: string, id: string) {
    const [, deleted] = yield* run(lockRules({ namespace }), deleteSilence({ namespace, id }))
    if (deleted!.rowCount === 0) return false
    yield* last(run(raiseRevision({ namespace })))
    return true
  },
})

const deleteSubscription = statement(
  'monitor_unsubscribe',
  ofId,
  () => 'DELETE FROM @monitor_subscription WHERE namespace = :namespace AND id = :id',
)

// By status, because few are pending. The list of all notifications of a subscription grows with its age.
const selectPending = statement(
  'monitor_pending_of',
  ofId,
  (d) => `
SELECT id, subject, state_hash, ${d.now} AS now
FROM @monitor_notification ${d.byIndex('monitor_notification_status')}
WHERE namespace = :namespace AND subscription_id = :id AND status = 'pending' AND status <> 'sent' ${d.forUpdate}`,
)

const cancel = statement('monitor_cancel', { namespace: 'text', at: 'integer', rows: { id: 'text' } }, (d) =>
  d.updateByRows(
    '@monitor_notification',
    { status: `'cancelled'`, finished_at: ':at' },
    't.namespace = :namespace AND t.id = v.id',
  ),
)

/**
 * Cancels the subscription's pending notifications in the same transaction, and deletes the windows that they reserved.
 */
export const unsubscribe: Operation<[string, string], boolean> = operation({
  name: 'unsubscribe',
  connectionGroup: 'waiting',
  *procedure(namespace: string, subscriptionId: string) {
    const [, deleted] = yield* run(
      lockRules({ namespace }),
      deleteSubscription({ namespace, id: subscriptionId }),
    )
    if (deleted!.rowCount === 0) return false
    const [, found] = yield* run(
      raiseRevision({ namespace }),
      selectPending({ namespace, id: subscriptionId }),
    )
    const rows = found!.rows as readonly { id: string; subject: string; state_hash: string; now: Whole }[]
    if (rows.length === 0) return true
    const reserved = rows.map(({ id, subject, state_hash: stateHash }) => ({
      ...{ subject, subscriptionId, stateHash, notificationId: id, status: 'pending' as const },
    }))
    const cancelled = { rows: rows.map(({ id }) => ({ id })), at: Number(rows[0]!.now) }
    yield* last(run(cancel({ namespace, ...cancelled }), ...forgetWindows(namespace, reserved)))
    return true
  },
})

const updateChannel = statement(
  'monitor_rewrite_channel',
  { namespace: 'text', id: 'text', from: 'text', to: 'text' },
  () => `
UPDATE @monitor_subscription SET channel = :to WHERE namespace = :namespace AND id = :id AND channel = :from`,
)

export const rewriteChannel: Operation<[string, string, { from: string; to: string }], boolean> = operation({
  name: 'rewrite a channel',
  connectionGroup: 'waiting',
  *procedure(namespace: string, id: string, { from, to }: { from: string; to: string }) {
    return (yield* last(count(updateChannel({ namespace, id, from, to })))) > 0
  },
})
