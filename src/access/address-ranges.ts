import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { invalidArgument, type SignalboxError } from '../core/errors.ts'
import { show } from '../core/options.ts'

/** Whether an address is in a set of ranges. The address must be in the plain form of `readAddress`. */
export type IsInRanges = (address: string) => boolean

/** Returns an address in its plain form: an IPv4 address that is mapped into IPv6 (::ffff:10.0.0.1) as IPv4. Undefined: no address. */
export function readAddress(text: string): string | undefined {
  if (isIPv4(text)) return text
  // Only link-local addresses have a zone (fe80::1%eth0).
  if (!isIPv6(text) || text.includes('%')) return undefined
  const groups = groupsOfIpv6(text)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  return isMapped ? embeddedIpv4(groups) : text
}

/**
 * Parses a list of addresses and CIDRs. Throws `invalid_argument` for other text, and for an IPv6 range whose addresses
 * `read` converts into IPv4, because no address would match it.
 */
export function parseRanges(
  name: string,
  texts: readonly unknown[],
  read: typeof readAddress = readAddress,
): IsInRanges {
  if (!Array.isArray(texts)) throw refused(name, `must be a list of addresses or ranges, not ${show(texts)}.`)
  // One list for each family, because in a mixed list Node also compares IPv4 addresses with the IPv6 ranges.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const [at, text] of texts.entries()) {
    const { address, prefix } = parseCidr(texts.length > 1 ? `${name}[${at}]` : name, text, read)
    lists[familyOf(address)].addSubnet(address, prefix, familyOf(address))
  }
  return (address) => lists[familyOf(address)].check(address, familyOf(address))
}

/** The eight groups of an IPv6 address. */
export function groupsOfIpv6(address: string): readonly number[] {
  const [head = '', tail] = address.split('::')
  const before = readGroups(head)
  const after = tail === undefined ? [] : readGroups(tail)
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

/** The IPv4 address in the last two groups. */
export function embeddedIpv4(groups: readonly number[]): string {
  const [high = 0, low = 0] = groups.slice(6)
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}

interface Cidr {
  readonly address: string
  readonly prefix: number
}

function parseCidr(name: string, text: unknown, read: typeof readAddress): Cidr {
  const [, address = '', digits] =
    typeof text === 'string' ? (/^([0-9a-fA-F.:]{2,45})(?:\/(\d{1,3}))?$/.exec(text) ?? []) : []
  const bits = isIPv4(address) ? 32 : isIPv6(address) ? 128 : 0
  const prefix = digits === undefined ? bits : Number(digits)
  if (bits === 0 || prefix > bits)
    throw refused(
      name,
      `must be an address or a range such as "10.1.0.0/16" or "fd00::/8", not ${show(text)}.`,
    )
  if (bits === 128 && read(address) !== address)
    throw refused(name, 'is an IPv4 address written as IPv6; write the IPv4 range itself.')
  return { address, prefix }
}

function refused(name: string, what: string): SignalboxError {
  return invalidArgument(`${name} ${what}`, name)
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv4(address) ? 'ipv4' : 'ipv6'
}

function readGroups(text: string): number[] {
  if (text === '') return []
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)]
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number)
    return [a * 256 + b, c * 256 + d]
  })
}
