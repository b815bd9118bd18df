import type {
  Explanation,
  Reason,
  ReportAnswer,
  ShownDecision,
  ShownNotification,
  ShownSubject,
} from '../../../monitor/index.ts'
import type { NotificationStatus } from '../../../monitor/monitor-store.ts'
import { type IdParams, idParams, type Page, pageOf, pageQuery } from '../page.ts'
import type { BodyLimits, Route } from '../route.ts'
import { type Schema, schemaFor, strict, Type } from '../schema.ts'
import { count, instant, instantOrNull, name } from '../values.ts'

/** The routes of the monitor. Bodies are the library's options. */

const id = Type.String({ minLength: 1, maxLength: 64 })
const textOrNull = Type.Union([Type.String(), Type.Null()])
const cursorOrNull = textOrNull
/** The id of what the page before ended with. */
const page = pageQuery(64)

const reason = Type.Union([
  Type.Literal('new'),
  Type.Literal('changed'),
  Type.Literal('unchanged'),
  Type.Literal('stale'),
  Type.Literal('pending'),
  Type.Literal('notified_recently'),
  Type.Literal('flapping'),
  Type.Literal('throttled'),
  Type.Literal('silenced'),
  Type.Literal('no_subscriber'),
  Type.Literal('duplicate_event'),
])
const status = Type.Union([
  Type.Literal('pending'),
  Type.Literal('sending'),
  Type.Literal('sent'),
  Type.Literal('dead'),
  Type.Literal('held'),
  Type.Literal('cancelled'),
])
/** Names a subject: `subject`, or `timeSlot` and `venueId`, as it was reported. */
const shownName = { subject: Type.Optional(Type.String()), venueId: Type.Optional(Type.String()) }
const place = { source: Type.String(), ...shownName, timeSlot: Type.Optional(Type.String()) }
const somePlace = {
  source: Type.Optional(name),
  subject: Type.Optional(name),
  timeSlot: Type.Optional(name),
  venueId: Type.Optional(name),
}

export interface ReportBody {
  readonly taskId: string
  readonly source: string
  readonly observedAt: number
  /** The general form; or `timeSlot` and `venues`. */
  readonly subjects?: readonly { readonly subject: string; readonly state: unknown }[]
  readonly timeSlot?: string
  readonly venues?: readonly { readonly venueId: string; readonly state: unknown }[]
  readonly ignore?: readonly string[]
}

const reportLimits: BodyLimits = { maxBytes: 16 * 1_048_576, maxKeys: 200_000 }

export const reportChanges: Route<{ body: ReportBody; reply: ReportAnswer }> = {
  id: 'reportChanges',
  method: 'POST',
  path: '/v1/monitor/report',
  scope: 'work',
  module: 'monitor',
  summary: 'Report what a task saw of its subjects; subscribers are notified once of each change.',
  description:
    '`processed`: compared, decided and written. `busy`: another reporter works on this task. `duplicate`: it was reported before. ' +
    'The general form has `subjects`. A report with `timeSlot` and `venues` maps onto it: each venue is a subject, named by its time slot and its id. ' +
    'A subject that cannot be taken is in `failed`, and the rest of the report goes through. ' +
    `At most 10,000 subjects. A report is known by its \`taskId\`.`,
  body: schemaFor<ReportBody>()(
    Type.Object(
      {
        taskId: name,
        source: name,
        observedAt: instant,
        // The service checks each of them: one that is wrong fails alone.
        subjects: Type.Optional(
          Type.Array(Type.Object({ subject: Type.String(), state: Type.Unknown() }, strict)),
        ),
        timeSlot: Type.Optional(name),
        venues: Type.Optional(
          Type.Array(Type.Object({ venueId: Type.String(), state: Type.Unknown() }, strict)),
        ),
        ignore: Type.Optional(Type.Array(name, { maxItems: 1_000 })),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<ReportAnswer>()(
      Type.Object({
        status: Type.Union([Type.Literal('processed'), Type.Literal('busy'), Type.Literal('duplicate')]),
        changes: Type.Array(Type.Object({ ...shownName, from: Type.Unknown(), to: Type.Unknown(), reason })),
        notified: count,
        suppressed: Type.Array(Type.Object({ ...shownName, reason })),
        failed: Type.Array(
          Type.Object({
            ...shownName,
            error: Type.Object({ code: Type.String(), message: Type.String() }),
          }),
        ),
      }),
    ),
  },
  mutates: true,
  problems: ['too_large'],
  limits: reportLimits,
}

const notificationFields = {
  id: Type.String(),
  ...place,
  subscriptionId: Type.String(),
  subscription: textOrNull,
  channel: textOrNull,
  kind: Type.String(),
  from: Type.Unknown(),
  to: Type.Unknown(),
  status,
  attempt: count,
  maxAttempts: count,
  dueAt: instant,
  createdAt: instant,
  finishedAt: instantOrNull,
  error: Type.Union([
    Type.Object({ message: Type.String(), code: Type.Optional(Type.String()) }),
    Type.Null(),
  ]),
  possibleRepeat: Type.Boolean(),
  digestId: textOrNull,
  decisionId: textOrNull,
  eventId: textOrNull,
}
const notification: Schema<ShownNotification> = schemaFor<ShownNotification>()(
  Type.Object(notificationFields),
)

const verdictFields = {
  subscriptionId: Type.String(),
  notified: Type.Boolean(),
  reason,
  kind: Type.String(),
  notificationId: textOrNull,
}
const decisionFields = {
  id: Type.String(),
  ...place,
  taskId: Type.String(),
  reason,
  from: Type.Unknown(),
  to: Type.Unknown(),
  eventId: textOrNull,
  observedAt: instant,
  decidedAt: instant,
}
const decision: Schema<ShownDecision> = schemaFor<ShownDecision>()(
  Type.Object({ ...decisionFields, verdicts: Type.Array(Type.Object(verdictFields)) }),
)

export interface ExplainQuery {
  readonly source: string
  readonly subject?: string
  readonly timeSlot?: string
  readonly venueId?: string
  readonly limit?: number
  readonly cursor?: string
}

export const explainSubject: Route<{ query: ExplainQuery; reply: Explanation }> = {
  id: 'explainSubject',
  method: 'GET',
  path: '/v1/monitor/explain',
  scope: 'read',
  module: 'monitor',
  summary:
    'Why subscribers were notified, or not: the decisions about a subject, each with its reason and its notifications.',
  query: schemaFor<ExplainQuery>()(Type.Object({ ...somePlace, source: name, ...page }, strict)),
  replies: {
    200: schemaFor<Explanation>()(
      Type.Object({
        ...place,
        present: Type.Union([
          Type.Object({ state: Type.Unknown(), observedAt: instant, changedAt: instant }),
          Type.Null(),
        ]),
        windows: Type.Array(
          Type.Object({
            subscriptionId: Type.String(),
            subscription: textOrNull,
            state: Type.Optional(Type.Unknown()),
            isPresentState: Type.Boolean(),
            status: Type.Union([Type.Literal('pending'), Type.Literal('notified'), Type.Literal('owed')]),
            notificationId: Type.String(),
            notifiedAt: instantOrNull,
            endsAt: instantOrNull,
          }),
        ),
        decisions: Type.Array(
          Type.Object({
            ...decisionFields,
            verdicts: Type.Array(
              Type.Object({
                ...verdictFields,
                notification: Type.Union([Type.Object(notificationFields), Type.Null()]),
              }),
            ),
          }),
        ),
        cursor: cursorOrNull,
      }),
    ),
  },
  mutates: false,
}

export interface ListDecisionsQuery {
  readonly source?: string
  readonly subject?: string
  readonly timeSlot?: string
  readonly venueId?: string
  readonly reason?: Reason
  readonly limit?: number
  readonly cursor?: string
}

export const listDecisions: Route<{ query: ListDecisionsQuery; reply: Page<ShownDecision> }> = {
  id: 'listDecisions',
  method: 'GET',
  path: '/v1/monitor/decisions',
  scope: 'read',
  module: 'monitor',
  summary:
    'Decisions, newest first; of one subject by source and subject, or by source, timeSlot and venueId.',
  query: schemaFor<ListDecisionsQuery>()(
    Type.Object({ ...somePlace, reason: Type.Optional(reason), ...page }, strict),
  ),
  replies: { 200: pageOf<ShownDecision>(decision) },
  mutates: false,
}

export interface ListNotificationsQuery {
  readonly source?: string
  readonly subject?: string
  readonly timeSlot?: string
  readonly venueId?: string
  readonly subscriptionId?: string
  readonly status?: NotificationStatus
  readonly limit?: number
  readonly cursor?: string
}

export const listNotifications: Route<{ query: ListNotificationsQuery; reply: Page<ShownNotification> }> = {
  id: 'listNotifications',
  method: 'GET',
  path: '/v1/monitor/notifications',
  scope: 'read',
  module: 'monitor',
  summary: 'What was sent or is to be, newest first: where, when, tried how often.',
  query: schemaFor<ListNotificationsQuery>()(
    Type.Object(
      { ...somePlace, subscriptionId: Type.Optional(id), status: Type.Optional(status), ...page },
      strict,
    ),
  ),
  replies: { 200: pageOf<ShownNotification>(notification) },
  mutates: false,
}

/** What becomes of a notification that is sent again. */
export interface Replayed {
  readonly id: string
  readonly status: 'pending'
}

export const replayNotification: Route<{ params: IdParams; reply: Replayed }> = {
  id: 'replayNotification',
  method: 'POST',
  path: '/v1/monitor/notifications/{id}/replay',
  scope: 'admin',
  module: 'monitor',
  summary: 'Send a dead or held notification once more.',
  params: idParams,
  replies: {
    200: schemaFor<Replayed>()(Type.Object({ id: Type.String(), status: Type.Literal('pending') })),
  },
  mutates: true,
  problems: ['not_found', 'conflict'],
}

export interface ListSubjectsQuery {
  readonly source?: string
  readonly search?: string
  readonly limit?: number
  readonly cursor?: string
}

const subject: Schema<ShownSubject> = schemaFor<ShownSubject>()(
  Type.Object({ ...place, state: Type.Unknown(), observedAt: instant, changedAt: instant }),
)

export const listSubjects: Route<{ query: ListSubjectsQuery; reply: Page<ShownSubject> }> = {
  id: 'listSubjects',
  method: 'GET',
  path: '/v1/monitor/subjects',
  scope: 'read',
  module: 'monitor',
  summary: 'The subjects that were reported, and their present state.',
  query: schemaFor<ListSubjectsQuery>()(
    Type.Object({ source: Type.Optional(name), search: Type.Optional(name), ...pageQuery(8_192) }, strict),
  ),
  replies: { 200: pageOf<ShownSubject>(subject) },
  mutates: false,
}
