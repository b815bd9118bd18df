import { getContention, type ShapeOf } from '../contract/index.ts'
import type { Client } from './client.ts'

/** Who waits on whom in the server that answers, over HTTP. */
export interface ContentionClient {
  /** Everything that the caller may see. */
  snapshot(): Promise<ShapeOf<typeof getContention>['reply']>
}

export function createContentionClient(client: Pick<Client, 'call'>): ContentionClient {
  return { snapshot: () => client.call(getContention) }
}
