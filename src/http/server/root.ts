import { version } from '../../core/version.ts'
import { livez, openapi, type Route, readyz } from '../contract/index.ts'
import type { Handler } from './call.ts'

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
