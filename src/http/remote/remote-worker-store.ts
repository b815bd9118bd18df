import { isSignalboxError } from '../../core/errors.ts'
import type { WorkerRef, WorkerStanding, WorkerStore } from '../../fleet/workers/index.ts'
import { absentWorkers } from '../../fleet/workers/index.ts'
import { type Client, reportWorkers } from '../client/index.ts'

/**
 * The rows of this box's workers, on the server. A server that is older than this route lists no workers: they work all
 * the same.
 */
export function createRemoteWorkerStore(client: Pick<Client, 'call'>): WorkerStore {
  let isAbsent = false

  async function unlessAbsent<Answer>(ask: () => Promise<Answer>, otherwise: Answer): Promise<Answer> {
    if (isAbsent) return otherwise
    try {
      return await ask()
    } catch (error) {
      if (!isSignalboxError(error, 'not_found') && !isSignalboxError(error, 'method_not_allowed')) throw error
      isAbsent = true
      return otherwise
    }
  }

  return {
    ...absentWorkers,
    join: (workers) =>
      unlessAbsent(
        async () => {
          const join = workers.map(({ via: _, ...worker }) => worker)
          return (await client.call(reportWorkers, { body: { join } })).joined
        },
        workers.map(() => true),
      ),
    renew: (renew) =>
      unlessAbsent(
        async () => (await client.call(reportWorkers, { body: { renew } })).renewed,
        renew.map(onward),
      ),
    wanted: (workers) =>
      unlessAbsent(
        async () => (await client.call(reportWorkers, { body: { ask: workers.map(refOf) } })).asked,
        workers.map(onward),
      ),
    leave: (workers) =>
      unlessAbsent(async () => {
        await client.call(reportWorkers, { body: { leave: workers.map(refOf) } })
      }, undefined),
    // The server does that.
    prune: async () => 0,
  }
}

function refOf({ id, session }: WorkerRef): WorkerRef {
  return { id, session }
}

function onward(): WorkerStanding {
  return { status: 'here', wanted: 'run', graceMs: null }
}
