import type { Scope } from '../../access/index.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { type Schema, strict, Type } from './schema.ts'
import { name } from './values.ts'

/**
 * A route describes one request: its path, the scope it needs, what comes in and what goes out. Nothing here belongs to a
 * framework. The server validates and documents by it, the client is typed by it, and a test walks the table.
 */
export interface Route<S extends Shape = Shape> {
  /** Names the route for programs: metrics, OpenAPI's operationId. */
  readonly id: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With parameters in braces: `/v1/jobs/{id}`. */
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
  /** Without one, no parameter is taken. */
  readonly query?: Schema<S['query']>
  readonly body?: Schema<S['body']>
  /** A request without a body counts as `{}`. */
  readonly bodyOptional?: boolean
  /** The replies of success, by status. */
  readonly replies: Readonly<Record<number, Schema<S['reply']>>>
  /** The reply is a stream of server-sent events, or text. @default 'json' */
  readonly replyType?: 'json' | 'events' | 'text'
  /** The events of a stream by type, in the order a reader meets them. OpenAPI 3.1 has no keyword for them. */
  readonly events?: StreamEvents<Readonly<Record<string, unknown>>>
  /** It ends or renews a lease, or reports the health of the server: an overloaded server answers it too. */
  readonly relieves?: true
  /** It changes nothing although it is no GET. @default false */
  readonly isRead?: true
  /** The codes of its problems, besides those that every route has. */
  readonly problems?: readonly ErrorCode[]
  /** @default 1 MiB and 10,000 keys */
  readonly limits?: BodyLimits
  /** `limits` are for a body that is a list; one that is an object has the default. */
  readonly limitsForLists?: true
}

/** What a route begins with: its module and id, its method and path, and the scope that it needs. */
export function route(
  module: Route['module'],
  id: string,
  request: `${Route['method']} /${string}`,
  scope: Route['scope'],
): Pick<Route, 'module' | 'id' | 'method' | 'path' | 'scope'> {
  const [method, path] = request.split(' ') as [Route['method'], string]
  return { module, id, method, path, scope }
}

/** The types of a route: what comes in and what goes out. */
export interface Shape {
  readonly params?: unknown
  readonly query?: unknown
  readonly body?: unknown
  readonly reply?: unknown
}

export type ShapeOf<R> = R extends Route<infer S> ? S : never
export type QueryOf<R> = ShapeOf<R>['query']
export type BodyOf<R> = ShapeOf<R>['body']
export type ReplyOf<R> = ShapeOf<R>['reply']

/** What each event of a stream means, and what its `data` holds. */
export type StreamEvents<Events> = {
  readonly [Type in keyof Events]: { readonly description: string; readonly data: Schema<Events[Type]> }
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

/** Whether it changes something: then an Idempotency-Key counts, and a foreign page may not ask. */
export function mutates({ method, isRead }: Pick<Route, 'method' | 'isRead'>): boolean {
  return method !== 'GET' && isRead !== true
}

/**
 * Whether a request of this route may wait: its caller says for how long, by `waitMs` in the query or the body. A stream of
 * events waits too, after its head was sent.
 */
export function mayWait({ query, body }: Pick<Route, 'query' | 'body'>): boolean {
  return [query, body].some(
    (schema) => 'waitMs' in ((schema as WithProperties | undefined)?.properties ?? {}),
  )
}

interface WithProperties {
  readonly properties?: Readonly<Record<string, unknown>>
}

/** The limits of a body, counted before it is parsed. */
export interface BodyLimits {
  readonly maxBytes: number
  readonly maxKeys: number
}

export const bodyLimits: BodyLimits = { maxBytes: 1_048_576, maxKeys: 10_000 }
/** Counted over brackets: a payload of 32 levels, and what it is wrapped in. */
export const maxBodyDepth = 40
