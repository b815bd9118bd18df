import { hashOf, multiplier } from '../../src/work-queue/indexed/name-table.ts'

/** Of so many names some thirty pairs have the same hash, whatever the multiplier is. */
const nameCount = 500_000
let found: string[] | undefined

/** Names that share the hash of this process with another one, each beside its twin. */
export function twins(): readonly string[] {
  found ??= findTwins()
  return found
}

function findTwins(): string[] {
  // Names that count up would be spread too well by some multipliers to meet at all.
  const mixed = (id: number, by: number): string => (Math.imul(id, by) >>> 0).toString(36)
  const nameOf = (id: number): string => `${mixed(id, 0x9e37_79b1)}-${mixed(id, 0x85eb_ca6b)}`
  // Hash and id in one number, so that sorting puts twins side by side.
  const ranked = Float64Array.from(
    { length: nameCount },
    (_, id) => hashOf(nameOf(id), multiplier) * 2 ** 20 + id,
  )
  ranked.sort()
  const pairs: string[] = []
  for (let at = 1; at < nameCount; at++) {
    const [one, other] = [ranked[at - 1]!, ranked[at]!]
    if (Math.floor(one / 2 ** 20) !== Math.floor(other / 2 ** 20)) continue
    pairs.push(nameOf(one % 2 ** 20), nameOf(other % 2 ** 20))
    // A third one of the same hash would be nobody's twin.
    at++
  }
  return pairs
}
