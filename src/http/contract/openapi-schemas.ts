import type { QueueStats } from '../../jobs/index.ts'
import type { Route } from './route.ts'
import { ackJob } from './routes/attempts.ts'
import {
  type JobWatchEvents,
  jobWatchEventSchemas,
  type QueueWatchEvents,
  queueWatchEventSchemas,
} from './routes/job-waits.ts'
import * as jobs from './routes/jobs.ts'
import { type LockEvents, lockEventSchemas } from './routes/locks.ts'
import { nodeSchema } from './routes/nodes.ts'
import * as queues from './routes/queues.ts'
import { type JobEvents, queueStatsSchema } from './routes/queues.ts'
import * as schedules from './routes/schedules.ts'
import type { ServerEvents } from './routes/system.ts'
import * as tokens from './routes/system.ts'
import { foundTaskSchema, type TaskEvents, taskEventSchemas, taskSchema } from './routes/tasks.ts'
import { objectFor, type Schema, schemaFor, Type } from './schema.ts'
import * as terms from './values.ts'

/**
 * The table's schemas as OpenAPI shows them. What several routes share has a name there; the names are given here, and
 * what they stand for is taken from the routes, so a schema is still written down once.
 */

/** JSON Schema, as plain data. */
export interface JsonSchema {
  readonly [keyword: string]: unknown
}

/** Schemas by name, and the way to mention one. */
export interface Components {
  /** A schema in which every shared part is a reference. */
  show(schema: Schema): JsonSchema
  /** What the references shown so far refer to, by name. */
  used(): Readonly<Record<string, JsonSchema>>
}

export function createComponents(): Components {
  const nameByText = new Map<string, string>()
  // The first name wins where two schemas say the same.
  for (const [name, schema] of Object.entries(shared)) {
    const text = JSON.stringify(schema)
    if (!nameByText.has(text)) nameByText.set(text, name)
  }
  const used = new Map<string, JsonSchema>()

  function show(part: unknown): unknown {
    if (Array.isArray(part)) return part.map(show)
    if (typeof part !== 'object' || part === null) return part
    const name = nameByText.get(JSON.stringify(part))
    if (name === undefined) return showFields(part)
    if (!used.has(name)) {
      // Kept before it is filled, so that a schema that mentions itself would come to an end.
      used.set(name, {})
      used.set(name, showFields(part) as JsonSchema)
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  const showFields = (part: object): unknown => {
    const words = wordsOf(part)
    if (words !== undefined) return { type: 'string', enum: words }
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, show(value)]))
  }

  return {
    show: (schema) => show(schema) as JsonSchema,
    used: () => Object.fromEntries([...used].sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

/** The words of a union of words. The same as an `enum`, which generators of clients understand better. */
export function wordsOf(part: object): readonly string[] | undefined {
  const { anyOf } = part as { anyOf?: readonly { const?: unknown }[] }
  if (anyOf === undefined || anyOf.length < 2) return undefined
  const words = anyOf.map((option) => option.const)
  return words.every((word) => typeof word === 'string') ? words : undefined
}

interface Parts {
  readonly properties: Readonly<Record<string, Schema & Parts>>
  readonly items: Schema & Parts
  readonly anyOf: readonly (Schema & Parts)[]
}

const partsOf = (schema: Schema | undefined) => schema as Schema & Parts
const itemOf = (page: Route<never>) => partsOf(page.replies[200]).properties.items!.items

const job = partsOf(jobs.jobSchema)

const shared: Readonly<Record<string, Schema>> = {
  Task: taskSchema,
  FoundTask: foundTaskSchema,
  Node: nodeSchema,
  ServiceTerm: terms.serviceTermSchema,
  LabelTerm: terms.labelTermSchema,
  ...terms.nestingTermSchemas,
  Job: job,
  ClaimedJob: itemOf(jobs.claimJobs as Route<never>),
  JobToAdd: partsOf(jobs.addJobs.body).anyOf[0]!,
  JobState: job.properties.state!,
  JobError: job.properties.error!.anyOf[0]!,
  Backoff: job.properties.backoff!,
  Added: partsOf(jobs.addJobs.replies[201]).anyOf[0]!,
  Settled: ackJob.replies[200]!,
  QueueStats: queues.queueStatsSchema,
  Schedule: schedules.getSchedule.replies[200]!,
  Token: itemOf(tokens.listTokens as Route<never>),
  Scope: itemOf(tokens.listTokens as Route<never>).properties.scope!,
}

/** The events of streams, for the description of the API; OpenAPI 3.1 has no keyword for them. */
export interface StreamEvent<Data = unknown> {
  readonly description: string
  readonly data: Schema<Data>
}

/** The events of a stream by type, in the order a reader meets them; undefined when the route is none. */
export function streamEventsOf(routeId: string): Readonly<Record<string, StreamEvent>> | undefined {
  return Object.hasOwn(streams, routeId) ? { ...streams[routeId as keyof typeof streams], error } : undefined
}

/** Whether it can be resumed after the event with this id. */
export function isResumable(routeId: string): boolean {
  return 'reset' in (streamEventsOf(routeId) ?? {})
}

type StreamEvents<Events> = { readonly [Type in keyof Events]: StreamEvent<Events[Type]> }
type Nothing = Readonly<Record<string, never>>

const nothing: Schema<Nothing> = schemaFor<Nothing>()(
  Type.Unsafe<Nothing>({ type: 'object', maxProperties: 0 }),
)

/** The last word of any stream that does not end by itself. */
const error: StreamEvent = {
  description: 'The stream ends; the code and message are those of a problem document.',
  data: Type.Object({ code: Type.String(), message: Type.String() }),
}

/** Each schema is checked against the type that server and client use. */
const streams: {
  readonly events: StreamEvents<{ reset: Nothing } & ServerEvents>
  readonly jobEvents: StreamEvents<{ open: Nothing } & JobEvents>
  readonly lockEvents: StreamEvents<LockEvents>
  readonly taskEvents: StreamEvents<TaskEvents>
  readonly watchJob: StreamEvents<JobWatchEvents>
  readonly watchQueue: StreamEvents<QueueWatchEvents>
} = {
  events: {
    reset: {
      description: 'What came after the Last-Event-ID is no longer known; the present state follows.',
      data: nothing,
    },
    queues: {
      description: 'Every queue, first and whenever a number changed.',
      data: objectFor<ServerEvents['queues']>()({
        items: Type.Array(Type.Unsafe<QueueStats>(queueStatsSchema)),
      }),
    },
  },
  jobEvents: {
    open: { description: 'From here on hints are heard.', data: nothing },
    ready: {
      description: 'There may be a job in this queue.',
      data: objectFor<JobEvents['ready']>()({ queue: Type.String() }),
    },
    cancel: {
      description:
        'A running job has a cancellation request. Renew, or call /v1/jobs/held, to learn which job.',
      data: nothing,
    },
  },
  lockEvents: {
    reset: {
      description:
        'The wait queue as it is: the first event for an observer, and after a Last-Event-ID that the server does not know.',
      data: lockEventSchemas.reset,
    },
    queued: {
      description:
        'Your position in the wait queue; 1 is next. A stream without `node` gets the number of waiters.',
      data: lockEventSchemas.queued,
    },
    granted: {
      description: 'A node got the lock. Only the stream of that node has the token.',
      data: lockEventSchemas.granted,
    },
    progress: {
      description: 'What the holder says of its work.',
      data: lockEventSchemas.progress,
    },
    completed: {
      description: 'The holder succeeded. The last event for a waiter that wants the result.',
      data: lockEventSchemas.completed,
    },
    failed: {
      description:
        'The holder failed for good: the last event for a waiter. A stream without `node` gets each failed turn.',
      data: lockEventSchemas.failed,
    },
    timeout: { description: 'The deadline came before the turn did.', data: lockEventSchemas.timeout },
    evicted: { description: 'An operator removed this request.', data: lockEventSchemas.evicted },
    lost: { description: 'This request does not wait, or no longer waits.', data: lockEventSchemas.lost },
  },
  taskEvents: {
    waiting: {
      description: 'It waits for a node; again after an attempt that was given up.',
      data: taskEventSchemas.waiting,
    },
    assigned: { description: 'A node was given it.', data: taskEventSchemas.assigned },
    running: { description: 'The node has accepted it.', data: taskEventSchemas.running },
    progress: { description: 'How far the node says it is.', data: taskEventSchemas.progress },
    completed: { description: 'It is done. The last event.', data: taskEventSchemas.completed },
    failed: { description: 'It failed for good. The last event.', data: taskEventSchemas.failed },
    cancelled: { description: 'The task was cancelled. The last event.', data: taskEventSchemas.cancelled },
  },
  watchJob: {
    state: {
      description: 'The present state, and each state that follows. An ended state is the last event.',
      data: jobWatchEventSchemas.state,
    },
    progress: { description: 'What the attempt reported last.', data: jobWatchEventSchemas.progress },
    log: { description: 'A log line, in the order of writing.', data: jobWatchEventSchemas.log },
  },
  watchQueue: {
    open: { description: 'The stream begins here.', data: queueWatchEventSchemas.place },
    completed: { description: 'A job was completed.', data: queueWatchEventSchemas.end },
    dead: { description: 'A job is dead.', data: queueWatchEventSchemas.end },
    cancelled: { description: 'A job was cancelled.', data: queueWatchEventSchemas.end },
    place: { description: 'The reader has everything up to here.', data: queueWatchEventSchemas.place },
  },
}
