import type { AlertSubscribeOptions, FiringAlert } from '../../../fleet/alerts/index.ts'
import type { Subscription } from '../../../monitor/index.ts'
import { type Route, route } from '../route.ts'
import { objectFor, oneOf, strictFor, Type } from '../schema.ts'
import { count, type IdParams, instant, name, span } from '../values.ts'
import { channel, subscription } from './subscriptions.ts'

/** Routes of alerts: what fires, and which channels are told. */

const rule = oneOf(
  ...(['dead-jobs', 'queue-behind', 'no-worker', 'schedule-missed'] as const),
  ...(['lock-waited', 'node-lost', 'channel-failing', 'store-slow'] as const),
)

export interface AlertsReply {
  readonly firing: readonly FiringAlert[]
  readonly subscriptions: readonly Subscription[]
}

export const listAlerts: Route<{ reply: AlertsReply }> = {
  ...route('monitor', 'listAlerts', 'GET /v1/alerts', 'read'),
  summary: 'List the alerts that fire, and the subscriptions to alerts.',
  description: 'Servers look for alerts only while there is a subscription to them.',
  replies: {
    200: objectFor<AlertsReply>()({
      firing: Type.Array(
        Type.Object({ subject: Type.String(), level: count, says: Type.String(), since: instant }),
      ),
      subscriptions: Type.Unsafe<readonly Subscription[]>(Type.Array(subscription)),
    }),
  },
}

type AddAlertsBody = Pick<AlertSubscribeOptions, 'name' | 'channel' | 'rule' | 'windowMs' | 'digestMs'>

export const addAlerts: Route<{ body: AddAlertsBody; reply: Subscription }> = {
  ...route('monitor', 'addAlerts', 'POST /v1/alerts', 'admin'),
  summary: 'Subscribe a channel to alerts.',
  description:
    'A subscription of the monitor to the source `signalbox`, with defaults for alerts: a digest of 30 seconds, a ' +
    'window of 10 minutes. `rule` takes alerts of one rule only.',
  body: strictFor<AddAlertsBody>()({
    name,
    channel,
    rule: Type.Optional(rule),
    windowMs: Type.Optional(span),
    digestMs: Type.Optional(span),
  }),
  replies: { 201: subscription },
  problems: ['conflict'],
}

export const testAlerts: Route<{ reply: { readonly notified: number } }> = {
  ...route('monitor', 'testAlerts', 'POST /v1/alerts/test', 'admin'),
  summary: 'Send a test alert to every subscription that takes all rules.',
  replies: { 200: objectFor<{ readonly notified: number }>()({ notified: count }) },
}

export const removeAlerts: Route<{ params: IdParams; reply: { readonly deleted: true } }> = {
  ...route('monitor', 'removeAlerts', 'DELETE /v1/alerts/{id}', 'admin'),
  summary: 'End a subscription to alerts.',
  replies: { 200: objectFor<{ readonly deleted: true }>()({ deleted: Type.Literal(true) }) },
  problems: ['not_found'],
}
