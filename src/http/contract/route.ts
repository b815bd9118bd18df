import type { Scope } from '../../access/index.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { type Schema, strict, Type } from './schema.ts'
import { name } from './values.ts'

/**
 * A route describes one request: its path, its scope, its input and its replies. It belongs to no framework. The server
 * validates requests and generates documentation from it, it gives the client its types, and a test checks every route.
 */
export interface Route<S extends Shape = Shape> {
  /** Names the route for programs: metrics, OpenAPI's operationId. */
  readonly id: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path, with parameters in braces: `/v1/jobs/{id}`. */
  readonly path: string
  /** The scope that the caller needs; `none` is open to every client that reaches the port. */
  readonly scope: Scope | 'none'
  /** A token that is bound to nodes may call it too. */
  readonly forNodes?: true
  readonly summary: string
  readonly description?: string
  readonly module:
    | 'jobs'
    | 'locks'
    | 'once'
    | 'monitor'
    | 'dispatch'
    | 'access'
    | 'audit'
    | 'contention'
    | 'events'
    | 'system'
  /** Without a schema, the route accepts no parameters. */
  readonly query?: Schema<S['query']>
  readonly body?: Schema<S['body']>
  /** A request without a body counts as `{}`. */
  readonly bodyOptional?: boolean
  /** The replies of success, by status. */
  readonly replies: Readonly<Record<number, Schema<S['reply']>>>
  /** The reply is a stream of server-sent events, or text. @default 'json' */
  readonly replyType?: 'json' | 'events' | 'text'
  /** The events of a stream by type, in the order in which a reader gets them. OpenAPI 3.1 has no keyword for them. */
  readonly events?: StreamEvents<Readonly<Record<string, unknown>>>
  /** The route ends or renews a lease, or reports the health of the server: an overloaded server answers it too. */
  readonly relieves?: true
  /** The route changes nothing although its method is not GET. @default false */
  readonly isRead?: true
  /** The codes of the route's own problems, besides the common ones. */
  readonly problems?: readonly ErrorCode[]
  /** @default 1 MiB and 10,000 keys */
  readonly limits?: BodyLimits
  /** `limits` apply only to a body that is a list; a body that is an object has the default limits. */
  readonly limitsForLists?: true
}

/** The first properties of a route: module, id, method, path and scope. */
export function route(
  module: Route['module'],
  id: string,
  request: `${Route['method']} /${string}`,
  scope: Route['scope'],
): Pick<Route, 'module' | 'id' | 'method' | 'path' | 'scope'> {
  const [method, path] = request.split(' ') as [Route['method'], string]
  return { module, id, method, path, scope }
}

/** The types of a route's input and reply. */
export interface Shape {
  readonly params?: unknown
  readonly query?: unknown
  readonly body?: unknown
  readonly reply?: unknown
}

export type ShapeOf<R> = R extends Route<infer S> ? S : never
export type QueryOf<R> = ShapeOf<R>['query']
export type ReplyOf<R> = ShapeOf<R>['reply']

/** The meaning of each event of a stream, and the schema of its `data`. */
export type StreamEvents<Events> = {
  readonly [Type in keyof Events]: { readonly description: string; readonly data: Schema<Events[Type]> }
}

/** The reply of a route that is a stream of these events. */
export function streamOf(
  events: NonNullable<Route['events']>,
): Required<Pick<Route, 'replies' | 'replyType' | 'events'>> {
  return { replies: { 200: Type.Unknown() }, replyType: 'events', events }
}

/** The parameters of a path: a name for each pair of braces. */
export function pathParams({ path }: Pick<Route, 'path'>): Schema | undefined {
  if (!path.includes('{')) return undefined
  const known = paramsByPath.get(path)
  if (known !== undefined) return known
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, param]) => [param!, name] as const)
  const schema = Type.Object(Object.fromEntries(names), strict)
  paramsByPath.set(path, schema)
  return schema
}

const paramsByPath = new Map<string, Schema>()

/** Whether a route changes something. Then it accepts an Idempotency-Key, and refuses pages of other sites. */
export function mutates({ method, isRead }: Pick<Route, 'method' | 'isRead'>): boolean {
  return method !== 'GET' && isRead !== true
}

/**
 * Whether a request of this route may wait: its query or body has `waitMs`. A stream of events waits too, after its
 * head is sent.
 */
export function mayWait({ query, body }: Pick<Route, 'query' | 'body'>): boolean {
  return [query, body].some(
    (schema) => 'waitMs' in ((schema as WithProperties | undefined)?.properties ?? {}),
  )
}

interface WithProperties {
  readonly properties?: Readonly<Record<string, unknown>>
}

/** The limits of a body, checked before it is parsed. */
export interface BodyLimits {
  readonly maxBytes: number
  readonly maxKeys: number
}

export const bodyLimits: BodyLimits = { maxBytes: 1_048_576, maxKeys: 10_000 }
/** The depth of nested brackets: a payload of 32 levels, and the levels around it. */
export const maxBodyDepth = 40
