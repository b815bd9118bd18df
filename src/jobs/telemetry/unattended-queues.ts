import { showWorker, type WorkerStore } from '../../fleet/workers/index.ts'
import type { Worker } from '../worker/worker.ts'
import type { JobActivity } from './job-activity.ts'

/**
 * Finds, before a worker starts, its queues without a live worker. Jobs of these queues that are already due waited
 * because there was no worker. This costs one read for each start. If the read fails, these waits count as waits in the
 * queue.
 */
export function watchUnattended(
  worker: Worker,
  queues: readonly string[],
  { workers, activity }: { readonly workers: Pick<WorkerStore, 'list'>; readonly activity: JobActivity },
): void {
  const start = worker.start.bind(worker)
  worker.start = async () => {
    const page = await workers.list({ limit: maxWorkers }).catch(() => undefined)
    if (page !== undefined) {
      const { now } = page
      const taken = new Set(
        page.workers
          .map((record) => showWorker(record, now))
          .filter(({ state }) => state === 'running')
          .flatMap((live) => live.queues),
      )
      const unattended = queues.filter((queue) => !taken.has(queue))
      if (unattended.length > 0) activity.unattended(unattended, now)
    }
    await start()
  }
}

const maxWorkers = 1_000
