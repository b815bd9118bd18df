import { backoffMs } from '../../core/backoff.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import {
  type AcquireBody,
  acquireLock,
  evictLock,
  type ListLocksQuery,
  type LockEventsQuery,
  type LockKeyQuery,
  type LockRequestBody,
  leaveLock,
  listLocks,
  lockEvents,
  lockState,
  type ReleaseBody,
  type Released,
  type RenewedLock,
  type RenewLockBody,
  releaseLock,
  renewLock,
  type ShapeOf,
} from '../contract/index.ts'
import type { CallOptions } from './call.ts'
import type { Client } from './client.ts'
import { retryDefaults } from './client-options.ts'
import { leastLeftMs, pause } from './retry.ts'
import type { StreamEvent } from './stream-connection.ts'

/** How asking for a lock went. */
export type WireAcquired = ShapeOf<typeof acquireLock>['reply']
/** A wait queue as the server shows it. */
export type WireLockQueue = ShapeOf<typeof lockState>['reply']

/** What happened in a wait queue. */
export interface WireLockEvent {
  readonly id: number
  readonly type: string
  readonly [field: string]: unknown
}

export interface WatchLockOptions extends LockEventsQuery {
  /** The last event that was seen of the wait queue. */
  readonly lastEventId?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** How long a request for a lock is tried. */
export type AcquireCallOptions = Pick<CallOptions, 'signal' | 'timeoutMs'>

/** The verbs of locks, over HTTP. Whoever wants a lock that renews itself opens a box with `open(url)`. */
export interface LocksClient {
  /** When the call times out, the request may stay in the wait queue. `timeoutMs` is how long to try. @default the client's */
  acquire(request: AcquireBody, options?: AcquireCallOptions): Promise<WireAcquired>
  /**
   * Throws `lease_lost`; or `commit_unknown` when the answer to an earlier try was lost, and the turn is over by now:
   * it was ended by that try, or it had run out before.
   */
  release(request: ReleaseBody): Promise<Released>
  /** Throws `lease_lost`. */
  renew(request: RenewLockBody): Promise<RenewedLock>
  leave(request: LockRequestBody): Promise<{ readonly left: boolean }>
  evict(request: LockRequestBody): Promise<{ readonly evicted: true }>
  list(query?: ListLocksQuery): Promise<ShapeOf<typeof listLocks>['reply']>
  inspect(key: LockKeyQuery): Promise<WireLockQueue>
  /** Reads what happens in a wait queue; connects again where it left off. Resolves after the last event there can be. */
  watch(options: WatchLockOptions, seen: (event: WireLockEvent) => void): Promise<void>
}

export function createLocksClient(
  client: Pick<Client, 'call' | 'stream' | 'url'>,
  timeoutMs: number,
): LocksClient {
  return {
    acquire: (body, { signal, timeoutMs: ms } = {}) =>
      client.call(acquireLock, { body, signal, timeoutMs: ms }),
    release: (body) => release(client, body, timeoutMs),
    renew: (body) => client.call(renewLock, { body }),
    leave: (body) => client.call(leaveLock, { body }),
    evict: (body) => client.call(evictLock, { body }),
    list: (query = {}) => client.call(listLocks, { query, maxReplyBytes: listBytes }),
    inspect: (query) => client.call(lockState, { query }),

    async watch({ signal, lastEventId = 0, ...query }, seen) {
      const over = new AbortController()
      const signals = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
      await client.stream(lockEvents, {
        query,
        signal: signals,
        ...(lastEventId === 0 ? {} : { lastEventId: String(lastEventId) }),
        onEvent: (event) => {
          const told = decodeEvent(event)
          if (told === undefined) return
          seen(told)
          if (query.node !== undefined && lastTypes.has(told.type)) over.abort()
        },
      })
    },
  }
}

/** After one of these nothing more happens to one who waited. */
const lastTypes: ReadonlySet<string> = new Set(['completed', 'failed', 'timeout', 'evicted', 'lost'])

/** The most that a page of 500 wait queues can take: progress of 256 KiB each is not to be expected of all. */
const listBytes = 64 * 1_048_576

function decodeEvent({ id, type, data }: StreamEvent): WireLockEvent | undefined {
  // The server says by `error` why it ends a stream; the stream comes again by itself.
  if (type === 'error' || typeof data !== 'object' || data === null) return undefined
  return { id: Number(id), type, ...data }
}

/**
 * Said again until it is heard, for the wait queue stands still meanwhile. But a turn ends once: where a try was not heard
 * of and the next one says that there is no such turn, nobody here can know which of the two ended it.
 */
async function release(
  client: Pick<Client, 'call' | 'url'>,
  body: ReleaseBody,
  timeoutMs: number,
): Promise<Released> {
  const deadline = performance.now() + timeoutMs
  let unheard: unknown
  for (let tries = 1; ; tries++) {
    try {
      return await client.call(releaseLock, {
        body,
        timeoutMs: Math.max(1, Math.ceil(deadline - performance.now())),
      })
    } catch (error) {
      if (unheard !== undefined && isSignalboxError(error, 'lease_lost')) throw unknown(body, unheard)
      const leftMs = deadline - performance.now()
      if (!isSignalboxError(error) || !unheardCodes.has(error.code) || leftMs < leastLeftMs) throw error
      unheard = error
      await pause(Math.min(backoffMs(retryDefaults, tries), leftMs / 2), never)
    }
  }
}

/** After these it is not known whether the server carried out the request. */
const unheardCodes: ReadonlySet<string> = new Set([
  'store_unavailable',
  'store_busy',
  'commit_unknown',
  'timeout',
])

const never: AbortSignal = new AbortController().signal

function unknown({ operation, resource, node }: ReleaseBody, cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    `${node} does not hold ${operation} of ${JSON.stringify(resource)} any more, and the answer to its release was lost: ` +
      'it was released then, or its lease had run out. Ask for the wait queue’s state to see how it ended.',
    { cause },
  )
}
