import { isSignalboxError } from '../core/errors.ts'
import type { LockRequest } from './lock.ts'
import { type LocksNotifier, requesterTopic } from './lock-topics.ts'
import type { Locks } from './locks.ts'

/** A job's request for a lock. `askNo` distinguishes the requests of one job. */
export interface JobAsk {
  readonly operation: string
  readonly resource: string
  readonly jobId: string
  readonly askNo: number
}

/** The verbs of locks that jobs use. */
export interface LocksForJobs {
  ask(ask: JobAsk): Promise<{ readonly fence: number } | 'waits' | 'over'>
  renew(ask: JobAsk, fence: number): Promise<boolean>
  release(ask: JobAsk, fence: number, outcome: 'success' | 'failure'): Promise<string | undefined>
  leave(ask: JobAsk): Promise<void>
  listen(ask: JobAsk, heard: () => void): () => void
}

const nodePrefix = 'job:'

/** Each job requests locks as a node, with `want: 'turn'`: the success of another job does not do its work. */
export function createLocksForJobs(locks: () => Locks, notifier: LocksNotifier): LocksForJobs {
  return {
    async ask(ask) {
      const answer = await locks().acquire({ ...requestOf(ask), want: 'turn', wait: true })
      if (answer.status === 'granted') return { fence: answer.token }
      return answer.status === 'queued' ? 'waits' : 'over'
    },

    async renew(ask, fence) {
      const renewed = await unlessLost(locks().renew({ ...requestOf(ask), token: fence }))
      return renewed !== undefined
    },

    async release(ask, fence, outcome) {
      const released = await unlessLost(locks().release({ ...requestOf(ask), token: fence, outcome }))
      const next = released?.next ?? undefined
      return next?.startsWith(nodePrefix) ? next.slice(nodePrefix.length) : undefined
    },

    async leave(ask) {
      try {
        await locks().leave(requestOf(ask))
      } catch (error) {
        // The job was granted the lock just now. No holder takes up the grant, so it ends after its take-up window.
        if (!isSignalboxError(error, 'conflict')) throw error
      }
    },

    listen: (ask, heard) => {
      const { operation, resource, node, requestId } = requestOf(ask)
      return notifier.listen([requesterTopic({ operation, resource }, { node, requestId })], heard)
    },
  }
}

function requestOf({
  operation,
  resource,
  jobId,
  askNo,
}: JobAsk): Required<LockRequest> & { requestId: string } {
  return { operation, resource, node: `${nodePrefix}${jobId}`, requestId: `${nodePrefix}${jobId}:${askNo}` }
}

async function unlessLost<Value>(asked: Promise<Value>): Promise<Value | undefined> {
  try {
    return await asked
  } catch (error) {
    if (isSignalboxError(error, 'lease_lost')) return undefined
    throw error
  }
}
