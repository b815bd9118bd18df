import type { QueueStats } from '../../jobs/index.ts'
import { type LockEvents, lockEventSchemas } from './routes/locks.ts'
import { type JobEvents, queueStatsSchema } from './routes/queues.ts'
import type { ServerEvents } from './routes/system.ts'
import { type TaskEvents, taskEventSchemas } from './routes/tasks.ts'
import { type Schema, schemaFor, Type } from './schema.ts'

/** What the streams tell, for the API's description; OpenAPI 3.1 has no words of its own for it. */
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
  description: 'The stream ends, and why. What is told has the codes of problem documents.',
  data: Type.Object({ code: Type.String(), message: Type.String() }),
}

/** Each schema is checked against the type that server and client use. */
const streams: {
  readonly events: StreamEvents<{ reset: Nothing } & ServerEvents>
  readonly jobEvents: StreamEvents<{ open: Nothing } & JobEvents>
  readonly lockEvents: StreamEvents<LockEvents>
  readonly taskEvents: StreamEvents<TaskEvents>
} = {
  events: {
    reset: {
      description: 'What came after the Last-Event-ID is no longer known; the present state follows.',
      data: nothing,
    },
    queues: {
      description: 'Every queue, first and whenever a number changed.',
      data: schemaFor<ServerEvents['queues']>()(
        Type.Object({ items: Type.Array(Type.Unsafe<QueueStats>(queueStatsSchema)) }),
      ),
    },
  },
  jobEvents: {
    open: { description: 'From here on hints are heard.', data: nothing },
    ready: {
      description: 'There may be a job in this queue.',
      data: schemaFor<JobEvents['ready']>()(Type.Object({ queue: Type.String() })),
    },
    cancel: {
      description: 'Somebody wants a running job cancelled; renew, or ask what is held, to learn which.',
      data: nothing,
    },
  },
  lockEvents: {
    reset: {
      description:
        'The line as it is: first for one who looks on, and wherever what came after the Last-Event-ID is not known.',
      data: lockEventSchemas.reset,
    },
    queued: {
      description: 'Your place in line, 1 is next; to one who looks on, how many wait.',
      data: lockEventSchemas.queued,
    },
    granted: {
      description: 'Whose turn it is. The token is told to that one alone.',
      data: lockEventSchemas.granted,
    },
    progress: {
      description: 'What the holder says of its work.',
      data: lockEventSchemas.progress,
    },
    completed: {
      description: 'Somebody succeeded. The last event of one who waited for the result.',
      data: lockEventSchemas.completed,
    },
    failed: {
      description:
        'Nobody else should try: the last event of one who waits. To one who looks on, how a turn ended.',
      data: lockEventSchemas.failed,
    },
    timeout: { description: 'The deadline came before the turn did.', data: lockEventSchemas.timeout },
    evicted: { description: 'An operator removed this request.', data: lockEventSchemas.evicted },
    lost: { description: 'This request is not in the line, or not any more.', data: lockEventSchemas.lost },
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
    cancelled: { description: 'Somebody cancelled it. The last event.', data: taskEventSchemas.cancelled },
  },
}
