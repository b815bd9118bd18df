import { includesScope } from '../../../access/index.ts'
import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import type * as wire from '../../contract/index.ts'
import type { Call, SomeHandlers } from '../call.ts'
import { createLocksFeed, readEventId } from '../streams/watch-feeds.ts'

/** The HTTP status of each answer. A busy lock is an expected answer, so it is not a problem document. */
const statuses = { granted: 200, completed: 200, failed: 200, queued: 202, refused: 409 } as const

export const lockHandlers: SomeHandlers = {
  async acquireLock({ body, space }) {
    const answer = await space.locks.acquire(body)
    return { status: statuses[answer.status], body: answer }
  },

  releaseLock: async ({ body, space }) => ({ body: await space.locks.release(body) }),
  renewLock: async ({ body, space }) => ({ body: await space.locks.renew(body) }),
  leaveLock: async ({ body, space }) => ({ body: await space.locks.leave(body) }),
  evictLock: async ({ body, space }) => ({ body: await space.locks.evict(body) }),
  listLocks: async ({ query, space }) => ({ body: await space.locks.list(query) }),
  lockState: async ({ query, space }) => ({ body: await space.locks.inspect(query) }),

  async lockEvents(call) {
    const { query, space, lastEventId } = call
    checkRequester(call)
    // Checks before the head is written, while an error response is still possible.
    readEventId(lastEventId)
    const isDraining = () => space.isEndingWaits
    return { feed: space.feed(({ locks }) => createLocksFeed(locks, query, isDraining)) }
  },
}

/** A client that watches as a node keeps its position and gets its fencing token. So it needs the scope `work`. */
function checkRequester({
  query,
  principal,
}: Pick<Call, 'principal'> & { query: wire.LockEventsQuery }): void {
  const { node, requestId, bind } = query
  if (node === undefined) {
    if (requestId === undefined && bind === undefined) return
    throw invalidArgument('The query has requestId or bind without node: name the node too.')
  }
  if (includesScope(principal.scope, 'work')) return
  throw new SignalboxError(
    'forbidden',
    `To watch as a node, a token needs the scope "work"; this one has "${principal.scope}". Leave node out to only watch.`,
    { details: { scope: 'work' } },
  )
}

/** Handlers of guards. A body holds the arguments and options of the method. */
export const onceHandlers: SomeHandlers = {
  async claimOnce({ body, space }) {
    const { key, keys, ...options } = body
    if (key !== undefined && keys === undefined) return { body: await space.once.claim(key, options) }
    if (key === undefined && keys !== undefined) {
      const { fingerprint, ...ofMany } = options
      if (fingerprint === undefined) return { body: { items: await space.once.claimMany(keys, ofMany) } }
      throw invalidArgument('A fingerprint is of one key; leave it out with keys.')
    }
    throw invalidArgument('The body must have either key, or keys for several keys.')
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
