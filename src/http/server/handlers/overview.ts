import type { getOverview, whoAmI } from '../../contract/index.ts'
import type { Handler } from '../call.ts'
import type { Overviews } from '../metrics/overview.ts'

/** The routes a dashboard begins with, by their ids. */
export interface OverviewHandlers {
  readonly whoAmI: Handler<typeof whoAmI>
  readonly getOverview: Handler<typeof getOverview>
}

export function overviewHandlers(overviews: Overviews): OverviewHandlers {
  return {
    whoAmI: async ({ principal }) => ({ body: overviews.me(principal) }),
    getOverview: async ({ query, space }) => ({ body: await overviews.of(space, query) }),
  }
}
