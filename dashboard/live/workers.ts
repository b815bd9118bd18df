import type { UseQueryResult } from '@tanstack/react-query'
import type { JobsClient, WireWorker } from '../../src/http/client/index.ts'
import { useClient } from '../shell/session.ts'
import { useLive } from './queries.ts'
import { serverNow } from './server-clock.ts'

export type WorkersQuestion = NonNullable<Parameters<JobsClient['workers']>[0]>
export interface Workers {
  readonly items: readonly WireWorker[]
  readonly cursor: string | null
}

/** The same worker with its instants on the clock of this page: those of the answer are of the store's clock. */
export function onPageClock<Worker extends WireWorker>(worker: Worker, at: number, now: number): Worker {
  const aheadMs = now - at
  return {
    ...worker,
    startedAt: worker.startedAt + aheadMs,
    seenAt: worker.seenAt + aheadMs,
    leaseEndsAt: worker.leaseEndsAt + aheadMs,
    running: worker.running.map((job) => ({ ...job, since: job.since + aheadMs })),
  }
}

/** Those who live by id, then those who are gone, the latest first. */
export function livingFirst(workers: readonly WireWorker[]): readonly WireWorker[] {
  const isGone = ({ state }: WireWorker) => state === 'gone'
  return workers.toSorted(
    (a, b) =>
      Number(isGone(a)) - Number(isGone(b)) ||
      (isGone(a) ? b.seenAt - a.seenAt : 0) ||
      (a.id < b.id ? -1 : 1),
  )
}

/** The workers of all processes. */
export function useWorkers(asked: WorkersQuestion, isWanted = true): UseQueryResult<Workers> {
  const client = useClient()
  const ask = async (): Promise<Workers> => {
    const { items, cursor, at } = await client.jobs.workers(asked)
    const now = serverNow()
    return { items: livingFirst(items.map((worker) => onPageClock(worker, at, now))), cursor }
  }
  return useLive(['workers', asked], ask, {
    everyMs: (data) => ((data?.items.length ?? 0) > 50 ? 5_000 : 2_000),
    enabled: isWanted,
  })
}
