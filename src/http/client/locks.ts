import { backoffMs } from '../../core/backoff.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { AcquireAnswer, AcquireOptions, Locks, ReleaseOptions } from '../../locks/index.ts'
import * as api from '../contract/index.ts'
import type { Client } from './client.ts'
import { retryDefaults } from './client-options.ts'
import type { CallOptions } from './request.ts'
import { minLeftMs, pause } from './retry.ts'
import type { StreamEvent } from './stream.ts'

/** What happened in a wait queue. */
export interface WireLockEvent {
  readonly id: number
  readonly type: string
  readonly [field: string]: unknown
}

export interface WatchLockOptions extends api.LockEventsQuery {
  /** The id of the last event that the caller has. */
  readonly lastEventId?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** The verbs of locks, over HTTP. A box from `open(url)` also renews locks by itself. */
export interface LocksClient extends Pick<Locks, 'renew' | 'leave' | 'evict' | 'list' | 'inspect'> {
  /**
   * Tries for `timeoutMs`. After a timeout, the request may still be in the wait queue. @default the client's timeoutMs
   */
  acquire(
    request: AcquireOptions,
    options?: Pick<CallOptions, 'signal' | 'timeoutMs'>,
  ): Promise<AcquireAnswer>
  /**
   * Throws `lease_lost`. Throws `commit_unknown` if the answer to an earlier try was lost and the hold is over: that
   * try ended it, or the lease had ended before.
   */
  release(request: ReleaseOptions): ReturnType<Locks['release']>
  /** Streams the events of a wait queue. After a reconnect it resumes after the last event. Resolves at the end. */
  watch(options: WatchLockOptions, seen: (event: WireLockEvent) => void): Promise<void>
}

export function createLocksClient(
  client: Pick<Client, 'call' | 'stream' | 'url'>,
  timeoutMs: number,
): LocksClient {
  return {
    acquire: (body, { signal, timeoutMs: ms } = {}) =>
      client.call(api.acquireLock, { body, signal, timeoutMs: ms }),
    release: (body) => release(client, body, timeoutMs),
    renew: (body) => client.call(api.renewLock, { body }),
    leave: (body) => client.call(api.leaveLock, { body }),
    evict: (body) => client.call(api.evictLock, { body }),
    list: (query = {}) => client.call(api.listLocks, { query, maxReplyBytes: listBytes }),
    inspect: (query) => client.call(api.lockState, { query }),

    async watch({ signal, lastEventId = 0, ...query }, seen) {
      const over = new AbortController()
      const signals = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
      await client.stream(api.lockEvents, {
        query,
        signal: signals,
        ...(lastEventId === 0 ? {} : { lastEventId: String(lastEventId) }),
        onEvent: (event) => {
          const decoded = decodeEvent(event)
          if (decoded === undefined) return
          seen(decoded)
          if (query.node !== undefined && lastTypes.has(decoded.type)) over.abort()
        },
      })
    },
  }
}

/** The last events of a waiter. */
const lastTypes: ReadonlySet<string> = new Set(['completed', 'failed', 'timeout', 'evicted', 'lost'])

/** The limit of a page of 500 wait queues. Not all of them have 256 KiB of progress. */
const listBytes = 64 * 1_048_576

function decodeEvent({ id, type, data }: StreamEvent): WireLockEvent | undefined {
  // `error` says why the server ends a stream; the client reconnects by itself.
  if (type === 'error' || typeof data !== 'object' || data === null) return undefined
  return { id: Number(id), type, ...data }
}

/**
 * Sends the release until a server answers, because the wait queue stands still meanwhile. If the answer to a try was
 * lost and the next try gets `lease_lost`, the client cannot know whether the first try released the lock.
 */
async function release(
  client: Pick<Client, 'call' | 'url'>,
  body: ReleaseOptions,
  timeoutMs: number,
): ReturnType<Locks['release']> {
  const deadline = performance.now() + timeoutMs
  let lostAnswer: unknown
  for (let tries = 1; ; tries++) {
    try {
      return await client.call(api.releaseLock, {
        body,
        timeoutMs: Math.max(1, Math.ceil(deadline - performance.now())),
      })
    } catch (error) {
      if (lostAnswer !== undefined && isSignalboxError(error, 'lease_lost'))
        throw outcomeUnknown(body, lostAnswer)
      const leftMs = deadline - performance.now()
      if (!isSignalboxError(error) || !unknownOutcomeCodes.has(error.code) || leftMs < minLeftMs) throw error
      lostAnswer = error
      await pause(Math.min(backoffMs(retryDefaults, tries), leftMs / 2), never)
    }
  }
}

/** After these errors the client does not know whether the server carried out the request. */
const unknownOutcomeCodes: ReadonlySet<string> = new Set([
  'store_unavailable',
  'store_busy',
  'commit_unknown',
  'timeout',
])

const never: AbortSignal = new AbortController().signal

function outcomeUnknown({ operation, resource, node }: ReleaseOptions, cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    `${node} no longer holds ${operation} of ${JSON.stringify(resource)}, and the answer to its first release was lost: ` +
      'that release was done, or the lease had ended before. The state of the wait queue shows the outcome.',
    { cause },
  )
}
