import type { Duration } from '../../../core/duration.ts'
import type { SignalboxError } from '../../../core/errors.ts'
import type { EventSource } from '../../../core/events.ts'
import type { Labels } from '../../contract/index.ts'
import type { NodeService } from './node-options.ts'
import type { NodeTaskEvent } from './node-tasks.ts'

/**
 * A node's side of dispatch: it offers services, is given tasks, and answers. It lives longer than its connections:
 *
 *     connect ──welcome──▶ tasks ──lost──▶ wait, longer each time ──▶ connect, as the same instance
 *        └── token not taken, another instance took over: the end
 *
 * With several servers it turns to the next one, and waits when all of them were tried. Tasks run on while a connection
 * is lost; what they return is kept until a server has confirmed that it is durable.
 */
export interface NodeConnection extends AsyncDisposable {
  readonly nodeId: string
  readonly instanceId: string
  readonly status: 'connecting' | 'connected' | 'closed'
  /** What fences this instance from those before; null before the first welcome. */
  readonly epoch: number | null
  /** Tasks that it knows: running, or ended and not confirmed yet. */
  readonly taskIds: readonly string[]
  readonly events: EventSource<NodeConnectionEvents>
  /** Offers something else from now on. */
  update(change: {
    readonly services?: readonly NodeService[] | undefined
    readonly labels?: Labels | undefined
  }): void
  /** Takes no new task; resolves when those it has are ended and confirmed. It stays connected. */
  drain(): Promise<void>
  /** Says bye: what still runs is aborted, and goes to others. With `graceMs` it drains first, for so long at most. */
  close(options?: { readonly graceMs?: Duration | undefined }): Promise<void>
  /** Resolves when it is over, with the reason if it was not `close`. */
  readonly closed: Promise<SignalboxError | null>
}

/** What can be listened to. */
export interface NodeConnectionEvents {
  connected: { readonly epoch: number; readonly resumed: boolean; readonly url: string }
  disconnected: {
    readonly code: number
    readonly reason: string
    readonly retryInMs: number
    /** Whose connection ended, or never came to be. */
    readonly url: string
  }
  /** The server did not understand something. */
  problem: { readonly code: string; readonly message: string }
  /** An operator drains this node: it gets no new tasks. */
  draining: undefined
  task: NodeTaskEvent
  closed: { readonly error: SignalboxError | null }
}
