import { SignalboxError } from '../../../core/errors.ts'
import type * as wire from '../../contract/index.ts'
import type { Handler } from '../call.ts'

/** The routes of bulk operations, by their ids. */
export interface BulkHandlers {
  readonly bulkJobs: Handler<typeof wire.bulkJobs>
  readonly listBulkOperations: Handler<typeof wire.listBulkOperations>
  readonly getBulkOperation: Handler<typeof wire.getBulkOperation>
  readonly cancelBulkOperation: Handler<typeof wire.cancelBulkOperation>
}

/** `begun` is told of the namespace in which an operation was begun. */
export function bulkHandlers(begun: (namespace: string) => void): BulkHandlers {
  return {
    async bulkJobs({ body, jobs, space }) {
      const answer = await jobs.bulk(body)
      if ('id' in answer) begun(space.namespace)
      return { status: 'id' in answer ? 202 : 200, body: answer }
    },

    listBulkOperations: async ({ query, jobs }) => ({
      body: { items: await jobs.bulkOperations(query), cursor: null },
    }),

    async getBulkOperation({ params: { id }, jobs }) {
      const operation = await jobs.bulkOperation(id)
      if (operation !== undefined) return { body: operation }
      throw new SignalboxError(
        'not_found',
        `There is no bulk operation "${id}": it was never begun, or it was pruned.`,
      )
    },

    cancelBulkOperation: async ({ params: { id }, jobs }) => ({ body: await jobs.cancelBulk(id) }),
  }
}
