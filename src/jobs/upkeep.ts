import { createLoop, type Loop } from '../core/loop.ts'
import type { AttemptStore } from './attempts/attempt-store.ts'
import type { DependencyStore } from './dependencies/dependency-store.ts'
import type { JobStore } from './job-store.ts'
import type { LogStore } from './logs/log-store.ts'
import type { Worker } from './worker/worker.ts'

interface UpkeepStores {
  readonly jobs: JobStore
  readonly logs: Pick<LogStore, 'prune'>
  readonly dependencies: Pick<DependencyStore, 'prune'>
  readonly attempts: Pick<AttemptStore, 'prune'>
}

const pruneBatch = 1_000

/**
 * Deletes jobs that ended before the retention time, with their logs and dependencies, and error groups without an
 * error since then. Each batch is one transaction, and any number of processes may run at once. Leases and due times
 * need no upkeep: `claim` judges them itself.
 */
export function createUpkeep(
  { jobs, logs, dependencies, attempts }: UpkeepStores,
  retentionMs: number,
): Loop {
  return createLoop({
    name: 'jobs.upkeep',
    idleMs: Math.min(60_000, Math.max(1_000, retentionMs)),
    async step() {
      const batch = { olderThanMs: retentionMs, limit: pruneBatch }
      const pruned = [
        await jobs.prune(batch),
        await logs.prune(batch),
        await dependencies.prune(pruneBatch),
        await attempts.prune(batch),
      ]
      return pruned.includes(pruneBatch) ? 'more' : 'idle'
    },
  })
}

/** A background task that exists while at least one worker runs here. */
export interface WorkerCompanion<Task> {
  workerStarted(worker: Worker): void
  workerStopped(worker: Worker): void
  /** Starts the task now and keeps it until `close`, with or without workers. Undefined after `close`. */
  keep(): Task | undefined
  close(): Promise<void>
}

export function createWorkerCompanion<Task extends { stop(): Promise<unknown> }>(
  create: () => Task,
): WorkerCompanion<Task> {
  const started = new Set<Worker>()
  const stopping = new Set<Promise<unknown>>()
  let isKept = false
  let isClosed = false
  let task: Task | undefined

  function stop(): void {
    const stopped = task?.stop()
    task = undefined
    if (stopped === undefined) return
    stopping.add(stopped)
    // `close` reports the error. Before `close` no caller awaits this promise, so it must not reject unhandled.
    stopped.catch(() => undefined).finally(() => stopping.delete(stopped))
  }

  function start(): Task | undefined {
    if (!isClosed) task ??= create()
    return task
  }

  return {
    workerStarted(worker) {
      started.add(worker)
      start()
    },
    workerStopped(worker) {
      if (started.delete(worker) && started.size === 0 && !isKept) stop()
    },
    keep() {
      isKept = true
      return start()
    },
    async close() {
      isClosed = true
      stop()
      await Promise.all(stopping)
    },
  }
}
