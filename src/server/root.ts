import { version } from '../core/version.ts'
import { livez, openapi, type Route, readyz } from '../wire/index.ts'
import type { Handler } from './call.ts'

/** What stands at `/`: where to go from here. It is for people and no part of the API, so it is not in its table. */
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
  room: 'system',
  summary: 'Where to go from here.',
  replies: {},
  mutates: false,
}

const root: Root = {
  name: 'signalbox',
  version,
  routes: Object.fromEntries([livez, readyz, openapi].map(({ path, summary }) => [path, summary])),
  note: 'Jobs are under /v1; /openapi.json describes every route. The dashboard is not in this version yet.',
}

export const rootHandler: Handler = async () => ({ status: 200, body: root })
