import type { Contention } from '../../../contention/index.ts'
import type { getContention, getOverview, listAudit, whoAmI } from '../../contract/index.ts'
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

/** The routes of the audit, by their ids. */
export interface AuditHandlers {
  readonly listAudit: Handler<typeof listAudit>
}

export const auditHandlers: AuditHandlers = {
  async listAudit({ query, space }) {
    return { body: await space.audit.list(query) }
  },
}

/** The routes of contention, by their ids. */
export interface ContentionHandlers {
  readonly getContention: Handler<typeof getContention>
}

export function contentionHandlers(contention: Pick<Contention, 'snapshot'>): ContentionHandlers {
  return {
    async getContention({ principal: { everyNamespace, namespace } }) {
      // Keys of locks and what turns were about are users' data; kinds and numbers are not.
      return { body: contention.snapshot(everyNamespace ? {} : { namespace }) }
    },
  }
}
