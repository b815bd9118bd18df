import {
  type BulkBody,
  bulkJobs,
  cancelBulkOperation,
  getBulkOperation,
  type ListBulkQuery,
  listBulkOperations,
  type ShapeOf,
} from '../contract/index.ts'
import { orUndefined } from './absent.ts'
import type { Client } from './client.ts'

/** Something done to every job that a search means, as the server shows it. */
export type WireBulkOperation = ShapeOf<typeof getBulkOperation>['reply']
export type WireBulkCount = Exclude<ShapeOf<typeof bulkJobs>['reply'], WireBulkOperation>

/** The verbs of bulk operations, over HTTP. */
export interface BulkClient {
  bulk(options: BulkBody & { readonly dryRun: true }): Promise<WireBulkCount>
  bulk(options: BulkBody & { readonly dryRun?: false }): Promise<WireBulkOperation>
  bulk(options: BulkBody): Promise<WireBulkOperation | WireBulkCount>
  bulkOperation(id: string): Promise<WireBulkOperation | undefined>
  bulkOperations(options?: ListBulkQuery): Promise<readonly WireBulkOperation[]>
  /** Throws `not_found`. */
  cancelBulk(id: string): Promise<WireBulkOperation>
}

export function createBulkClient(client: Pick<Client, 'call'>): BulkClient {
  const verbs = {
    bulk: (body: BulkBody) => client.call(bulkJobs, { body }),
    bulkOperation: (id: string) => orUndefined(client.call(getBulkOperation, { params: { id } })),
    bulkOperations: async (query: ListBulkQuery = {}) =>
      (await client.call(listBulkOperations, { query })).items,
    cancelBulk: (id: string) => client.call(cancelBulkOperation, { params: { id } }),
  }
  return verbs as BulkClient
}
