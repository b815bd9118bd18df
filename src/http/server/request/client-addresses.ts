import { type IsInRanges, parseRanges, readAddress } from '../../../access/index.ts'
import type { Incoming } from '../call.ts'

/**
 * Finds the address of the client. Behind a proxy every connection has the proxy's address, and `X-Forwarded-For` names
 * the client; but any client can send that header. So the server reads it only if the peer is a trusted proxy:
 *
 *     X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2     peer 10.0.0.1
 *                      sent by   the client   ◀── trusted ◀── trusted
 *                      the client
 *
 * The server reads from the right, where the nearest proxy writes, up to the first address that is not a trusted proxy.
 */
export interface ClientAddresses {
  /** The client's address. An IPv4 address mapped into IPv6 becomes plain IPv4. '' if the address is unknown. */
  of(incoming: ForwardedRequest): string
  /** Whether this peer is a trusted proxy. */
  isProxy(peer: string): boolean
}

export type ForwardedRequest = Pick<Incoming, 'header'> & Partial<Pick<Incoming, 'address'>>

/** Without trusted proxies the server ignores the header. Throws `invalid_argument` for an invalid address or range. */
export function createClientAddresses(trustedProxies: readonly string[]): ClientAddresses {
  const isTrusted: IsInRanges = parseRanges('trustedProxies', trustedProxies)
  const isProxy = (address: string) => trustedProxies.length > 0 && address !== '' && isTrusted(address)
  return {
    of(incoming) {
      const peer = plainPeer(incoming.address ?? '')
      if (!isProxy(peer)) return peer
      const forwardedFor = incoming.header('x-forwarded-for')
      return forwardedFor === undefined ? peer : clientOf(peer, forwardedFor, isTrusted)
    },
    isProxy: (peer) => isProxy(plainPeer(peer)),
  }
}

/** A peer's address, without the zone of a link-local address. */
function plainPeer(address: string): string {
  if (!address.includes(':')) return address
  return readAddress(address.replace(/%.*$/s, '')) ?? ''
}

function clientOf(peer: string, forwardedFor: string, isTrusted: IsInRanges): string {
  let nearest = peer
  for (const hop of forwardedFor.split(',').reverse()) {
    const address = readHop(hop.trim())
    // An invalid entry hides everything left of it, so the proxy that wrote it counts as the client.
    if (address === undefined) return nearest
    nearest = address
    if (!isTrusted(address)) return nearest
  }
  return nearest
}

/** Reads an address as proxies write it: bare, in brackets, or with a port. */
function readHop(text: string): string | undefined {
  const [, inBrackets, ipv4] = /^(?:\[([0-9a-fA-F.:]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5})$/.exec(text) ?? []
  return readAddress(inBrackets ?? ipv4 ?? text)
}
