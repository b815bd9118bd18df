import type { Scope, Token } from '../../../access/index.ts'
import type { Duration } from '../../../core/duration.ts'
import type { Page } from '../page.ts'
import type { Route } from '../route.ts'
import { instantOptions, nameOptions, type Schema, schemaFor, spanPattern, strict, Type } from '../schema.ts'
import { instantOrNull } from '../values.ts'

/** The routes of tokens. */

const scope = Type.Union([Type.Literal('read'), Type.Literal('work'), Type.Literal('admin')])
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
const tokenObject = Type.Object(fields)

export interface ListTokensQuery {
  readonly limit?: number
  readonly cursor?: string
}

export const listTokens: Route<{ query: ListTokensQuery; reply: Page<Token> }> = {
  id: 'listTokens',
  method: 'GET',
  path: '/v1/tokens',
  scope: 'admin',
  module: 'access',
  summary: 'List tokens, also those that ended. Secrets are not kept and not shown.',
  query: schemaFor<ListTokensQuery>()(
    Type.Object(
      {
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
        cursor: Type.Optional(Type.String(nameOptions)),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<Page<Token>>()(
      Type.Object({ items: Type.Array(tokenObject), cursor: Type.Union([Type.String(), Type.Null()]) }),
    ),
  },
  mutates: false,
}

export interface CreateTokenBody {
  readonly name: string
  readonly scope: Scope
  /** The nodes it may connect as, and it may do nothing else; with the scope `work`. @default not bound */
  readonly nodes?: readonly string[] | null
  /** @default the caller's */
  readonly namespace?: string
  readonly expiresInMs?: Duration | null
}
/** A new token, with the secret that is never shown again. */
export interface CreatedToken extends Token {
  readonly secret: string
}

export const createToken: Route<{ body: CreateTokenBody; reply: CreatedToken }> = {
  id: 'createToken',
  method: 'POST',
  path: '/v1/tokens',
  scope: 'admin',
  module: 'access',
  summary: 'Make a token. Its `secret` is in this answer and never shown again.',
  description:
    'An Idempotency-Key is refused here: to repeat the answer the secret would have to be kept. ' +
    'Only a token of every namespace (`*`) may make tokens for another one. One with `nodes` may connect as these nodes, and ' +
    'is refused everything else; its scope is `work`.',
  body: schemaFor<CreateTokenBody>()(
    Type.Object(
      {
        name: Type.String(nameOptions),
        scope,
        nodes: Type.Optional(
          Type.Union([Type.Array(Type.String(nameOptions), { minItems: 1, maxItems: 100 }), Type.Null()]),
        ),
        namespace: Type.Optional(Type.String(nameOptions)),
        expiresInMs: Type.Optional(
          Type.Unsafe<Duration | null>(
            Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: spanPattern }), Type.Null()]),
          ),
        ),
      },
      strict,
    ),
  ),
  replies: { 201: schemaFor<CreatedToken>()(Type.Object({ ...fields, secret: Type.String() })) },
  mutates: true,
}

interface IdParams {
  readonly id: string
}
const idParams: Schema<IdParams> = schemaFor<IdParams>()(
  Type.Object({ id: Type.String(nameOptions) }, strict),
)

export const revokeToken: Route<{ params: IdParams; reply: Token }> = {
  id: 'revokeToken',
  method: 'DELETE',
  path: '/v1/tokens/{id}',
  scope: 'admin',
  module: 'access',
  summary:
    'Revoke a token. It ends at once on this server and within one second on every other: for requests, waiting claims, streams and sockets.',
  params: idParams,
  replies: { 200: schemaFor<Token>()(tokenObject) },
  mutates: true,
  problems: ['not_found'],
}
