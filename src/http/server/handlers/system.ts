import type { Contention } from '../../../contention/index.ts'
import { version } from '../../../core/version.ts'
import {
  describeApi,
  type getContention,
  type getOverview,
  type listAudit,
  livez,
  type metrics as metricsRoute,
  openapi,
  type Route,
  readyz,
  routes,
  type whoAmI,
} from '../../contract/index.ts'
import type { Handler } from '../call.ts'
import type { Health } from '../metrics/health.ts'
import { metricsType } from '../metrics/metric-series.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Overviews } from '../metrics/overview.ts'

/** Health, metrics and the API's own description, by the ids of their routes. */
export interface SystemHandlers {
  readonly livez: Handler<typeof livez>
  readonly readyz: Handler<typeof readyz>
  readonly metrics: Handler<typeof metricsRoute>
  readonly openapi: Handler<typeof openapi>
}

export interface SystemParts {
  readonly health: Health
  readonly metrics: Pick<Metrics, 'text'>
  /** Where clients find the server; `/` is where they found the description. @default '/' */
  readonly url?: string
}

export function systemHandlers({ health, metrics, url = '/' }: SystemParts): SystemHandlers {
  let description: string | undefined

  return {
    livez: async () => ({ body: health.live() }),

    async readyz() {
      const body = await health.ready()
      return { status: body.status === 'ready' ? 200 : 503, body }
    },

    metrics: async ({ principal, space }) => ({
      text: await metrics.text({ space, everyNamespace: principal.everyNamespace }),
      type: metricsType,
    }),

    async openapi() {
      // The table does not change, so the text is made once, by the first who asks.
      description ??= JSON.stringify(describeApi(routes, { version, url }))
      return { text: description, type: 'application/json; charset=utf-8' }
    },
  }
}

/**
 * What stands at `/` for whoever takes no HTML: where to go from here. Browsers get the dashboard (assets.ts). It is no
 * part of the API, so it is not in its table.
 */
export interface Root {
  readonly name: string
  readonly version: string
  readonly routes: Readonly<Record<string, string>>
  readonly note: string
}

export const rootRoute: Route = {
  id: 'root',
  method: 'GET',
  path: '/',
  scope: 'none',
  module: 'system',
  summary: 'Where to go from here.',
  replies: {},
  mutates: false,
}

const root: Root = {
  name: 'signalbox',
  version,
  routes: Object.fromEntries([livez, readyz, openapi].map(({ path, summary }) => [path, summary])),
  note: 'The API is under /v1; /openapi.json describes every route. Browsers get the dashboard here.',
}

export const rootHandler: Handler = async () => ({ status: 200, body: root })

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
