import type {
  Dispatch,
  Explanation,
  FoundTask,
  ListTasksOptions,
  SubmitOptions,
  Submitted,
  Task,
  TaskEvent,
} from '../../../dispatch/index.ts'
import { type Route, route, type StreamEvents, streamOf } from '../route.ts'
import { object, oneOf, queryObject, type Schema, strict, strictObject, Type } from '../schema.ts'
import {
  count,
  type IdParams,
  instant,
  instantOrNull,
  name,
  orNull,
  type Page,
  pageOf,
  pageQuery,
  span,
  terms,
} from '../values.ts'

/** Routes that submit, read, watch, cancel and explain tasks. */

const text = Type.String()
const textOrNull = orNull(text)
const numberOrNull = orNull(Type.Number())
/** The module also checks which names and numbers are allowed. */
const uses = Type.Unsafe<Readonly<Record<string, number>>>({
  type: 'object',
  maxProperties: 16,
  description: 'Slots by service: `{ asr: 1, nmt: 2 }`.',
})
const status = oneOf('waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled')
const taskError = Type.Object({ code: text, message: text })

const taskFields = {
  taskId: text,
  status,
  attempt: count,
  nodeId: textOrNull,
  service: text,
  output: Type.Unknown(),
  error: orNull(taskError),
  submittedAt: instant,
  finishedAt: instantOrNull,
}

export const taskSchema: Schema<Task> = object(taskFields)

export const foundTaskSchema: Schema<FoundTask> = object({
  ...taskFields,
  progress: orNull(Type.Object({ percent: numberOrNull, note: textOrNull, at: instant })),
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
})

const nullable = (schema: Schema) => Type.Optional(orNull(schema))
const submitBody: Schema<SubmitOptions> = Type.Object(
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
) as Schema<SubmitOptions>

const submitted: Schema<Submitted> = object({
  taskId: text,
  status,
  duplicate: Type.Boolean(),
})

export const submitTask: Route<{ body: SubmitOptions; reply: Submitted }> = {
  ...route('dispatch', 'submitTask', 'POST /v1/tasks', 'work'),
  summary: 'Submit a task. It is stored durably and goes to a node that offers what it needs.',
  description:
    '`uses` reserves slots of several services on one node at once; all of `requires` must hold, and nodes that ' +
    'fit `prefers` come first. The task waits for free slots, by priority and fairly between tenants, until ' +
    '`deadlineMs` at most. It ends exactly once. A known `idempotencyKey` (kept for 24 hours) gets 200 and its ' +
    'task; an Idempotency-Key header is taken in its place.',
  body: submitBody,
  replies: { 200: submitted, 202: submitted },
  problems: ['too_large', 'too_many'],
}

export const listTasks: Route<{ query: ListTasksOptions; reply: Page<Task> }> = {
  ...route('dispatch', 'listTasks', 'GET /v1/tasks', 'read'),
  summary: 'List tasks, newest first, of one status or of all.',
  description:
    'A task that runs on a node of another server shows as `waiting` for up to two seconds, then as `running`. ' +
    '`assigned` are the tasks that this server has given to its nodes. A short page is the last one only if its ' +
    '`cursor` is null.',
  query: queryObject({ status: Type.Optional(status), ...pageQuery(191) }),
  replies: { 200: pageOf(taskSchema) },
}

export const getTask: Route<{ params: IdParams; reply: FoundTask }> = {
  ...route('dispatch', 'getTask', 'GET /v1/tasks/{id}', 'read'),
  summary: 'Get a task: status, node, terms, payload, result.',
  description:
    '`progress` is the latest report of this attempt. From a node of another server it may be about a second old.',
  replies: { 200: foundTaskSchema },
  problems: ['not_found'],
}

/** The events of a task's stream, by type. */
export type TaskEvents = {
  readonly [Event in TaskEvent as Event['status']]: Omit<Event, 'status'>
}

const ofTask = { taskId: text, attempt: count, at: instant }
const onNode = { ...ofTask, nodeId: textOrNull }

const taskEventParts: StreamEvents<TaskEvents> = {
  waiting: {
    description: 'It waits for a node; again after an attempt that was given up.',
    data: Type.Object(ofTask),
  },
  assigned: { description: 'A node was given it.', data: Type.Object(onNode) },
  running: { description: 'The node has accepted it.', data: Type.Object(onNode) },
  progress: {
    description: 'How far the node says it is.',
    data: Type.Object({ ...onNode, percent: numberOrNull, note: textOrNull }),
  },
  completed: {
    description: 'It is done. The last event.',
    data: Type.Object({ ...onNode, output: Type.Unknown() }),
  },
  failed: {
    description: 'It failed for good. The last event.',
    data: Type.Object({ ...onNode, error: taskError }),
  },
  cancelled: {
    description: 'The task was cancelled. The last event.',
    data: Type.Object({ ...onNode, error: taskError }),
  },
}

export const taskEvents: Route<{ params: IdParams }> = {
  ...route('dispatch', 'taskEvents', 'GET /v1/tasks/{id}/events', 'read'),
  summary: 'Stream the events of a task, from its current state to its end.',
  description:
    'The current state comes first, also after a reconnect, so there is nothing to resume. Progress that is not ' +
    'read in time is skipped. The stream ends after `completed`, `failed` or `cancelled`.',
  ...streamOf(taskEventParts),
  problems: ['not_found', 'too_many'],
}

type CancelOptions = NonNullable<Parameters<Dispatch['cancel']>[1]>

export const cancelTask: Route<{ params: IdParams; body: CancelOptions; reply: Task }> = {
  ...route('dispatch', 'cancelTask', 'POST /v1/tasks/{id}/cancel', 'work'),
  summary: 'Cancel a task that has not ended. The node that runs it is asked to stop.',
  body: strictObject({
    reason: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 })),
  }),
  bodyOptional: true,
  replies: { 200: taskSchema },
  problems: ['not_found'],
}

export const explainTask: Route<{ params: IdParams; reply: Explanation }> = {
  ...route('dispatch', 'explainTask', 'GET /v1/tasks/{id}/explain', 'read'),
  summary:
    'Explain why a task waits: how many nodes fail each requirement, the nearest misses, and what would let it run.',
  replies: {
    200: object({
      taskId: text,
      nodeCount: count,
      suitableCount: count,
      readyCount: count,
      requirements: Type.Array(Type.Object({ requirement: text, failingCount: count })),
      nearest: Type.Array(Type.Object({ nodeId: text, missing: Type.Array(text) })),
      wakes: Type.Array(text),
    }),
  },
  problems: ['not_found'],
}
