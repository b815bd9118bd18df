import { boundSchemas, membershipTimes } from '../../../fleet/workers/index.ts'
import type { SomeHandlers } from '../call.ts'
import { required } from '../request/problem.ts'

export const workerHandlers: SomeHandlers = {
  listWorkers: async ({ query, space }) => ({ body: await space.jobs.workers(query) }),

  async getWorker({ params: { id }, space }) {
    const message = `There is no worker "${id}": it stopped, it never started, or it does not keep a row.`
    return { body: required(await space.jobs.findWorker(id), message) }
  },

  quietWorker: async ({ params, space }) => ({ body: await space.jobs.quietWorker(params.id) }),
  resumeWorker: async ({ params, space }) => ({ body: await space.jobs.resumeWorker(params.id) }),
  stopWorker: async ({ params, body, space }) => ({ body: await space.jobs.stopWorker(params.id, body) }),

  async reportWorkers({ body: { join = [], renew = [], ask = [], leave = [] }, space }) {
    const { workers } = space.stores
    const { leaseMs } = membershipTimes
    // These workers also claim through this server. Their claims must not list them twice, or again after their end.
    const { claimingWorkers } = space
    claimingWorkers.listThemselves([...join, ...renew, ...ask].map(({ id }) => id))
    const joining = join.map((worker) => ({
      ...worker,
      via: 'remote' as const,
      schemas: boundSchemas(Object.entries(worker.schemas)),
    }))
    const [joined, renewed, asked] = await Promise.all([
      joining.length === 0 ? [] : workers.join(joining, leaseMs),
      renew.length === 0 ? [] : workers.renew(renew, leaseMs),
      ask.length === 0 ? [] : workers.wanted(ask),
    ])
    if (leave.length > 0) {
      await claimingWorkers.left(leave.map(({ id }) => id))
      await workers.leave(leave)
    }
    return { body: { joined, renewed, asked } }
  },
}
