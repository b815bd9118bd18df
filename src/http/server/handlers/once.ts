import { SignalboxError } from '../../../core/errors.ts'
import type * as wire from '../../contract/index.ts'
import type { Handler } from '../call.ts'

/** The routes of guards, by their ids. A body is the arguments and options of the verb itself. */
export interface OnceHandlers {
  readonly claimOnce: Handler<typeof wire.claimOnce>
  readonly doneOnce: Handler<typeof wire.doneOnce>
  readonly failOnce: Handler<typeof wire.failOnce>
  readonly renewOnce: Handler<typeof wire.renewOnce>
  readonly forgetOnce: Handler<typeof wire.forgetOnce>
  readonly seenOnce: Handler<typeof wire.seenOnce>
  readonly onceStats: Handler<typeof wire.onceStats>
  readonly listGuards: Handler<typeof wire.listGuards>
}

export const onceHandlers: OnceHandlers = {
  async claimOnce({ body, space }) {
    const { key, keys, ...options } = body
    if (key !== undefined && keys === undefined) return { body: await space.once.claim(key, options) }
    if (key === undefined && keys !== undefined) {
      const { fingerprint, ...ofMany } = options
      if (fingerprint === undefined) return { body: { items: await space.once.claimMany(keys, ofMany) } }
      throw new SignalboxError('invalid_argument', 'A fingerprint is of one key; leave it out with keys.')
    }
    throw new SignalboxError('invalid_argument', 'The body must have either key, or keys for many of them.')
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
