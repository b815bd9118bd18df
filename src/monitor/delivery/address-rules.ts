import { isIPv4 } from 'node:net'
import { embeddedIpv4, groupsOfIpv6, parseRanges, readAddress } from '../../access/index.ts'

/**
 * Decides which addresses messages may reach. A subscriber chooses the url, but must not reach the server's network
 * through the server. So only addresses of the public internet are allowed, and those that the operator names in
 * `allowPrivate`.
 *
 * An IPv4 address is judged the same in every disguise: mapped (::ffff:127.0.0.1) or through NAT64 (64:ff9b::7f00:1).
 */
export interface AddressRules {
  /** Whether messages may reach this address. */
  isAllowed(address: string): boolean
  /** Whether the operator named this address. Plain http is allowed only for named addresses. */
  isNamed(address: string): boolean
}

// All ranges that IANA does not list as globally reachable, and 168.63.129.16, which serves the secrets of a host
// inside Azure. 169.254.0.0/16 has the other metadata services.
const closedIpv4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]

// Only 2000::/3 is public. Within it, tunnels that carry an IPv4 address and ranges for documentation are closed.
const closedIpv6 = ['::/3', '4000::/2', '8000::/1', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const isClosed = parseRanges('address', [...closedIpv4, ...closedIpv6], unwrap)

/** Tells an operator how to allow a refused address. Messages never show the address itself. */
export const toAllowPrivate: string =
  'To allow it, start the server with --allow-private and the address, or pass allowPrivate to open()'

/** Creates the rules. `allowPrivate` has further addresses, or ranges such as '10.1.0.0/16'. */
export function parseAddressRules(allowPrivate: readonly string[]): AddressRules {
  const isNamed = parseRanges('allowPrivate', allowPrivate, unwrap)
  return {
    isAllowed: (address) => {
      const plain = unwrap(address)
      if (plain === undefined) return false
      return isNamed(plain) || !isClosed(plain)
    },
    isNamed: (address) => {
      const plain = unwrap(address)
      return plain !== undefined && isNamed(plain)
    },
  }
}

/** Returns the IPv4 address inside a mapped or NAT64 address, else the address itself. Undefined: not an address. */
function unwrap(address: string): string | undefined {
  const plain = readAddress(address)
  if (plain === undefined || isIPv4(plain)) return plain
  const groups = groupsOfIpv6(plain)
  const isNat64 =
    groups[0] === 0x64 && groups[1] === 0xff9b && groups.slice(2, 6).every((group) => group === 0)
  return isNat64 ? embeddedIpv4(groups) : plain
}
