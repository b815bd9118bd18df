import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { SignalboxError } from '../core/errors.ts'

/**
 * Which addresses a message may be sent to. Whoever makes a subscription chooses a url, and the server must not become
 * their way into its own network: only addresses of the public internet are reached, and besides them those which the
 * operator names in `allowPrivate`.
 *
 * An IPv4 address is judged the same in every disguise: mapped (::ffff:127.0.0.1) or through NAT64 (64:ff9b::7f00:1).
 */
export interface AddressRules {
  /** Whether it may be reached at all. */
  isAllowed(address: string): boolean
  /** Whether the operator named it: only there is plain http allowed. */
  isNamed(address: string): boolean
}

// Everything that IANA does not list as globally reachable, and one address that is but should not be:
// 168.63.129.16 answers for the host's own secrets inside Azure. 169.254.0.0/16 holds the other metadata services.
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

// Only 2000::/3 is handed out to the public; within it, tunnels that carry an IPv4 address and what is for documents.
const closedIpv6 = ['::/3', '4000::/2', '8000::/1', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const isClosed = rangesOf([...closedIpv4, ...closedIpv6].map((text) => parseCidr('address', text)))

/** The rules with what the operator allows besides the public internet: addresses, or ranges such as '10.1.0.0/16'. */
export function parseAddressRules(allowPrivate: readonly string[]): AddressRules {
  if (!Array.isArray(allowPrivate)) {
    throw new SignalboxError('invalid_argument', 'allowPrivate must be a list of addresses or ranges.', {
      details: { option: 'allowPrivate' },
    })
  }
  const isNamed = rangesOf(allowPrivate.map((text, at) => parseCidr(`allowPrivate[${at}]`, text)))
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

interface Cidr {
  readonly address: string
  readonly prefix: number
}

function parseCidr(name: string, text: unknown): Cidr {
  const [, address = '', digits] =
    typeof text === 'string' ? (/^([0-9a-fA-F.:]{2,45})(?:\/(\d{1,3}))?$/.exec(text) ?? []) : []
  const bits = isIPv4(address) ? 32 : isIPv6(address) ? 128 : 0
  const prefix = digits === undefined ? bits : Number(digits)
  if (bits === 0 || prefix > bits) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be an address or a range such as '10.1.0.0/16' or 'fd00::/8'.`,
      { details: { option: name } },
    )
  }
  // Addresses are unwrapped before they are compared, so such a rule would never meet one.
  if (bits === 128 && unwrap(address) !== address) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} is an IPv4 address written as IPv6; write the IPv4 range itself.`,
      {
        details: { option: name },
      },
    )
  }
  return { address, prefix }
}

// One list for each family: in a list of both, Node holds IPv4 addresses against the IPv6 ranges as mapped ones.
function rangesOf(ranges: readonly Cidr[]): (address: string) => boolean {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const { address, prefix } of ranges) {
    const family = familyOf(address)
    lists[family].addSubnet(address, prefix, family)
  }
  return (address) => lists[familyOf(address)].check(address, familyOf(address))
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv4(address) ? 'ipv4' : 'ipv6'
}

/** The IPv4 address inside a mapped or a NAT64 one, else the address itself; undefined: not an address. */
function unwrap(address: string): string | undefined {
  if (isIPv4(address)) return address
  // A zone (fe80::1%eth0) is for link-local addresses alone.
  if (!isIPv6(address) || address.includes('%')) return undefined
  const groups = expand(address)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  const isNat64 =
    groups[0] === 0x64 && groups[1] === 0xff9b && groups.slice(2, 6).every((group) => group === 0)
  if (!isMapped && !isNat64) return address
  const [high = 0, low = 0] = groups.slice(6)
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}

function expand(address: string): readonly number[] {
  const [head = '', tail] = address.split('::')
  const before = groupsOf(head)
  const after = tail === undefined ? [] : groupsOf(tail)
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

function groupsOf(text: string): number[] {
  if (text === '') return []
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)]
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
    return [a * 256 + b, c * 256 + d]
  })
}
