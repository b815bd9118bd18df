import { version } from '../../../core/version.ts'
import {
  describeApi,
  type livez,
  type metrics as metricsRoute,
  type openapi,
  type readyz,
  routes,
} from '../../contract/index.ts'
import type { Handler } from '../call.ts'
import type { Health } from '../metrics/health.ts'
import { metricsType } from '../metrics/metric-series.ts'
import type { Metrics } from '../metrics/metrics.ts'

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
