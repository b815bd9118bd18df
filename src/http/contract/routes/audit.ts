import type { AuditEntry } from '../../../audit/index.ts'
import type { Page } from '../page.ts'
import type { Route } from '../route.ts'
import { instantOptions, schemaFor, strict, Type } from '../schema.ts'
import { name } from '../values.ts'

/** The routes of the audit: it is read here, and written by the server alone. */

export interface ListAuditQuery {
  readonly action?: string
  /** The actor's id. */
  readonly actor?: string
  readonly limit?: number
  readonly cursor?: string
}

const entry = Type.Object({
  id: Type.String(),
  at: Type.Integer(instantOptions),
  actor: Type.Object({ id: Type.String(), name: Type.Union([Type.String(), Type.Null()]) }),
  action: Type.String(),
  target: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()])),
  outcome: Type.Union([Type.Literal('done'), Type.Literal('refused'), Type.Literal('unknown')]),
  code: Type.Union([Type.String(), Type.Null()]),
})

export const listAudit: Route<{ query: ListAuditQuery; reply: Page<AuditEntry> }> = {
  id: 'listAudit',
  method: 'GET',
  path: '/v1/audit',
  scope: 'admin',
  module: 'audit',
  summary:
    'List what operators did in this namespace, newest first: who, what, to which thing, and what came of it.',
  description:
    '`actor.id` is the id of a token, `bootstrap`, `local` (no token was needed), or the word of a program that works on the store itself. ' +
    '`outcome` is `done`, `refused` with the `code` of the problem, or `unknown` when the server or its store failed on the way. ' +
    'No secrets and no payloads are in it. Entries are kept for 90 days unless the server was told otherwise.',
  query: schemaFor<ListAuditQuery>()(
    Type.Object(
      {
        action: Type.Optional(name),
        actor: Type.Optional(name),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
        cursor: Type.Optional(name),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<Page<AuditEntry>>()(
      Type.Object({ items: Type.Array(entry), cursor: Type.Union([Type.String(), Type.Null()]) }),
    ),
  },
  mutates: false,
}
