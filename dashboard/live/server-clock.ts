import type { ClientOptions } from '../../src/http/client/index.ts'

/**
 * The server's current time. All times on the page come from the server, and a browser's clock may be wrong by hours: a
 * job that has just ended must not show "in 3 hours".
 */
let aheadMs = 0

/** The answers tell it to the second only, so a clock that is about right is left alone. */
const toleratedMs = 3_000

export function serverNow(): number {
  return Date.now() + aheadMs
}

/** Learns from every answer; a proxy may leave the date out. */
export const timedFetch: NonNullable<ClientOptions['fetch']> = async (url, init) => {
  const response = await fetch(url, init)
  const toldMs = Date.parse(response.headers.get('date') ?? '') + 500
  if (Math.abs(toldMs - serverNow()) > toleratedMs) aheadMs = toldMs - Date.now()
  return response
}
