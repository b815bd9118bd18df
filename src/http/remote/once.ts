import { SignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import { show } from '../../core/options.ts'
import { eventId, type Once, runOnce, runProcessing } from '../../once/index.ts'
import type { Client } from '../client/index.ts'
import { objectOf, withoutUndefined } from './encode.ts'

/** What a box on a server has of `once`: all of it except events, and counts that are the server's. */
export interface RemoteOnce extends Omit<Once, 'stats' | 'events'> {
  /** What the server counted since it started. */
  stats(): Promise<ReturnType<Once['stats']>>
}

/**
 * The verbs of guards on a server elsewhere. Its declared policy speaks when its store is down; when the server itself
 * cannot be reached, a call throws.
 */
export function createRemoteOnce(client: Client): RemoteOnce {
  const { once: wire } = client
  // A result whose `done` was not heard is not given on as if it were kept.
  const parts = { whenDown: 'closed' } as const

  const once: RemoteOnce = {
    claim: async (key, options = {}) => wire.claim({ key, ...sendable('claim', options) }),
    async claimMany(keys, options = {}) {
      if (!Array.isArray(keys)) {
        throw new SignalboxError('invalid_argument', `claimMany takes a list of keys, not ${show(keys)}.`)
      }
      return wire.claimMany({ keys, ...sendable('claimMany', options) })
    },
    async done(key, token, result, options = {}) {
      // What JSON would bend on its way is refused here, as it would be there.
      encodeJson('result', result)
      return wire.done({ key, token, ...withoutUndefined({ result }), ...sendable('done', options) })
    },
    fail: async (key, token, options = {}) => wire.fail({ key, token, ...sendable('fail', options) }),
    renew: async (key, token, leaseMs, options = {}) =>
      wire.renew({ key, token, ...withoutUndefined({ leaseMs }), ...sendable('renew', options) }),
    forget: async (key, options = {}) => wire.forget({ key, ...withoutUndefined(options) }),
    run: (key, fn, options = {}) => runOnce(once, key, fn, options, parts),
    processing: (taskId, fn, options = {}) => runProcessing(once, taskId, fn, options, parts),
    async seen(sighting, options = {}) {
      const { state = null, ...rest } = withoutUndefined(sighting)
      encodeJson('seen.state', state)
      encodeJson('seen.from', rest.from)
      return wire.seen({ ...rest, state, ...sendable('seen', options) })
    },
    eventId,
    stats: () => wire.stats(),
    async list(given = {}) {
      const { cursor, ...options } = objectOf('list', given)
      return wire.list(withoutUndefined({ ...options, ...(cursor === null ? {} : { cursor }) }))
    },
    async [Symbol.asyncDispose]() {
      // Nothing is kept here.
    },
  }
  return once
}

/** The options without a transaction, which cannot be sent to a server. */
function sendable<Options extends { readonly tx?: unknown }>(call: string, given: Options) {
  const { tx, ...options } = objectOf(`${call}.options`, given)
  if (tx === undefined) return withoutUndefined(options)
  throw new SignalboxError(
    'transaction_unsupported',
    `once.${call} got a tx, and a transaction cannot be sent to a server. Open the database itself.`,
  )
}
