import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import { mutates, type Route } from '../../contract/index.ts'
import type { Incoming } from '../call.ts'

/**
 * Keeps other people's web pages away. A browser lets any page send requests to this server, and a page can even
 * point its own name at this machine (DNS rebinding). What a page cannot do is forge Host, Origin or Sec-Fetch-Site,
 * or send JSON elsewhere without being asked to prove its leave, which is never given. Programs that are no browsers
 * send none of these headers but Host, and are not in the way of this.
 *
 * Runs before anything is looked up, on every request; what passes costs no allocation.
 */
export function checkSite(
  incoming: Pick<Incoming, 'method' | 'path' | 'header'>,
  /** Undefined: there is no such route. */
  route: Pick<Route, 'path' | 'method' | 'isRead'> | undefined,
  /** The values of Host that are ours, in lower case; undefined when the app around us looks after that. */
  hosts: ReadonlySet<string> | undefined,
): void {
  // `GET http://elsewhere/ HTTP/1.1` names a second host, which bypasses the header check.
  if (incoming.path.charCodeAt(0) !== slash)
    throw invalidArgument('The request target must be a path that begins with "/".')
  const host = incoming.header('host')
  // Adapters join several of them. No name of a host has a comma.
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

/** A link from another site to a page of the dashboard: it changes nothing, and the other site reads nothing. */
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
  // https, for a proxy in front may speak it for us.
  const begin = origin.startsWith('http://') ? 7 : origin.startsWith('https://') ? 8 : -1
  if (begin === -1) return false
  const name = origin.slice(begin)
  return hosts === undefined ? name === host?.toLowerCase() : hosts.has(name)
}

function foreignPage(): SignalboxError {
  return new SignalboxError(
    'forbidden',
    'The request comes from a page of another site, which may not speak to this server.',
  )
}

/** A page may send forms and plain text elsewhere without asking, but not JSON. */
function checkBodyType(incoming: Pick<Incoming, 'header'>): void {
  const type = incoming.header('content-type')
  if (type !== undefined && isJson(type)) return
  const length = incoming.header('content-length')
  if (length === '0') return
  // Without a type, only a length or an encoding says that there is a body.
  if (type === undefined && length === undefined && incoming.header('transfer-encoding') === undefined) return
  throw new SignalboxError(
    'forbidden',
    'The body of this request must be sent with "Content-Type: application/json".',
  )
}

const jsonType = 'application/json'

function isJson(type: string): boolean {
  // As nearly everybody writes it.
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
