import { type ListAuditQuery, listAudit, type ShapeOf } from '../contract/index.ts'
import type { Client } from './client.ts'

/** What operators did, over HTTP; it needs a token of the scope `admin`. */
export interface AuditClient {
  /** A page of entries, newest first. */
  list(options?: ListAuditQuery): Promise<ShapeOf<typeof listAudit>['reply']>
}

export function createAuditClient(client: Pick<Client, 'call'>): AuditClient {
  return { list: (options) => client.call(listAudit, { query: options }) }
}
