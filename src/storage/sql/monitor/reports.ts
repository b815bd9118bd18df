import type {
  BatchAnswer,
  Known,
  KnownAsk,
  KnownSubject,
  NewDecision,
  NewNotification,
  ReportBatch,
  SubjectWrite,
} from '../../../monitor/monitor-store.ts'
import { columns } from '../columns.ts'
import { claimAsDone } from '../guards/guard-claims.ts'
import {
  addJobs,
  last,
  type Operation,
  operation,
  type Procedure,
  type Result,
  run,
  undo,
} from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import { subjectName, subjectState, type Whole } from './reads.ts'
import { beginRules, type RevisionRow, selectRevision, shareRules } from './rules.ts'
import { reserveWindows, storedWindow } from './windows.ts'

/** Guards in this space name the changes that subscribers were notified of. */
export const eventSpace = 'monitor.event'

const ofSubjects = (from: string) => ({
  ...{ from, alias: 't', where: 't.namespace = :namespace', key: 't.subject', keys: ':subjects' },
})

type StoredSubject = Omit<KnownSubject, 'windows'> & { readonly subject: string }

const knownSubject = columns<StoredSubject>({ subject: 'text', ...subjectState, memory: 'text' })

const selectSubjects = statement(
  'monitor_known',
  { namespace: 'text', subjects: 'text[]' },
  (d) => `
SELECT ${knownSubject.of('t')}
${d.byKeys(ofSubjects('@monitor_subject'))}`,
)

const selectWindows = statement(
  'monitor_windows',
  { namespace: 'text', subjects: 'text[]' },
  (d) => `
SELECT ${storedWindow.of('t')}
${d.byKeys(ofSubjects('@monitor_window'))}`,
)

/** The number of recent notifications of each subscription. */
const countCreated = statement(
  'monitor_created',
  { namespace: 'text', rows: { nr: 'integer', subscription_id: 'text', per_ms: 'integer' } },
  (d) => `
SELECT v.nr AS nr, (
  SELECT count(*) FROM @monitor_notification n ${d.byIndex('monitor_notification_created')}
  WHERE n.namespace = :namespace AND n.subscription_id = v.subscription_id AND n.window_ms >= 0
    AND n.created_at > ${d.now} - v.per_ms) AS created
FROM :rows`,
)

/**
 * Reads the known states of subjects. The statements may see different states of the store, so their order matters: a
 * report that commits between them raises a version or the revision, and `writeReport` then refuses decisions on the
 * older one.
 */
export const readKnown: Operation<[string, KnownAsk], Known> = operation({
  name: 'read the states of subjects',
  isRead: true,
  *procedure(namespace: string, { subjects, throttles }: KnownAsk): Procedure<Known> {
    const [rules, found, windows, created] = yield* run(
      selectRevision({ namespace }),
      selectSubjects({ namespace, subjects }),
      selectWindows({ namespace, subjects }),
      ...bindThrottles(namespace, throttles),
    )
    const [{ now, revision }] = rules!.rows as [RevisionRow]
    const known = new Map(found!.rows.map(knownSubject.decode).map((one) => [one.subject, one]))
    const windowsOf = Map.groupBy(windows!.rows.map(storedWindow.decode), ({ subject }) => subject)
    return {
      now: Number(now),
      revision: Number(revision ?? 0),
      subjects: subjects.map((subject) => {
        const one = known.get(subject)
        return one && { ...withoutSubject(one), windows: (windowsOf.get(subject) ?? []).map(withoutSubject) }
      }),
      counts: decodeCreated(created),
    }
  },
})

function withoutSubject<Value extends { readonly subject: string }>({ subject: _, ...rest }: Value) {
  return rest
}

function bindThrottles(namespace: string, throttles: KnownAsk['throttles']): readonly Bound[] {
  if (throttles.length === 0) return []
  const rows = throttles.map(({ subscriptionId, perMs }, nr) => ({
    ...{ nr, subscription_id: subscriptionId, per_ms: perMs },
  }))
  return [countCreated({ namespace, rows })]
}

function decodeCreated(result: Result | undefined): readonly number[] {
  const rows = (result?.rows ?? []) as readonly { nr: Whole; created: Whole }[]
  return rows.toSorted((a, b) => Number(a.nr) - Number(b.nr)).map(({ created }) => Number(created))
}

// Reports of the same throttled subscription are written one after the other; the next statement sees the earlier ones.
const lockSubscriptions = statement(
  'monitor_throttled',
  { namespace: 'text', ids: 'text[]' },
  (d) => `
SELECT id FROM @monitor_subscription WHERE namespace = :namespace AND id IN (:ids) ORDER BY id ${d.forUpdate}`,
)

const updateSubjects = statement(
  'monitor_subject_update',
  {
    namespace: 'text',
    rows: {
      ...{ subject: 'text', version: 'integer', state: 'text | null', state_hash: 'text' },
      ...{ observed_at: 'integer', is_changed: 'boolean', memory: 'text | null' },
    },
  },
  (d) =>
    d.updateByRows(
      '@monitor_subject',
      {
        ...{ version: 'v.version + 1', state: 'coalesce(v.state, t.state)', state_hash: 'v.state_hash' },
        observed_at: 'v.observed_at',
        changed_at: `CASE WHEN v.is_changed THEN ${d.now} ELSE t.changed_at END`,
        memory: 'coalesce(v.memory, t.memory)',
      },
      't.namespace = :namespace AND t.subject = v.subject AND t.version = v.version',
    ),
)

const insertSubjects = statement(
  'monitor_subject_insert',
  {
    namespace: 'text',
    rows: {
      ...{ subject: 'text', source: 'text', time_slot: 'text', venue_id: 'text', state: 'text' },
      ...{ state_hash: 'text', observed_at: 'integer', memory: 'text' },
    },
  },
  (d) => `
INSERT INTO @monitor_subject (namespace, subject, source, time_slot, venue_id, version, state, state_hash, observed_at,
  changed_at, memory)
SELECT :namespace, v.subject, v.source, v.time_slot, v.venue_id, 1, v.state, v.state_hash, v.observed_at, ${d.now}, v.memory
FROM :rows WHERE 1 = 1 ${d.keepExisting('namespace, subject')}`,
)

const newDecision = columns<NewDecision>({
  ...{ id: 'text', ...subjectName, taskId: 'text', reason: 'text', fromHash: 'text | null', toHash: 'text' },
  ...{
    fromText: 'text | null',
    toText: 'text',
    eventId: 'text | null',
    observedAt: 'integer',
    verdicts: 'text',
  },
})

const insertDecisions = statement(
  'monitor_decide',
  { namespace: 'text', rows: newDecision.types },
  (d) => `
INSERT INTO @monitor_decision (namespace, ${newDecision.names}, decided_at)
SELECT :namespace, ${newDecision.of('v')}, ${d.now} FROM :rows`,
)

const newNotification = columns<Omit<NewNotification, 'delayMs'>>({
  ...{ id: 'text', subscriptionId: 'text', channel: 'text', ...subjectName, decisionId: 'text | null' },
  ...{ eventId: 'text | null', kind: 'text', from: ['text | null', 'from_state'], to: ['text', 'to_state'] },
  ...{ stateHash: 'text', windowMs: 'integer', maxAttempts: 'integer' },
})

const insertNotifications = statement(
  'monitor_notify',
  { namespace: 'text', rows: { ...newNotification.types, delay_ms: 'integer' } },
  (d) => `
INSERT INTO @monitor_notification (namespace, ${newNotification.names}, status, attempt, due_at, created_at, possible_repeat)
SELECT :namespace, ${newNotification.of('v')}, 'pending', 0, ${d.now} + v.delay_ms, ${d.now}, FALSE FROM :rows`,
)

/** A statement, and a test of its result: the report is written only if every test passes. */
type Condition = readonly [statement: Bound, isMet: (result: Result) => boolean]

/**
 * Writes a report: first everything that may refuse it, then the rest.
 *
 *     BEGIN, share the rules, subjects on their versions, event ids ──▶ windows, decisions, notifications, jobs, COMMIT
 *
 * All transactions write in one order: known subjects, new subjects, events, windows, each sorted.
 */
export const writeReport: Operation<[string, ReportBatch], BatchAnswer> = operation({
  name: 'write a report',
  connectionGroup: 'waiting',
  mayUndo: true,
  *procedure(namespace: string, batch: ReportBatch): Procedure<BatchAnswer> {
    const { revision, events, reservations, jobs } = batch
    const claim = claimAsDone(namespace, eventSpace, events)
    const conditions: readonly Condition[] = [
      ...bindThrottleConditions(namespace, batch.throttles),
      ...bindSubjects(namespace, batch.subjects),
    ]
    const [, rules, ...results] = yield* run(
      shareRules({ namespace }),
      selectRevision({ namespace }),
      ...conditions.map(([bound]) => bound),
      ...claim.statements,
    )
    const [found] = rules!.rows as [RevisionRow]
    const isCurrent = Number(found.revision ?? (yield* beginRules(namespace))) === revision
    if (!isCurrent || !conditions.every(([, isMet], nr) => isMet(results[nr]!))) {
      yield* undo()
      return { status: 'overtaken' }
    }
    const taken = claim.listTaken(results.slice(conditions.length))
    if (taken.length > 0) {
      yield* undo()
      return { status: 'duplicate', events: taken }
    }
    const rest = [
      ...reserveWindows(namespace, reservations),
      ...bindDecisions(namespace, batch.decisions),
      ...bindNotifications(namespace, batch.notifications),
    ]
    yield* last(addJobs(namespace, jobs, ...rest))
    return { status: 'written' }
  },
})

function bindThrottleConditions(
  namespace: string,
  throttles: ReportBatch['throttles'],
): readonly Condition[] {
  const ids = throttles.map(({ subscriptionId }) => subscriptionId)
  const isMet = (result: Result) =>
    decodeCreated(result).every((created, index) => created <= throttles[index]!.most)
  return bindThrottles(namespace, throttles).flatMap((bound): Condition[] => [
    [lockSubscriptions({ namespace, ids }), () => true],
    [bound, isMet],
  ])
}

/** Each subject must be written: a known one at the version on which the decision was based, any other as a new one. */
function bindSubjects(namespace: string, subjects: readonly SubjectWrite[]): readonly Condition[] {
  const sorted = subjects.toSorted((a, b) => (a.subject < b.subject ? -1 : 1))
  const known = sorted.filter(({ version }) => version > 0)
  const fresh = sorted.filter(({ version }) => version === 0)
  const conditions: Condition[] = []
  if (known.length > 0) {
    const rows = known.map(
      ({ subject, version, state, stateHash, observedAt, changed, memory, sameMemory }) => ({
        ...{ subject, version, state, state_hash: stateHash, observed_at: observedAt, is_changed: changed },
        memory: sameMemory ? null : memory,
      }),
    )
    conditions.push([updateSubjects({ namespace, rows }), ({ rowCount }) => rowCount === known.length])
  }
  if (fresh.length > 0) {
    const rows = fresh.map(({ subject, source, group, name, state, stateHash, observedAt, memory }) => ({
      ...{ subject, source, time_slot: group, venue_id: name, state: state!, state_hash: stateHash },
      ...{ observed_at: observedAt, memory },
    }))
    conditions.push([insertSubjects({ namespace, rows }), ({ rowCount }) => rowCount === fresh.length])
  }
  return conditions
}

function bindDecisions(namespace: string, decisions: readonly NewDecision[]): readonly Bound[] {
  return decisions.length === 0
    ? []
    : [insertDecisions({ namespace, rows: decisions.map(newDecision.encode) })]
}

function bindNotifications(namespace: string, notifications: readonly NewNotification[]): readonly Bound[] {
  const rows = notifications.map((one) => ({ ...newNotification.encode(one), delay_ms: one.delayMs }))
  return rows.length === 0 ? [] : [insertNotifications({ namespace, rows })]
}
