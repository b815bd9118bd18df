import type { JobLogLine, LogLevel } from '../../../jobs/index.ts'
import { type IdParams, idParams, type Page, pageOf } from '../page.ts'
import type { Route } from '../route.ts'
import { instantOptions, schemaFor, strict, Type } from '../schema.ts'

/** The routes of what attempts say of themselves. */

const level = Type.Union([Type.Literal('info'), Type.Literal('warn'), Type.Literal('error')])

export interface NoteBody {
  readonly token: string
  /** Which attempt it was, for its last words: they may come after its end. */
  readonly attempt?: number
  readonly progress?: {
    readonly percent?: number | null
    readonly note?: string | null
    readonly data?: unknown
  }
  readonly logs?: readonly { readonly text: string; readonly level?: LogLevel }[]
}

export const noteJob: Route<{ params: IdParams; body: NoteBody; reply: { readonly id: string } }> = {
  id: 'noteJob',
  method: 'POST',
  path: '/v1/jobs/{id}/notes',
  scope: 'work',
  module: 'jobs',
  summary: 'Say how far a job in hand is, and write log lines about it.',
  description:
    'The latest progress replaces the one before. Of one attempt 500 log lines and 65,536 bytes are kept; a last line says ' +
    'how many were dropped. With `attempt`, last words are taken also after the attempt was acked or nacked.',
  params: idParams,
  body: schemaFor<NoteBody>()(
    Type.Object(
      {
        token: Type.String({ minLength: 1, maxLength: 191 }),
        attempt: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
        progress: Type.Optional(
          Type.Object(
            {
              percent: Type.Optional(Type.Union([Type.Number(), Type.Null()])),
              note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
              data: Type.Optional(Type.Unknown()),
            },
            strict,
          ),
        ),
        logs: Type.Optional(
          Type.Array(Type.Object({ text: Type.String(), level: Type.Optional(level) }, strict), {
            maxItems: 2_000,
          }),
        ),
      },
      strict,
    ),
  ),
  replies: { 200: schemaFor<{ readonly id: string }>()(Type.Object({ id: Type.String() })) },
  mutates: true,
  problems: ['lease_lost'],
}

export interface JobLogsQuery {
  readonly limit?: number
  readonly cursor?: string
}

export const jobLogs: Route<{ params: IdParams; query: JobLogsQuery; reply: Page<JobLogLine> }> = {
  id: 'jobLogs',
  method: 'GET',
  path: '/v1/jobs/{id}/logs',
  scope: 'read',
  module: 'jobs',
  summary: 'The log lines of a job, by attempt and number.',
  params: idParams,
  query: schemaFor<JobLogsQuery>()(
    Type.Object(
      {
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100 })),
        cursor: Type.Optional(Type.String({ pattern: '^\\d{1,9}-\\d{1,9}$' })),
      },
      strict,
    ),
  ),
  replies: {
    200: pageOf(
      schemaFor<JobLogLine>()(
        Type.Object({
          attempt: Type.Integer(),
          number: Type.Integer(),
          level,
          text: Type.String(),
          at: Type.Integer(instantOptions),
        }),
      ),
    ),
  },
  mutates: false,
}
