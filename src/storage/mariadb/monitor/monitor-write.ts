import type { BatchAnswer, ReportBatch, SubjectWrite } from '../../../monitor/monitor-store.ts'
import { claimAsDone } from '../../sql/guards/guard-claims.ts'
import { begin, type Call, commit, rowCount, type Statement } from '../connection/calls.ts'
import type { MariadbDatabase } from '../connection/database.ts'
import { sendAll } from '../connection/packets.ts'
import { PinnedCalls } from '../connection/pinned.ts'
import type { Store } from '../engine-store.ts'
import { createAdd } from '../jobs/add.ts'
import { encodeRows, given, now, nowPlus, setNow } from './monitor-rows.ts'

/**
 * MonitorStore.write: what was decided, in one transaction.
 *
 *     START, share the rules, subjects on their versions ──▶ event ids ──▶ jobs ──▶ all the rest, COMMIT
 *
 * Everything that may refuse comes first. A subject that is not at its version is left as it is and not counted, an event
 * id that is taken gives another's nonce: then all of it is rolled back.
 */
export const eventSpace = 'monitor.event'

export async function write(
  store: Store,
  database: MariadbDatabase,
  batch: ReportBatch,
): Promise<BatchAnswer> {
  const { calls } = store
  return calls.run('write a report', async (call) => {
    const answer = await takeConditions(store, database, call, batch)
    if (answer.status !== 'written') {
      await call.packet([['ROLLBACK', []]])
      return answer
    }
    const pinned = new PinnedCalls(call)
    await createAdd({ ...store, calls: pinned })(batch.jobs)
    await sendAll(call, [...encodeRest(store, batch), commit], store.packetBytes)
    pinned.committed()
    return answer
  })
}

async function takeConditions(
  store: Store,
  database: MariadbDatabase,
  call: Call,
  batch: ReportBatch,
): Promise<BatchAnswer> {
  const subjects = encodeSubjects(store, batch.subjects)
  const { rules } = store.tables.monitor
  const answers = await sendAll(
    call,
    [
      begin,
      setNow,
      [`SELECT revision FROM ${rules} WHERE namespace = ? LOCK IN SHARE MODE`, [store.namespace]],
      ...subjects,
      ...encodeThrottles(store, batch.throttles),
    ],
    store.packetBytes,
  )
  const [rule] = answers[2] as { revision: number | string }[]
  const revision = rule ? Number(rule.revision) : await holdFirstRevision(store, call)
  const written = answers.slice(3, 3 + subjects.length).reduce((sum: number, one) => sum + rowCount(one), 0)
  // A row that is inserted counts as one, one that is changed as two.
  const expected = batch.subjects.reduce((sum, { version }) => sum + (version === 0 ? 1 : 2), 0)
  if (revision !== batch.revision || written !== expected) return { status: 'overtaken' }
  const [count] = batch.throttles.length === 0 ? [] : (answers.at(-1) as { used_up: number | string }[])
  if (count && Number(count.used_up) > 0) return { status: 'overtaken' }
  const taken = await database.runOn(call, claimAsDone(store.namespace, eventSpace, batch.events), true)
  if (taken.length === 0) return { status: 'written' }
  return { status: 'duplicate', events: taken }
}

/**
 * How many of the throttles others have used up; until the commit no others can. Those who tell the same throttled
 * subscriptions write one after the other, and each statement sees what was committed before it.
 */
function encodeThrottles(
  { tables, namespace }: Store,
  throttles: ReportBatch['throttles'],
): readonly Statement[] {
  if (throttles.length === 0) return []
  const { subscription, notification } = tables.monitor
  const made = `(SELECT COUNT(*) FROM ${notification}
    WHERE namespace = ? AND subscription_id = ? AND created_at > ${now} - ?) > ?`
  return [
    [
      `SELECT id FROM ${subscription} WHERE namespace = ? AND id IN (?) ORDER BY id FOR UPDATE`,
      [namespace, throttles.map(({ subscriptionId }) => subscriptionId)],
    ],
    [
      `SELECT ${throttles.map(() => `(${made})`).join(' + ')} AS used_up`,
      throttles.flatMap(({ subscriptionId, perMs, most }) => [namespace, subscriptionId, perMs, most]),
    ],
  ]
}

/** Where there were no rules ever, there is no row to share: it is made, so that the first rule waits for this. */
async function holdFirstRevision({ tables, namespace }: Store, call: Call): Promise<number> {
  const { rules } = tables.monitor
  const [, [rule]] = (await call.packet([
    [
      `INSERT INTO ${rules} (namespace, revision) VALUES (?, 0) ON DUPLICATE KEY UPDATE revision = revision`,
      [namespace],
    ],
    [`SELECT revision FROM ${rules} WHERE namespace = ?`, [namespace]],
  ])) as [unknown, { revision: number | string }[]]
  return Number(rule!.revision)
}

function encodeSubjects(
  { tables, namespace, packetBytes }: Store,
  subjects: readonly SubjectWrite[],
): readonly Statement[] {
  const isNext = 'version = VALUES(version) - 1'
  const set = (column: string, value = `VALUES(${column})`) =>
    `${column} = IF(${isNext}, ${value}, ${column})`
  const rows = subjects.toSorted(bySubject).map((one) => [
    ...[namespace, one.subject, one.source, one.group, one.name, one.version + 1],
    // No JSON text is empty, no change is at 0: the row keeps what it has.
    ...[one.state ?? '', one.stateHash, one.observedAt, one.memory],
    one.changed || one.version === 0 ? nowPlus(0) : 0,
  ])
  return encodeRows(rows, packetBytes, (text) => [
    `INSERT INTO ${tables.monitor.subject} (namespace, subject, source, time_slot, venue_id, version, state, state_hash,
        observed_at, memory, changed_at)
      VALUES ${text}
      ON DUPLICATE KEY UPDATE
        ${set('state', "IF(VALUES(state) = '', state, VALUES(state))")},
        ${set('changed_at', 'IF(VALUES(changed_at) = 0, changed_at, VALUES(changed_at))')},
        ${['state_hash', 'observed_at', 'memory', 'version'].map((column) => set(column)).join(', ')}`,
    [],
  ])
}

/** What can refuse no more. */
function encodeRest(store: Store, batch: ReportBatch): readonly Statement[] {
  const { namespace, packetBytes, tables } = store
  const { notification, decision } = tables.monitor
  const decisions = batch.decisions.map((one) => [
    ...[namespace, one.id, one.subject, one.source, one.group, one.name, one.taskId, one.reason],
    ...[one.fromHash, one.toHash, one.fromText, one.toText, one.eventId, one.observedAt, one.verdicts],
    nowPlus(0),
  ])
  const notifications = batch.notifications.map((one) => [
    ...[namespace, one.id, one.subscriptionId, one.channel, one.subject, one.source, one.group, one.name],
    ...[
      one.decisionId,
      one.eventId,
      one.kind,
      one.from,
      one.to,
      one.stateHash,
      one.windowMs,
      one.maxAttempts,
    ],
    nowPlus(one.delayMs),
    nowPlus(0),
  ])
  return [
    ...encodeRows(decisions, packetBytes, (text) => [
      `INSERT INTO ${decision} (namespace, id, subject, source, time_slot, venue_id, task_id, reason, from_hash, to_hash,
        from_text, to_text, event_id, observed_at, verdicts, decided_at) VALUES ${text}`,
      [],
    ]),
    ...encodeRows(notifications, packetBytes, (text) => [
      `INSERT INTO ${notification} (namespace, id, subscription_id, channel, subject, source, time_slot, venue_id,
        decision_id, event_id, kind, from_state, to_state, state_hash, window_ms, max_attempts, due_at, created_at)
        VALUES ${text}`,
      [],
    ]),
    ...encodeReservations(store, batch.reservations),
  ]
}

/** When it was told last stays noted. */
export function encodeReservations(
  { tables, namespace, packetBytes }: Store,
  reservations: ReportBatch['reservations'],
): readonly Statement[] {
  const rows = reservations
    .toSorted(bySubject)
    .map((one) => [namespace, one.subject, one.subscriptionId, one.stateHash, one.notificationId])
  return encodeRows(rows, packetBytes, (text) => [
    `INSERT INTO ${tables.monitor.window} (namespace, subject, subscription_id, state_hash, notification_id)
      VALUES ${text} ON DUPLICATE KEY UPDATE ${given(['notification_id'])}, status = 'pending', ends_at = NULL`,
    [],
  ])
}

function bySubject(a: { readonly subject: string }, b: { readonly subject: string }): number {
  return a.subject === b.subject ? 0 : a.subject < b.subject ? -1 : 1
}
