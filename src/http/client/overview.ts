import { getOverview, type OverviewQuery, type ShapeOf, whoAmI } from '../contract/index.ts'
import type { Client } from './client.ts'

/** Who one is, as the server sees it, and how everything stands. */
export type WireMe = ShapeOf<typeof whoAmI>['reply']
export type WireOverview = ShapeOf<typeof getOverview>['reply']

/** What a dashboard begins with, over HTTP. */
export interface OverviewClient {
  /** Who is asking, what they may do, and what they speak to. */
  me(): Promise<WireMe>
  /** How everything stands; with `since`, only the samples from then on. */
  get(query?: OverviewQuery): Promise<WireOverview>
}

export function createOverviewClient(client: Pick<Client, 'call'>): OverviewClient {
  return {
    me: () => client.call(whoAmI),
    get: (query = {}) => client.call(getOverview, { query }),
  }
}
