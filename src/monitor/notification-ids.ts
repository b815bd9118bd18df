import { createIds, decodeIdTime } from '../core/ids.ts'

/**
 * Ids of decisions and notifications. Their order is the order in which a subject's messages are sent, so they go by the
 * store's clock, which all processes share, and come after the last id that is known of the subject: two changes within
 * one millisecond, or on two machines whose clocks differ, are notified in the order in which they were written.
 */
export type Mint = (now: number, last: string) => string

/** Each id it makes is greater than `last` and than all it made before. */
export function createMint(): Mint {
  let time = 0
  const create = createIds({ now: () => time })
  return (now, last) => {
    time = now
    const id = create()
    if (id > last) return id
    time = decodeIdTime(last) + 1
    return create()
  }
}
