import type { CreateTokenOptions, Token, TokenWithSecret } from '../../../access/index.ts'
import type { AuditEntry, ListAuditOptions } from '../../../audit/index.ts'
import type { Duration } from '../../../core/duration.ts'
import { type Route, route, streamOf } from '../route.ts'
import {
  exactly,
  instantOptions,
  nameOptions,
  object,
  oneOf,
  queryObject,
  type Schema,
  spanPattern,
  strictObject,
  Type,
} from '../schema.ts'
import {
  type IdParams,
  instantOrNull,
  name,
  nothing,
  orNull,
  type Page,
  type PageQuery,
  pageOf,
} from '../values.ts'
import { queueStatsSchema } from './queues.ts'

/** Health, metrics, the API's own description, and the operators' stream. */

export interface Health {
  readonly status: string
  readonly version: string
}

export const livez: Route<{ reply: Health }> = {
  ...route('system', 'livez', 'GET /livez', 'none'),
  relieves: true,
  summary: 'The process is alive.',
  replies: { 200: object({ status: Type.String(), version: Type.String() }) },
}

/** The checks of a server, with the reasons why it is not ready. */
export interface Readiness extends Health {
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[]
}
export const readinessSchema: Schema<Readiness> = object({
  status: Type.String(),
  version: Type.String(),
  checks: Type.Array(
    Type.Object({ name: Type.String(), ok: Type.Boolean(), detail: Type.Optional(Type.String()) }),
  ),
})

export const readyz: Route<{ reply: Readiness }> = {
  ...route('system', 'readyz', 'GET /readyz', 'none'),
  relieves: true,
  summary:
    'Whether the server takes work: the store answers, the schema is current, loops make progress, no shutdown.',
  description: '503 with the same body and `status: "unready"` when a check fails.',
  replies: { 200: readinessSchema, 503: readinessSchema },
}

export const metrics: Route = {
  ...route('system', 'metrics', 'GET /metrics', 'read'),
  relieves: true,
  summary: 'Metrics in the text format of Prometheus.',
  replies: { 200: exactly(Type.Unknown()) },
  replyType: 'text',
}

export const openapi: Route = {
  ...route('system', 'openapi', 'GET /openapi.json', 'none'),
  summary: 'This API as an OpenAPI 3.1 document.',
  replies: { 200: exactly(Type.Unknown()) },
}

export const events: Route = {
  ...route('events', 'events', 'GET /v1/events', 'read'),
  summary: 'Stream changes: `queues { items }` first, then when a number changed, at most once a second.',
  ...streamOf({
    reset: {
      description: 'What came after the Last-Event-ID is no longer known; the present state follows.',
      data: nothing,
    },
    queues: {
      description: 'Every queue, first and whenever a number changed.',
      data: Type.Object({ items: Type.Array(queueStatsSchema) }),
    },
  }),
  problems: ['too_many'],
}

/** The routes of the audit. They only read it; the server writes it. */

const entry: Schema<AuditEntry> = object({
  id: Type.String(),
  at: Type.Integer(instantOptions),
  actor: Type.Object({ id: Type.String(), name: orNull(Type.String()) }),
  action: Type.String(),
  target: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()])),
  outcome: oneOf('done', 'refused', 'unknown'),
  code: orNull(Type.String()),
})

export const listAudit: Route<{ query: ListAuditOptions; reply: Page<AuditEntry> }> = {
  ...route('audit', 'listAudit', 'GET /v1/audit', 'admin'),
  summary: 'List what operators did in this namespace, newest first: actor, action, target, outcome.',
  description:
    '`actor.id` is the id of a token, `bootstrap`, `local` (no token was needed), or the name of a program that ' +
    'works on the store itself. `outcome` is `done`, `refused` with the `code` of the problem, or `unknown` when ' +
    'the server or its store failed on the way. Entries hold no secrets and no payloads, and are kept for 90 days ' +
    'by default.',
  query: strictObject({
    action: Type.Optional(name),
    actor: Type.Optional(name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(name),
  }),
  replies: {
    200: pageOf(entry),
  },
}

/** The routes of tokens. */

const scope = oneOf('read', 'work', 'admin')
const fields = {
  id: Type.String(),
  name: Type.String(),
  scope,
  nodes: Type.Union([Type.Array(Type.String()), Type.Null()], {
    description: 'The nodes it may connect as, and it may do nothing else; null: not bound.',
  }),
  namespace: Type.String(),
  createdAt: Type.Integer(instantOptions),
  expiresAt: instantOrNull,
  revokedAt: instantOrNull,
}
const tokenSchema: Schema<Token> = object(fields)

export const listTokens: Route<{ query: PageQuery; reply: Page<Token> }> = {
  ...route('access', 'listTokens', 'GET /v1/tokens', 'admin'),
  summary: 'List tokens, including expired and revoked ones. Secrets are neither stored nor shown.',
  query: queryObject({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(Type.String(nameOptions)),
  }),
  replies: {
    200: pageOf(tokenSchema),
  },
}

export interface CreateTokenBody extends Omit<CreateTokenOptions, 'namespace'> {
  /** @default the caller's */
  readonly namespace?: string | undefined
}

export const createToken: Route<{ body: CreateTokenBody; reply: TokenWithSecret }> = {
  ...route('access', 'createToken', 'POST /v1/tokens', 'admin'),
  summary: 'Create a token. Only this reply has its `secret`.',
  description:
    'An Idempotency-Key is refused here: to repeat the reply, the server would have to store the secret. Only a ' +
    'token of every namespace (`*`) may create tokens for another namespace. A token with `nodes` may connect as ' +
    'these nodes and do nothing else; its scope is `work`.',
  body: strictObject({
    name: Type.String(nameOptions),
    scope,
    nodes: Type.Optional(orNull(Type.Array(Type.String(nameOptions), { minItems: 1, maxItems: 100 }))),
    namespace: Type.Optional(Type.String(nameOptions)),
    expiresInMs: Type.Optional(
      Type.Unsafe<Duration | null>(
        Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: spanPattern }), Type.Null()]),
      ),
    ),
  }),
  replies: { 201: object({ ...fields, secret: Type.String() }) },
}

export const revokeToken: Route<{ params: IdParams; reply: Token }> = {
  ...route('access', 'revokeToken', 'DELETE /v1/tokens/{id}', 'admin'),
  summary:
    'Revoke a token: at once on this server and within one second on others, for requests, streams and sockets.',
  replies: { 200: tokenSchema },
  problems: ['not_found'],
}
