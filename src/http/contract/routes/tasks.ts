import type {
  Explanation,
  FoundTask,
  SubmitOptions,
  Submitted,
  Task,
  TaskEvent,
  TaskStatus,
} from '../../../dispatch/index.ts'
import { type IdParams, idParams, type Page, pageOf, pageQuery } from '../page.ts'
import type { Route } from '../route.ts'
import { type Schema, schemaFor, strict, Type } from '../schema.ts'
import { terms } from '../terms.ts'
import { count, instant, instantOrNull, name, span } from '../values.ts'

/** Tasks: submitted, looked at, watched, cancelled, explained. */

const text = Type.String()
const textOrNull = Type.Union([text, Type.Null()])
const numberOrNull = Type.Union([Type.Number(), Type.Null()])
/** Which names and numbers are allowed is judged by the module too. */
const uses = Type.Unsafe<Readonly<Record<string, number>>>({
  type: 'object',
  maxProperties: 16,
  description: 'Slots by service: `{ asr: 1, nmt: 2 }`.',
})
const status = Type.Union([
  Type.Literal('waiting'),
  Type.Literal('assigned'),
  Type.Literal('running'),
  Type.Literal('completed'),
  Type.Literal('failed'),
  Type.Literal('cancelled'),
])
const taskError = Type.Object({ code: text, message: text })

const taskFields = {
  taskId: text,
  status,
  attempt: count,
  nodeId: textOrNull,
  service: text,
  output: Type.Unknown(),
  error: Type.Union([taskError, Type.Null()]),
  submittedAt: instant,
  finishedAt: instantOrNull,
}

export const taskSchema: Schema<Task> = schemaFor<Task>()(Type.Object(taskFields))

export const foundTaskSchema: Schema<FoundTask> = schemaFor<FoundTask>()(
  Type.Object({
    ...taskFields,
    progress: Type.Union([
      Type.Object({ percent: numberOrNull, note: textOrNull, at: instant }),
      Type.Null(),
    ]),
    uses,
    requires: terms,
    prefers: terms,
    payload: Type.Unknown(),
    priority: Type.Integer(),
    tenant: text,
    session: textOrNull,
    deadlineMs: numberOrNull,
    idleMs: numberOrNull,
    retryable: Type.Boolean(),
  }),
)

/** What a task is submitted with; an Idempotency-Key counts where there is no `idempotencyKey`. */
export type SubmitTaskBody = SubmitOptions

const nullable = (schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]))
const submitBody: Schema<SubmitTaskBody> = Type.Object(
  {
    service: name,
    uses: Type.Optional(uses),
    requires: Type.Optional(terms),
    prefers: Type.Optional(terms),
    payload: Type.Optional(Type.Unknown()),
    priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 9, default: 5 })),
    tenant: Type.Optional(name),
    session: nullable(name),
    deadlineMs: nullable(span),
    idleMs: nullable(span),
    retryable: Type.Optional(Type.Boolean({ default: true })),
    idempotencyKey: nullable(name),
  },
  strict,
) as Schema<SubmitTaskBody>

const submitted: Schema<Submitted> = schemaFor<Submitted>()(
  Type.Object({ taskId: text, status, duplicate: Type.Boolean() }),
)

export const submitTask: Route<{ body: SubmitTaskBody; reply: Submitted }> = {
  id: 'submitTask',
  method: 'POST',
  path: '/v1/tasks',
  scope: 'work',
  module: 'dispatch',
  summary: 'Submit a task: it is kept durably, and goes to a node that offers what it needs.',
  description:
    '`uses` reserves slots of several services on one node at once; `requires` must all hold, `prefers` had better. It waits until ' +
    'there is room, by priority and fairly between tenants, at most until `deadlineMs`. It ends exactly once. A known ' +
    '`idempotencyKey` (kept for 24 hours) is 200 and the task that it made; an Idempotency-Key header is taken in its place.',
  body: submitBody,
  replies: { 200: submitted, 202: submitted },
  mutates: true,
  problems: ['too_large', 'too_many'],
}

export interface ListTasksQuery {
  readonly status?: TaskStatus
  readonly limit?: number
  readonly cursor?: string
}

export const listTasks: Route<{ query: ListTasksQuery; reply: Page<Task> }> = {
  id: 'listTasks',
  method: 'GET',
  path: '/v1/tasks',
  scope: 'read',
  module: 'dispatch',
  summary: 'List tasks, the newest first, of one status or of all.',
  description:
    'A task that runs at the node of another server is `running` within two seconds, and counts as `waiting` until then; ' +
    '`assigned` are the tasks that this server has given to its nodes. A page that is short is the last only if its ' +
    '`cursor` is null.',
  query: schemaFor<ListTasksQuery>()(
    Type.Object({ status: Type.Optional(status), ...pageQuery(191) }, strict),
  ),
  replies: { 200: pageOf(taskSchema) },
  mutates: false,
}

export const getTask: Route<{ params: IdParams; reply: FoundTask }> = {
  id: 'getTask',
  method: 'GET',
  path: '/v1/tasks/{id}',
  scope: 'read',
  module: 'dispatch',
  summary: 'One task: how it stands, where it is, what it was submitted with, and what came of it.',
  description:
    '`progress` is what its node last said in this attempt, on whichever server the node is; of another server up to about a second old.',
  params: idParams,
  replies: { 200: foundTaskSchema },
  mutates: false,
  problems: ['not_found'],
}

/** What the stream of a task tells, by type. */
export type TaskEvents = {
  readonly [Event in TaskEvent as Event['status']]: Omit<Event, 'status'>
}

const ofTask = { taskId: text, attempt: count, at: instant }
const onNode = { ...ofTask, nodeId: textOrNull }

/** The data of each type of event. */
export const taskEventSchemas: { readonly [Name in keyof TaskEvents]: Schema<TaskEvents[Name]> } = {
  waiting: Type.Object(ofTask),
  assigned: Type.Object(onNode),
  running: Type.Object(onNode),
  progress: Type.Object({ ...onNode, percent: numberOrNull, note: textOrNull }),
  completed: Type.Object({ ...onNode, output: Type.Unknown() }),
  failed: Type.Object({ ...onNode, error: taskError }),
  cancelled: Type.Object({ ...onNode, error: taskError }),
}

export const taskEvents: Route<{ params: IdParams }> = {
  id: 'taskEvents',
  method: 'GET',
  path: '/v1/tasks/{id}/events',
  scope: 'read',
  module: 'dispatch',
  summary: 'A stream of what happens to a task, from how it stands now to its end.',
  description:
    'The present state comes first, also after a reconnect: there is nothing to resume. Progress that is not read in time is skipped. ' +
    'The stream ends after `completed`, `failed` or `cancelled`.',
  params: idParams,
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  replyType: 'events',
  mutates: false,
  problems: ['not_found', 'too_many'],
}

export interface CancelTaskBody {
  readonly reason?: string
}

export const cancelTask: Route<{ params: IdParams; body: CancelTaskBody; reply: Task }> = {
  id: 'cancelTask',
  method: 'POST',
  path: '/v1/tasks/{id}/cancel',
  scope: 'work',
  module: 'dispatch',
  summary: 'End a task unless it ended before; a node that runs it is told to stop.',
  params: idParams,
  body: schemaFor<CancelTaskBody>()(
    Type.Object({ reason: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 })) }, strict),
  ),
  bodyOptional: true,
  replies: { 200: taskSchema },
  mutates: true,
  problems: ['not_found'],
}

export const explainTask: Route<{ params: IdParams; reply: Explanation }> = {
  id: 'explainTask',
  method: 'GET',
  path: '/v1/tasks/{id}/explain',
  scope: 'read',
  module: 'dispatch',
  summary:
    'Why a task waits: how many nodes fail each requirement, the nearest misses, and what would wake it.',
  params: idParams,
  replies: {
    200: schemaFor<Explanation>()(
      Type.Object({
        taskId: text,
        nodeCount: count,
        suitableCount: count,
        readyCount: count,
        requirements: Type.Array(Type.Object({ requirement: text, failingCount: count })),
        nearest: Type.Array(Type.Object({ nodeId: text, missing: Type.Array(text) })),
        wakes: Type.Array(text),
      }),
    ),
  },
  mutates: false,
  problems: ['not_found'],
}
