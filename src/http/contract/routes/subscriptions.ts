import type { TUnsafe } from 'typebox'
import type { AlertSubscribeOptions, FiringAlert } from '../../../fleet/alerts/index.ts'
import type {
  Silence,
  SilenceOptions,
  SubjectMatch,
  SubscribeOptions,
  Subscription,
  SubscriptionChannel,
  TestSendAnswer,
} from '../../../monitor/index.ts'
import { type Route, route } from '../route.ts'
import { object, oneOf, type Schema, type Sent, strict, strictObject, Type } from '../schema.ts'
import { count, type IdParams, instant, name, orNull, type Page, pageOf, span } from '../values.ts'

/** The routes of subscriptions and silences for operators, and the test of a channel. */

const textOrNull = orNull(Type.String())

const textMatch = Type.Union([
  name,
  Type.Array(name, { minItems: 1, maxItems: 1_000 }),
  Type.Object({ prefix: name }, strict),
])
const match = Type.Unsafe<SubjectMatch>(
  Type.Object(
    {
      source: Type.Optional(textMatch),
      subject: Type.Optional(textMatch),
      timeSlot: Type.Optional(textMatch),
      venueId: Type.Optional(textMatch),
    },
    strict,
  ),
)

// The other fields depend on the type. The channel itself describes a mistake, and never quotes a value.
const channel: TUnsafe<SubscriptionChannel> = Type.Unsafe<SubscriptionChannel>(
  Type.Object({ type: Type.String() }),
)

const throttle = Type.Object({ max: Type.Integer({ minimum: 1, maximum: 1_000_000 }), perMs: span }, strict)
const flap = Type.Object({ changes: Type.Integer({ minimum: 1, maximum: 99 }), withinMs: span }, strict)

const onAmbiguous = oneOf('resend', 'hold')

const subscription: Schema<Subscription> = object({
  id: Type.String(),
  name: Type.String(),
  match: match,
  channel: Type.Object({
    type: Type.String(),
    shown: Type.String(),
    secrets: oneOf('plain', 'sealed', 'unreadable'),
  }),
  windowMs: count,
  notifyNew: Type.Boolean(),
  reconcile: Type.Boolean(),
  digestMs: count,
  throttle: orNull(Type.Object({ max: count, perMs: count })),
  flap: orNull(Type.Object({ changes: count, withinMs: count })),
  template: textOrNull,
  onAmbiguous,
  maxRetries: count,
  retryInMs: count,
  createdAt: instant,
})

export const subscribe: Route<{ body: SubscribeOptions; reply: Subscription }> = {
  ...route('monitor', 'subscribe', 'POST /v1/monitor/subscriptions', 'admin'),
  summary: 'Subscribe a channel to changes.',
  description:
    'docs/monitor.md lists the types of channels and their fields. The server refuses an address that is not public, unless its ' +
    'operator allows it. It never shows a secret again.',
  body: strictObject({
    name,
    match: Type.Optional(match),
    channel,
    windowMs: Type.Optional(span),
    notifyNew: Type.Optional(Type.Boolean()),
    reconcile: Type.Optional(Type.Boolean()),
    digestMs: Type.Optional(span),
    throttle: Type.Optional(orNull(throttle)),
    flap: Type.Optional(orNull(flap)),
    template: Type.Optional(textOrNull),
    onAmbiguous: Type.Optional(onAmbiguous),
    maxRetries: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
    retryInMs: Type.Optional(span),
  }),
  replies: { 201: subscription },
  problems: ['conflict'],
}

export const listSubscriptions: Route<{ reply: Page<Subscription> }> = {
  ...route('monitor', 'listSubscriptions', 'GET /v1/monitor/subscriptions', 'read'),
  summary: 'List all subscriptions, oldest first, without secrets.',
  replies: { 200: pageOf<Subscription>(subscription) },
}

export const unsubscribe: Route<{ params: IdParams; reply: { readonly deleted: true } }> = {
  ...route('monitor', 'unsubscribe', 'DELETE /v1/monitor/subscriptions/{id}', 'admin'),
  summary: 'Remove a subscription and cancel its waiting notifications.',
  replies: { 200: object({ deleted: Type.Literal(true) }) },
  problems: ['not_found'],
}

const silenceSchema: Schema<Silence> = object({
  id: Type.String(),
  match: match,
  comment: Type.String(),
  startsAt: instant,
  endsAt: instant,
})

export type SilenceBody = Sent<SilenceOptions>

export const createSilence: Route<{ body: SilenceBody; reply: Silence }> = {
  ...route('monitor', 'createSilence', 'POST /v1/monitor/silences', 'admin'),
  summary: 'Silence some subjects for a while: their changes are decided as `silenced`.',
  body: strictObject({
    match: Type.Optional(match),
    forMs: span,
    // A year before the last instant, so that the end of the silence is a valid instant too.
    startsAt: Type.Optional(Type.Integer({ minimum: 0, maximum: 8_639_968_464_000_000 })),
    comment: Type.Optional(name),
  }),
  replies: { 201: silenceSchema },
  problems: ['conflict'],
}

export const listSilences: Route<{ reply: Page<Silence> }> = {
  ...route('monitor', 'listSilences', 'GET /v1/monitor/silences', 'read'),
  summary: 'List the silences that have not ended.',
  replies: { 200: pageOf<Silence>(silenceSchema) },
}

export const endSilence: Route<{ params: IdParams; reply: { readonly deleted: true } }> = {
  ...route('monitor', 'endSilence', 'DELETE /v1/monitor/silences/{id}', 'admin'),
  summary: 'End a silence.',
  replies: { 200: object({ deleted: Type.Literal(true) }) },
  problems: ['not_found'],
}

type TestChannelBody = Pick<SubscribeOptions, 'channel'>

export const testChannel: Route<{ body: TestChannelBody; reply: TestSendAnswer }> = {
  ...route('monitor', 'testChannel', 'POST /v1/monitor/test', 'admin'),
  summary: 'Send a test message through a channel now, without queue and limits.',
  body: strictObject({ channel }),
  replies: {
    200: object({ ok: Type.Boolean(), reason: textOrNull, shown: textOrNull }),
  },
}

/** Routes of alerts: the rules, and the channels that they notify. */

const rule = oneOf(
  ...(['dead-jobs', 'queue-behind', 'no-worker', 'schedule-missed'] as const),
  ...(['lock-waited', 'node-lost', 'channel-failing', 'store-slow'] as const),
)

interface AlertsReply {
  readonly firing: readonly FiringAlert[]
  readonly subscriptions: readonly Subscription[]
}

export const listAlerts: Route<{ reply: AlertsReply }> = {
  ...route('monitor', 'listAlerts', 'GET /v1/alerts', 'read'),
  summary: 'List the alerts that fire, and the subscriptions to alerts.',
  description: 'Servers look for alerts only while there is a subscription to them.',
  replies: {
    200: object({
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
  body: strictObject({
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
  replies: { 200: object({ notified: count }) },
}

export const removeAlerts: Route<{ params: IdParams; reply: { readonly deleted: true } }> = {
  ...route('monitor', 'removeAlerts', 'DELETE /v1/alerts/{id}', 'admin'),
  summary: 'End a subscription to alerts.',
  replies: { 200: object({ deleted: Type.Literal(true) }) },
  problems: ['not_found'],
}
