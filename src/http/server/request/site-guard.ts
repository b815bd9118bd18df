import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import { mutates, type Route } from '../../contract/index.ts'
import type { Incoming } from '../call.ts'

/**
 * Refuses requests from web pages of other sites. A browser lets any page send requests to this server, and a page can
 * even point its own host name at this machine (DNS rebinding). But a page cannot forge Host, Origin or Sec-Fetch-Site.
 * It cannot send JSON to another site without a preflight request, which this server never allows. Programs other than
 * browsers send only Host of these headers, so the check does not affect them.
 *
 * Runs on every request before any look-up. A request that passes costs no allocation.
 */
export function checkSite(
  incoming: Pick<Incoming, 'method' | 'path' | 'header'>,
  /** Undefined for an unknown route. */
  route: Pick<Route, 'path' | 'method' | 'isRead'> | undefined,
  /** The allowed values of Host, in lower case; undefined when the app around the server checks Host. */
  hosts: ReadonlySet<string> | undefined,
): void {
  // `GET http://elsewhere/ HTTP/1.1` names a second host, which bypasses the header check.
  if (incoming.path.charCodeAt(0) !== slash)
    throw invalidArgument('The request target must be a path that begins with "/".')
  const host = incoming.header('host')
  // Adapters join several Host headers with a comma. No host name contains one.
  if (host?.includes(',')) throw invalidArgument('The request has more than one Host header. Send one.')
  if (hosts !== undefined) checkHost(host, hosts)
  const site = incoming.header('sec-fetch-site')
  if (site !== undefined) {
    if (site !== 'same-origin' && site !== 'none' && !isVisit(incoming, route)) throw foreignPage()
  } else {
    const origin = incoming.header('origin')
    if (origin !== undefined && !isOwnOrigin(origin, host, hosts)) throw foreignPage()
  }
  if (route && mutates(route)) checkBodyType(incoming)
}

const slash = 47

function checkHost(host: string | undefined, hosts: ReadonlySet<string>): void {
  if (!host) throw invalidArgument('The request has no Host header. Send one.')
  if (hosts.has(host) || hosts.has(host.toLowerCase())) return
  throw new SignalboxError(
    'forbidden',
    'The Host header does not name this server. Use a name of this server, or allow this one with --allowed-hosts.',
  )
}

/** Allows a link from another site to the dashboard: it changes nothing, and the other site cannot read the page. */
function isVisit(
  incoming: Pick<Incoming, 'method' | 'path' | 'header'>,
  route: Pick<Route, 'path' | 'method' | 'isRead'> | undefined,
): boolean {
  return (
    incoming.method === 'GET' &&
    incoming.header('sec-fetch-mode') === 'navigate' &&
    !(route ?? incoming).path.startsWith('/v1/') &&
    !(route && mutates(route))
  )
}

function isOwnOrigin(
  origin: string,
  host: string | undefined,
  hosts: ReadonlySet<string> | undefined,
): boolean {
  // Accepts https too, because a proxy in front of the server may terminate TLS.
  const begin = origin.startsWith('http://') ? 7 : origin.startsWith('https://') ? 8 : -1
  if (begin === -1) return false
  const name = origin.slice(begin)
  return hosts === undefined ? name === host?.toLowerCase() : hosts.has(name)
}

function foreignPage(): SignalboxError {
  return new SignalboxError(
    'forbidden',
    'The request comes from a page of another site. This server accepts requests only from its own pages.',
  )
}

/** A page may send forms and plain text to another site without a preflight request, but not JSON. */
function checkBodyType(incoming: Pick<Incoming, 'header'>): void {
  const type = incoming.header('content-type')
  if (type !== undefined && isJson(type)) return
  const length = incoming.header('content-length')
  if (length === '0') return
  // Without a type, a length or an encoding shows that the request has a body.
  if (type === undefined && length === undefined && incoming.header('transfer-encoding') === undefined) return
  throw new SignalboxError(
    'forbidden',
    'The body of this request must be sent with "Content-Type: application/json".',
  )
}

const jsonType = 'application/json'

function isJson(type: string): boolean {
  // The usual spellings, without parsing.
  if (type === jsonType || type === 'application/json; charset=utf-8') return true
  const semicolon = type.indexOf(';')
  if (semicolon === -1) return type.trim().toLowerCase() === jsonType
  if (type.slice(0, semicolon).trim().toLowerCase() !== jsonType) return false
  const parameter = type
    .slice(semicolon + 1)
    .trim()
    .toLowerCase()
  return parameter === 'charset=utf-8' || parameter === 'charset="utf-8"' || parameter === 'charset=utf8'
}
