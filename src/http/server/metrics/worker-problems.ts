import type { WorkerRecord, WorkerStore } from '../../../fleet/workers/index.ts'
import type { QueueStats } from '../../../jobs/index.ts'
import type { OverviewProblem } from '../../contract/index.ts'
import { createKnownAnswers, type KnownAnswer } from './known-answer.ts'

/**
 * Queues that no worker takes, and kinds that no worker knows. A worker may take jobs without a row: an older release, or
 * a box without membership. So a problem is told only while nothing moves: no job of the queue runs, and the oldest ready
 * job has been the same one for some time.
 */
export interface WorkerProblems {
  readonly problems: readonly OverviewProblem[]
  /** Queues that are told of here, so that they are not told of as behind as well. */
  readonly queues: ReadonlySet<string>
}

/** How long nothing must have moved, beyond the time after which a queue is behind. */
const stillMs = 10_000
const kindLimit = 200
const pageSize = 500
const maxWorkers = 5_000

/** When an oldest ready job was first seen as the oldest, by the clock of this process. */
interface Standstill {
  readonly oldestAt: number
  readonly seenAt: number
}
const standstills = new WeakMap<WorkerStore, Map<string, Standstill>>()

export interface WorkerProblemsOptions {
  readonly behindMs: number
  readonly waitMs?: number | undefined
  /** The monotonic clock. @default the process's own */
  readonly nowMs?: number
}

/** `behind`: the queues whose oldest ready job has waited longer than `behindMs`. */
export async function findWorkerProblems(
  store: WorkerStore,
  behind: readonly QueueStats[],
  { behindMs, waitMs, nowMs = performance.now() }: WorkerProblemsOptions,
): Promise<WorkerProblems> {
  const before = standstills.get(store)
  const still = new Map<string, Standstill>()
  standstills.set(store, still)
  const problems: OverviewProblem[] = []
  const queues = new Set<string>()
  if (behind.length === 0) return { problems, queues }

  const isStill = (key: string, oldestAt: number): boolean => {
    const seen = before?.get(key)
    const standstill = seen?.oldestAt === oldestAt ? seen : { oldestAt, seenAt: nowMs }
    still.set(key, standstill)
    return nowMs - standstill.seenAt >= stillMs
  }

  const known = await liveWorkersOf(store).recent(waitMs)
  if (known === undefined) return { problems, queues }
  for (const { queue, ready, running, oldestReadyAt } of behind) {
    const listed = known.filter((worker) => worker.queues.includes(queue))
    const takers = listed.filter(({ mode }) => mode === 'running')
    if (takers.length > 0) {
      problems.push(...(await findUnknownKinds(queue, takers)))
      continue
    }
    if (running > 0 || !isStill(`queue ${queue}`, oldestReadyAt!)) continue
    queues.add(queue)
    problems.push({
      ...{ kind: 'no_worker', subject: queue, count: ready, since: oldestReadyAt },
      detail:
        listed.length === 0
          ? 'No live worker takes this queue. Start one.'
          : `No worker takes this queue: all ${listed.length} of it are quiet or stopping. Resume one, or start one.`,
    })
  }
  return { problems, queues }

  async function findUnknownKinds(
    queue: string,
    takers: readonly WorkerRecord[],
  ): Promise<readonly OverviewProblem[]> {
    if (takers.some(({ kinds }) => kinds === null)) return []
    const kinds = new Set(takers.flatMap((worker) => worker.kinds!))
    const { kinds: ready, now } = await store.readyKinds(queue, kindLimit)
    return ready
      .filter(({ kind, oldestAt }) => !kinds.has(kind) && now - oldestAt > behindMs)
      .filter(({ kind, oldestAt }) => isStill(`kind ${JSON.stringify([queue, kind])}`, oldestAt))
      .map(({ kind, count, oldestAt }) => ({
        ...{ kind: 'unknown_kind', subject: kind, count, since: oldestAt },
        detail: `No live worker of the queue "${queue}" has a handler for this kind. Start one that has, or cancel the jobs.`,
      }))
  }
}

/** Undefined: not known yet. */
const liveWorkersOf: (store: WorkerStore) => KnownAnswer<readonly WorkerRecord[] | undefined> =
  createKnownAnswers(async (store: WorkerStore) => {
    const live: WorkerRecord[] = []
    let after: string | undefined
    do {
      const { workers, now } = await store.list({ limit: pageSize, after })
      live.push(...workers.filter(({ leaseEndsAt }) => leaseEndsAt > now))
      after = workers.length < pageSize ? undefined : workers.at(-1)!.id
    } while (after !== undefined && live.length < maxWorkers)
    return live
  }, undefined)
