import type {
  Explanation,
  GivenPlace,
  ListDecisionsOptions,
  ListNotificationsOptions,
  ListSubjectsOptions,
  Monitor,
  ReportAnswer,
  ShownDecision,
  ShownNotification,
  ShownSubject,
} from '../../../monitor/index.ts'
import { type BodyLimits, type Route, route } from '../route.ts'
import { object, oneOf, queryObject, type Schema, strict, strictObject, Type } from '../schema.ts'
import {
  count,
  type IdParams,
  instant,
  instantOrNull,
  name,
  orNull,
  type Page,
  type PageQuery,
  pageOf,
  pageQuery,
} from '../values.ts'

/** The routes of the monitor. Bodies are the library's options. */

const id = Type.String({ minLength: 1, maxLength: 64 })
const textOrNull = orNull(Type.String())
const cursorOrNull = textOrNull
/** The id of the last item of the previous page. */
const page = pageQuery(64)

const reason = oneOf(
  'new',
  'changed',
  'unchanged',
  'stale',
  'pending',
  'notified_recently',
  'flapping',
  'throttled',
  'silenced',
  'no_subscriber',
  'duplicate_event',
)
const status = oneOf('pending', 'sending', 'sent', 'dead', 'held', 'cancelled')
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
  readonly subjects?: readonly { readonly subject: string; readonly state: unknown }[] | undefined
  readonly timeSlot?: string | undefined
  readonly venues?: readonly { readonly venueId: string; readonly state: unknown }[] | undefined
  readonly ignore?: readonly string[] | undefined
}

const reportLimits: BodyLimits = { maxBytes: 16 * 1_048_576, maxKeys: 200_000 }

export const reportChanges: Route<{ body: ReportBody; reply: ReportAnswer }> = {
  ...route('monitor', 'reportChanges', 'POST /v1/monitor/report', 'work'),
  summary: 'Report the states of subjects; subscribers are notified once of each change.',
  description:
    '`processed`: compared, decided and written. `busy`: another reporter works on this task. `duplicate`: it was reported before. ' +
    'The general form has `subjects`. A report with `timeSlot` and `venues` maps onto it: each venue is a subject, named by its time slot and its id. ' +
    'A subject that cannot be taken is in `failed`, and the rest of the report goes through. ' +
    `At most 10,000 subjects. A report is known by its \`taskId\`.`,
  body: strictObject({
    taskId: name,
    source: name,
    observedAt: instant,
    // The service checks each subject, so an invalid one fails alone.
    subjects: Type.Optional(
      Type.Array(Type.Object({ subject: Type.String(), state: Type.Unknown() }, strict)),
    ),
    timeSlot: Type.Optional(name),
    venues: Type.Optional(Type.Array(Type.Object({ venueId: Type.String(), state: Type.Unknown() }, strict))),
    ignore: Type.Optional(Type.Array(name, { maxItems: 1_000 })),
  }),
  replies: {
    200: object({
      status: oneOf('processed', 'busy', 'duplicate'),
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
  },
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
  error: orNull(Type.Object({ message: Type.String(), code: Type.Optional(Type.String()) })),
  possibleRepeat: Type.Boolean(),
  digestId: textOrNull,
  decisionId: textOrNull,
  eventId: textOrNull,
}
const notification: Schema<ShownNotification> = object(notificationFields)

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
const decision: Schema<ShownDecision> = object({
  ...decisionFields,
  verdicts: Type.Array(Type.Object(verdictFields)),
})

/** All subjects of a place, in either form. */
export interface ExplainQuery extends GivenPlace, PageQuery {
  readonly source: string
}

export const explainSubject: Route<{ query: ExplainQuery; reply: Explanation }> = {
  ...route('monitor', 'explainSubject', 'GET /v1/monitor/explain', 'read'),
  summary:
    'Explain why subscribers were notified of a subject, or not: decisions with reasons and notifications.',
  query: queryObject({ ...somePlace, source: name, ...page }),
  replies: {
    200: object({
      ...place,
      present: orNull(Type.Object({ state: Type.Unknown(), observedAt: instant, changedAt: instant })),
      windows: Type.Array(
        Type.Object({
          subscriptionId: Type.String(),
          subscription: textOrNull,
          state: Type.Optional(Type.Unknown()),
          isPresentState: Type.Boolean(),
          status: oneOf('pending', 'notified', 'owed'),
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
              notification: orNull(Type.Object(notificationFields)),
            }),
          ),
        }),
      ),
      cursor: cursorOrNull,
    }),
  },
}

export const listDecisions: Route<{ query: ListDecisionsOptions; reply: Page<ShownDecision> }> = {
  ...route('monitor', 'listDecisions', 'GET /v1/monitor/decisions', 'read'),
  summary:
    'List decisions, newest first; of one subject by source and subject, or by source, timeSlot and venueId.',
  query: queryObject({ ...somePlace, reason: Type.Optional(reason), ...page }),
  replies: { 200: pageOf<ShownDecision>(decision) },
}

export const listNotifications: Route<{ query: ListNotificationsOptions; reply: Page<ShownNotification> }> = {
  ...route('monitor', 'listNotifications', 'GET /v1/monitor/notifications', 'read'),
  summary: 'List notifications, newest first: channel, state, number of tries.',
  query: queryObject({
    ...somePlace,
    subscriptionId: Type.Optional(id),
    status: Type.Optional(status),
    ...page,
  }),
  replies: { 200: pageOf<ShownNotification>(notification) },
}

export const replayNotification: Route<{ params: IdParams; reply: Awaited<ReturnType<Monitor['replay']>> }> =
  {
    ...route('monitor', 'replayNotification', 'POST /v1/monitor/notifications/{id}/replay', 'admin'),
    summary: 'Send a dead or held notification once more.',
    replies: {
      200: object({
        id: Type.String(),
        status: Type.Literal('pending'),
      }),
    },
    problems: ['not_found', 'conflict'],
  }

const subject: Schema<ShownSubject> = object({
  ...place,
  state: Type.Unknown(),
  observedAt: instant,
  changedAt: instant,
})

export const listSubjects: Route<{ query: ListSubjectsOptions; reply: Page<ShownSubject> }> = {
  ...route('monitor', 'listSubjects', 'GET /v1/monitor/subjects', 'read'),
  summary: 'List the reported subjects and their current states.',
  query: queryObject({
    source: Type.Optional(name),
    search: Type.Optional(name),
    ...pageQuery(8_192),
  }),
  replies: { 200: pageOf<ShownSubject>(subject) },
}
