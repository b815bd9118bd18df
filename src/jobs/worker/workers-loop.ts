import type { Loop } from '../../core/loop.ts'
import type { Worker } from './worker.ts'

/** A loop that runs as long as a worker runs here: for what boxes that work do besides. */
export interface WorkersLoop {
  /** From its start on. */
  join(worker: Worker): void
  leave(worker: Worker): void
  close(): Promise<void>
}

export function createWorkersLoop(create: () => Loop): WorkersLoop {
  const started = new Set<Worker>()
  const stopping = new Set<Promise<unknown>>()
  let loop: Loop | undefined

  function stop(): void {
    const stopped = loop?.stop()
    loop = undefined
    if (stopped === undefined) return
    stopping.add(stopped)
    void stopped.finally(() => stopping.delete(stopped))
  }

  return {
    join(worker) {
      const start = worker.start.bind(worker)
      worker.start = async () => {
        await start()
        started.add(worker)
        loop ??= create()
      }
    },
    leave(worker) {
      started.delete(worker)
      if (started.size === 0) stop()
    },
    async close() {
      stop()
      await Promise.all(stopping)
    },
  }
}
