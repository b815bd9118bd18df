import { type ErrorCode, errorCodes } from '../../core/errors.ts'
import {
  type Components,
  createComponents,
  isResumable,
  type JsonSchema,
  streamEventsOf,
} from './openapi-schemas.ts'
import { problemsByStatus, takesIdempotencyKey } from './problem.ts'
import { bodyLimits, pathParams, type Route } from './route.ts'
import type { Schema } from './schema.ts'

/**
 * The API as an OpenAPI 3.1 document, generated only from the table of routes. So the document has everything that the
 * routes say, and nothing else.
 */
export function describeApi(
  routes: readonly Route[],
  { version, url }: { readonly version: string; readonly url: string },
): ApiDescription {
  const components = createComponents()
  const responses = new Map<string, object>()
  const paths: Record<string, Record<string, Operation>> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    paths[route.path]![route.method.toLowerCase()] = describeRoute(route, components, responses)
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'Signalbox',
      version,
      summary: 'Keeps a fleet of workers from colliding.',
      description: introduction,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url }],
    tags: Object.entries(modules)
      .filter(([module]) => routes.some((route) => route.module === module))
      .map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: { ...components.used(), Problem: problemSchema },
      responses: Object.fromEntries([...responses].sort(([a], [b]) => (a < b ? -1 : 1))),
      parameters: headerParameters,
      headers: replyHeaders,
      securitySchemes: { bearer: bearerScheme },
    },
  }
}

/** The part of an OpenAPI document that this package uses. */
export interface ApiDescription {
  readonly openapi: string
  readonly info: Readonly<Record<string, unknown>>
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly object[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>
}

/** One request of an OpenAPI document. */
export interface Operation {
  readonly operationId: string
  readonly parameters?: readonly object[]
  readonly requestBody?: object
  readonly responses: Readonly<Record<string, object>>
  readonly [more: string]: unknown
}

function describeRoute(route: Route, components: Components, responses: Map<string, object>): Operation {
  const parameters = parametersOf(route, components)
  return {
    operationId: route.id,
    tags: [route.module],
    summary: route.summary,
    description: descriptionOf(route),
    'x-scope': route.scope,
    security: route.scope === 'none' ? [] : [{ bearer: [route.scope] }],
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: route.bodyOptional !== true,
        content: { 'application/json': { schema: components.show(route.body) } },
      },
    }),
    responses: { ...repliesOf(route, components), ...problemReplies(route, components, responses) },
  }
}

function descriptionOf(route: Route): string {
  const { maxBytes, maxKeys } = route.limits ?? bodyLimits
  const sentences = [
    route.description,
    route.scope === 'none' ? 'Needs no token.' : `Needs the scope \`${route.scope}\`.`,
    route.body && `The body has at most ${maxBytes} bytes and ${maxKeys} keys.`,
    route.bodyOptional && 'No body counts as `{}`.',
  ]
  return sentences.filter(Boolean).join(' ')
}

function parametersOf(route: Route, components: Components): readonly object[] {
  const fields = (schema: Schema | undefined, place: 'path' | 'query') => {
    const { properties = {}, required = [] } = (schema ?? {}) as ObjectParts
    return Object.entries(properties).map(([name, field]) => ({
      name,
      in: place,
      required: required.includes(name),
      schema: components.show(field),
    }))
  }
  const header = (name: keyof typeof headerParameters) => ({ $ref: `#/components/parameters/${name}` })
  return [
    ...fields(pathParams(route), 'path'),
    ...fields(route.query, 'query'),
    ...(route.scope === 'none' ? [] : [header('Namespace')]),
    ...(takesIdempotencyKey(route) ? [header('IdempotencyKey')] : []),
    ...(isResumable(route) ? [header('LastEventId')] : []),
  ]
}

interface ObjectParts {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

function repliesOf(route: Route, components: Components): Record<string, object> {
  const replies = Object.entries(route.replies).map(([status, schema]) => [
    status,
    {
      description: replyWords[status] ?? `Status ${status}.`,
      headers: { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } },
      content: contentOf(route, schema, components),
    },
  ])
  return Object.fromEntries(replies)
}

function contentOf(route: Route, schema: Schema, components: Components): object {
  switch (route.replyType) {
    case 'text':
      return { 'text/plain': { schema: { type: 'string' } } }
    case 'events':
      return { 'text/event-stream': { schema: { type: 'string' }, 'x-events': eventsOf(route, components) } }
    default:
      return { 'application/json': { schema: components.show(schema) } }
  }
}

/** The events of a stream by type, with the schemas of their `data`. */
function eventsOf(route: Route, components: Components): object {
  return Object.fromEntries(
    Object.entries(streamEventsOf(route) ?? {}).map(([type, { description, data }]) => [
      type,
      { description, data: components.show(data) },
    ]),
  )
}

/** All problem replies by status. Replies with the same codes share a component. */
function problemReplies(
  route: Route,
  components: Components,
  responses: Map<string, object>,
): Record<string, object> {
  const replies: Record<string, object> = {}
  for (const [status, codes] of problemsByStatus(route)) {
    const reply = problemReply(status, codes)
    const schema = route.replies[status]
    if (schema === undefined) {
      const name = [status, ...codes].join('.')
      responses.set(name, reply)
      replies[status] = { $ref: `#/components/responses/${name}` }
    } else {
      // The status may also be an expected answer. The media type distinguishes the two.
      replies[status] = { ...reply, content: { ...contentOf(route, schema, components), ...reply.content } }
    }
  }
  return replies
}

interface Reply {
  readonly description: string
  readonly headers: object
  readonly content: object
}

function problemReply(status: number, codes: readonly ErrorCode[]): Reply {
  const lines = codes.map((code) => `- \`${code}\`: ${errorCodes[code].meaning}`)
  const code = { properties: { status: { const: status }, code: { enum: codes } } }
  return {
    description: lines.join('\n'),
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...(status === 429 && { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }),
    },
    content: {
      'application/problem+json': {
        schema: { allOf: [{ $ref: '#/components/schemas/Problem' }, code] },
      },
    },
  }
}

const introduction =
  'JSON in and out. Errors are problem documents (RFC 9457) whose `code` is stable. Instants are epoch milliseconds; ' +
  'a span is milliseconds or text such as `30s`. A list is `{ items, cursor }`; `cursor` is null at the end. ' +
  'Unknown fields and parameters are refused.'

/** The modules, as tags. */
export const modules: Readonly<Record<Route['module'], string>> = {
  jobs: 'Jobs: added, claimed under a lease, renewed, and ended with ack or nack.',
  locks: 'Fair locks with wait queues, leases and fencing tokens. Waiters learn success or failure.',
  once: 'Guards: one caller runs a key, and the store keeps its result. Windows: no second notification within one.',
  monitor:
    'Changes that many programs see and subscribers hear of once: reports, subscriptions, notifications, and their reasons.',
  dispatch: 'Tasks for nodes with the right services. Each task ends exactly once.',
  access: 'Tokens: their scopes and namespaces.',
  audit: 'What operators did, and what they were refused.',
  contention: 'Which calls wait, how long, and for which others.',
  events: 'What happens, as a stream.',
  system: 'Health, metrics, and this document.',
}

const replyWords: Readonly<Record<string, string>> = {
  200: 'All is well.',
  201: 'Something new was made.',
  202: 'A position in the wait queue, or an accepted task.',
  409: 'The lock is busy, and the request does not wait.',
  503: 'It takes no work now; the body says why.',
}

const problemSchema: JsonSchema = {
  type: 'object',
  description: 'What went wrong (RFC 9457). Compare `code`; the rest is for people.',
  required: ['type', 'title', 'status', 'code', 'detail'],
  properties: {
    type: { type: 'string', description: '`urn:signalbox:error:` and the code.' },
    title: { type: 'string', description: 'What the code means.' },
    status: { type: 'integer', description: 'The HTTP status again.' },
    code: { type: 'string', enum: Object.keys(errorCodes) },
    detail: { type: 'string', description: 'What happened, to which thing, and what to do.' },
    details: {
      type: 'object',
      description:
        'Of `invalid_argument`, where there is one: the place it is about. `option` is the way to the field, `field` one of a ' +
        'cron line, `column` and `expected` are of a search, `jobId` is a job that is named and not there.',
      additionalProperties: { anyOf: [{ type: 'string' }, { type: 'number' }] },
    },
  },
}

const headerParameters = {
  Namespace: {
    name: 'Signalbox-Namespace',
    in: 'header',
    required: false,
    description:
      'The namespace to act in, percent-encoded. A token of one namespace may name only that one; a token of `*`, ' +
      'and a caller that needs no token, may name any. Without it, `default`.',
    schema: { type: 'string', minLength: 1, pattern: '^[\\x21-\\x7e]+$' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description:
      'Makes the request safe to send again: within 24 hours the same key, from the same caller and with the same ' +
      'route and body, is answered with the first outcome and done once.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
  },
  LastEventId: {
    name: 'Last-Event-ID',
    in: 'header',
    required: false,
    description: 'The id of the last event that was read: the stream continues behind it, or sends `reset`.',
    schema: { type: 'string', pattern: '^(?:[0-9]{1,15}|[1-8][0-9]{15})$' },
  },
} as const

const replyHeaders = {
  RequestId: {
    description: 'The request in the server’s log: the X-Request-Id that came with it, or a new one.',
    schema: { type: 'string' },
  },
  RetryAfter: {
    description: 'Seconds to wait before asking again.',
    schema: { type: 'integer', minimum: 0 },
  },
}

const bearerScheme = {
  type: 'http',
  scheme: 'bearer',
  description:
    'A token made by `signalbox token create` or `POST /v1/tokens`. Its scope is `read`, `work` or `admin`; each ' +
    'includes those before it. A server on a loopback address that has no live token asks for none.',
}
