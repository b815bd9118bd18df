import type { QueueStats } from '../../../jobs/index.ts'
import type { Route } from '../route.ts'
import { schemaFor, Type } from '../schema.ts'

/** Health, metrics, the API's own description, and the operators' stream. */

export interface Health {
  readonly status: string
  readonly version: string
}
const health = Type.Object({ status: Type.String(), version: Type.String() })

export const livez: Route<{ reply: Health }> = {
  id: 'livez',
  method: 'GET',
  path: '/livez',
  scope: 'none',
  relieves: true,
  module: 'system',
  summary: 'The process is alive.',
  replies: { 200: schemaFor<Health>()(health) },
  mutates: false,
}

/** Why a server takes no work, check by check. */
export interface Readiness extends Health {
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[]
}
const readiness = Type.Object({
  status: Type.String(),
  version: Type.String(),
  checks: Type.Array(
    Type.Object({ name: Type.String(), ok: Type.Boolean(), detail: Type.Optional(Type.String()) }),
  ),
})

export const readyz: Route<{ reply: Readiness }> = {
  id: 'readyz',
  method: 'GET',
  path: '/readyz',
  scope: 'none',
  relieves: true,
  module: 'system',
  summary: 'It takes work: the store answers, the schema is current, loops move, it is not shutting down.',
  description: '503 with the same body and `status: "unready"` when a check fails.',
  replies: { 200: schemaFor<Readiness>()(readiness), 503: schemaFor<Readiness>()(readiness) },
  mutates: false,
}

export const metrics: Route = {
  id: 'metrics',
  method: 'GET',
  path: '/metrics',
  scope: 'read',
  relieves: true,
  module: 'system',
  summary: 'Metrics in the text format of Prometheus.',
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  replyType: 'text',
  mutates: false,
}

export const openapi: Route = {
  id: 'openapi',
  method: 'GET',
  path: '/openapi.json',
  scope: 'none',
  module: 'system',
  summary: 'This API as an OpenAPI 3.1 document.',
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  mutates: false,
}

/** What the operators' stream tells. `queues` comes first, and again whenever a number in it changed. */
export interface ServerEvents {
  readonly queues: { readonly items: readonly QueueStats[] }
}

export const events: Route = {
  id: 'events',
  method: 'GET',
  path: '/v1/events',
  scope: 'read',
  module: 'events',
  summary:
    'A stream of what changes: `queues { items }` first and whenever a number changed, at most once a second.',
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  replyType: 'events',
  mutates: false,
  problems: ['too_many'],
}
