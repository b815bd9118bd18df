import { invalidArgument } from '../../../core/errors.ts'
import type { SomeHandlers } from '../call.ts'

/** The routes of guards. A body is the arguments and options of the verb itself. */
export const onceHandlers: SomeHandlers = {
  async claimOnce({ body, space }) {
    const { key, keys, ...options } = body
    if (key !== undefined && keys === undefined) return { body: await space.once.claim(key, options) }
    if (key === undefined && keys !== undefined) {
      const { fingerprint, ...ofMany } = options
      if (fingerprint === undefined) return { body: { items: await space.once.claimMany(keys, ofMany) } }
      throw invalidArgument('A fingerprint is of one key; leave it out with keys.')
    }
    throw invalidArgument('The body must have either key, or keys for many of them.')
  },

  async doneOnce({ body: { key, token, result, ...options }, space }) {
    return { body: await space.once.done(key, token, result, options) }
  },
  async failOnce({ body: { key, token, ...options }, space }) {
    return { body: await space.once.fail(key, token, options) }
  },
  async renewOnce({ body: { key, token, leaseMs, ...options }, space }) {
    return { body: await space.once.renew(key, token, leaseMs, options) }
  },
  async forgetOnce({ body: { key, ...options }, space }) {
    return { body: { forgotten: await space.once.forget(key, options) } }
  },
  async seenOnce({ body: { windowMs, by, ...sighting }, space }) {
    return { body: await space.once.seen(sighting, { windowMs, by }) }
  },
  onceStats: async ({ space }) => ({ body: space.once.stats() }),
  listGuards: async ({ query, space }) => ({ body: await space.once.list(query) }),
}
