import { setTimeout as sleep } from 'node:timers/promises'
import { SignalboxError } from '../../../core/errors.ts'
import type { CancelAnswer, JobStore, RetryAnswer } from '../../../jobs/index.ts'
import type { Database } from '../database.ts'
import { findCancelRequests, findOutcomes } from './attempt-looks.ts'
import { cancelJob, isIdle } from './cancel.ts'
import { limitQueue, pauseQueue, resumeQueue } from './queue-control.ts'
import { pruneHistory, removeJobs } from './remove.ts'
import { type RetriedPage, retryDeadJobs, retryJob } from './retry.ts'

export interface JobControlOptions {
  /** Runs each operation as a transaction, or all of them in one. */
  readonly database: Pick<Database, 'run'>
  readonly namespace: string
  /** Takes back these jobs if their lease expired. */
  reclaimThese(ids: readonly string[]): Promise<unknown>
  reclaim(limit: number): Promise<unknown>
  /** Called after jobs may have become ready at any position. */
  onReady(): void
}

type JobControl = Pick<
  JobStore,
  | 'outcomes'
  | 'cancelRequests'
  | 'cancel'
  | 'retry'
  | 'retryDead'
  | 'pause'
  | 'resume'
  | 'setLimits'
  | 'remove'
  | 'prune'
>

/** How long a call tries again while other transactions have the row of its job. */
const patienceMs = 10_000
/** How many jobs one transaction removes, retries or prunes. */
const page = 1_000
const maxRemovals = 6

/**
 * The acts on jobs that Postgres and MariaDB share. An operation skips rows that other transactions have locked; these
 * functions try again. SQLite has one writer, so one run of the same operations is enough there (sqlite/jobs/control.ts).
 */
export function createJobControl({
  database,
  namespace,
  reclaimThese,
  reclaim,
  onReady,
}: JobControlOptions): JobControl {
  /** Calls `act` until it returns an answer. */
  async function until<Answer>(doing: string, act: () => Promise<Answer | undefined>): Promise<Answer> {
    const deadline = performance.now() + patienceMs
    for (let round = 0; ; round++) {
      const answer = await act()
      if (answer !== undefined) return answer
      const pauseMs = Math.min(200, 5 * 2 ** round) * (0.5 + Math.random())
      if (performance.now() + pauseMs > deadline) {
        throw new SignalboxError(
          'store_busy',
          `The store could not ${doing} in time: another transaction has locked its row. Try again.`,
        )
      }
      await sleep(pauseMs)
    }
  }

  const cancelOnce = (id: string) =>
    until('cancel a job', async (): Promise<CancelAnswer | null | undefined> => {
      const answer = await database.run(cancelJob, [namespace, id])
      if (answer === null || !('busy' in answer)) return answer
      await reclaimThese([answer.busy])
      return undefined
    })

  return {
    outcomes: (leases) => database.run(findOutcomes, [namespace, leases]),
    cancelRequests: (leases) => database.run(findCancelRequests, [namespace, leases]),
    async cancel(id) {
      const answer = await cancelOnce(id)
      if (!answer?.cancelRequested) return answer ?? undefined
      // The job may have become ready again just before the request was visible: cancel it now.
      if (!(await database.run(isIdle, [namespace, id]))) return answer
      return (await cancelOnce(id)) ?? undefined
    },
    async retry(id) {
      const answer = await until('retry a job', async (): Promise<RetryAnswer | null | undefined> => {
        const step = await database.run(retryJob, [namespace, id])
        if (step === null || !('busy' in step)) return step
        await reclaimThese([step.busy])
        return undefined
      })
      onReady()
      return answer ?? undefined
    },
    async retryDead({ limit, ...which }) {
      // A job is dead once its last lease expired, reclaimed or not.
      await reclaim(100_000)
      let total = 0
      for (let after: string | null = ''; after !== null && total < limit; ) {
        const query = { ...which, limit: Math.min(page, limit - total) }
        const retried: RetriedPage = await database.run(retryDeadJobs, [namespace, after, query])
        total += retried.count
        after = retried.last
        onReady()
      }
      return total
    },
    pause: (queue) => database.run(pauseQueue, [namespace, queue]),
    async resume(queue) {
      await database.run(resumeQueue, [namespace, queue])
      onReady()
    },
    async setLimits(queue, limits) {
      await database.run(limitQueue, [namespace, queue, limits])
      onReady()
    },
    async remove(ids) {
      const gone: string[] = []
      const distinct = [...new Set(ids)].sort()
      for (let from = 0; from < distinct.length; from += page) {
        let left: readonly string[] = distinct.slice(from, from + page)
        for (let tries = 0; tries < maxRemovals && left.length > 0; tries++) {
          if (tries > 0) await sleep(2 ** tries)
          const { removed, skipped } = await database.run(removeJobs, [namespace, left])
          gone.push(...removed)
          left = skipped
        }
      }
      return gone
    },
    async prune({ olderThanMs, limit }) {
      let pruned = 0
      while (pruned < limit) {
        const most = Math.min(page, limit - pruned)
        const some = await database.run(pruneHistory, [namespace, { olderThanMs, limit: most }])
        pruned += some
        if (some < most) break
      }
      return pruned
    },
  }
}
