import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'
import type { Route } from '../contract/index.ts'

/**
 * Finds the route of a method and a path. A fixed path wins over a path with a parameter. An unknown path and a known
 * path with a wrong method are different errors. All adapters use this router, so all answer alike.
 */
interface Router {
  /** Throws `not_found`, `method_not_allowed` (`allow` in its details), `invalid_argument` for a broken encoding. */
  match(method: string, path: string): Match
  /** Finds the route or returns undefined; never throws. */
  find(method: string, path: string): Route | undefined
}

export interface Match {
  readonly route: Route
  readonly params: Params
}

export type Params = Readonly<Record<string, string>>

/** A path with parameters, and its routes by method. */
interface PathPattern {
  readonly segments: readonly Segment[]
  readonly routes: ReadonlyMap<string, Route>
}

type Segment = { readonly literal: string } | { readonly param: string }

const noParams: Params = Object.freeze({})

export function createRouter(routes: readonly Route[]): Router {
  const byPath = new Map<string, Map<string, Route>>()
  for (const route of routes) {
    const methods = byPath.get(route.path) ?? new Map<string, Route>()
    byPath.set(route.path, methods)
    methods.set(route.method, route)
    // Every GET route answers HEAD too.
    if (route.method === 'GET') methods.set('HEAD', route)
  }
  const plain = new Map<string, ReadonlyMap<string, Route>>()
  const patterns = new Map<number, PathPattern[]>()
  for (const [path, methods] of byPath) {
    const segments = segmentsOf(path)
    if (segments.every((segment) => 'literal' in segment)) {
      plain.set(path, methods)
      continue
    }
    const alike = patterns.get(segments.length) ?? []
    patterns.set(segments.length, alike)
    alike.push({ segments, routes: methods })
  }

  function match(method: string, path: string): Match {
    const route = plain.get(path)?.get(method)
    if (route !== undefined) return { route, params: noParams }
    const parts = decodeParts(path)
    const candidates = patterns.get(parts.length) ?? []
    for (const { segments, routes } of candidates) {
      const found = routes.get(method)
      const params = found && paramsOf(segments, parts)
      if (params !== undefined) return { route: found!, params }
    }
    const allowed = new Set(plain.get(path)?.keys())
    for (const { segments, routes } of candidates)
      if (paramsOf(segments, parts) !== undefined) for (const other of routes.keys()) allowed.add(other)
    throw allowed.size === 0 ? noRoute(method, path) : wrongMethod(method, path, [...allowed])
  }

  return {
    match,
    find(method, path) {
      try {
        return match(method, path).route
      } catch {
        return undefined
      }
    },
  }
}

function segmentsOf(path: string): readonly Segment[] {
  return path
    .slice(1)
    .split('/')
    .map((part) => (part.startsWith('{') ? { param: part.slice(1, -1) } : { literal: part }))
}

function decodeParts(path: string): readonly string[] {
  const parts = path.slice(1).split('/')
  if (!path.includes('%')) return parts
  try {
    return parts.map(decodeURIComponent)
  } catch {
    throw invalidArgument('The path is not percent-encoded correctly. Encode it again.')
  }
}

function paramsOf(segments: readonly Segment[], parts: readonly string[]): Params | undefined {
  // Most paths match few patterns, so this allocates only after a match.
  for (let at = 0; at < segments.length; at++) {
    const segment = segments[at]!
    if ('param' in segment ? parts[at] === '' : parts[at] !== segment.literal) return undefined
  }
  const params: Record<string, string> = {}
  for (let at = 0; at < segments.length; at++) {
    const segment = segments[at]!
    if ('param' in segment) params[segment.param] = parts[at]!
  }
  return params
}

function noRoute(method: string, path: string): SignalboxError {
  return new SignalboxError('not_found', `There is no route ${method} ${shorten(path)}.`)
}

function wrongMethod(method: string, path: string, allow: readonly string[]): SignalboxError {
  return new SignalboxError(
    'method_not_allowed',
    `${shorten(path)} does not accept ${method}. Use ${allow.join(', ')}.`,
    { details: { allow } },
  )
}

/** Paths are ASCII on the wire, but a `Request` may hold other characters. */
function shorten(path: string): string {
  return show(path).slice(1, -1)
}

/** Splits a request target into its path and its query, which keeps the question mark. */
export function splitTarget(target: string): readonly [path: string, query: string] {
  const mark = target.indexOf('?')
  return mark === -1 ? [target, ''] : [target.slice(0, mark), target.slice(mark)]
}

/** Removes the base path; undefined for a path outside of it. */
export function withoutBase(path: string, basePath: string): string | undefined {
  if (!path.startsWith(basePath)) return undefined
  const rest = path.slice(basePath.length)
  if (rest === '') return '/'
  return rest.startsWith('/') ? rest : undefined
}

export function notMounted(path: string, basePath: string): SignalboxError {
  return new SignalboxError(
    'not_found',
    `There is no route ${show(path)} here: all routes are below ${basePath}.`,
  )
}
