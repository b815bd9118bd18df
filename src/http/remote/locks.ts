import { SignalboxError } from '../../core/errors.ts'
import { flag, whole } from '../../core/options.ts'
import {
  createFlight,
  holdLock,
  type LockCalls,
  type LockEvent,
  type Locks,
  Waits,
  type WatchOptions,
} from '../../locks/index.ts'
import type { Client } from '../client/index.ts'
import { objectOf } from './encode.ts'
import { iterateStream } from './iterate-stream.ts'

/**
 * The verbs of locks on a server elsewhere. A lock that is held or flown renews itself over the wire, and counts as
 * lost by this process's own clock, whatever becomes of the connection.
 */
export function createRemoteLocks(client: Client): Locks {
  const closing = new AbortController()
  const { locks: wire } = client
  const waits = new Waits()

  const locks: Locks = {
    ...wire,
    acquire: (options) => wire.acquire(options),
    watch: (options) => watch(client, options, closing.signal),
    singleFlight: (operation, resource, options) => createFlight(place, operation, resource, options),
    hold: (operation, resource, options) => holdLock(place, operation, resource, options),
    async [Symbol.asyncDispose]() {
      const left = waits.end()
      closing.abort()
      await left
    },
  }
  const place: LockCalls = { ...locks, acquire: wire.acquire, waits }
  return locks
}

/** The most events that may wait for who reads them. */
const maxWaiting = 1_000

async function* watch(
  client: Client,
  options: WatchOptions,
  closing: AbortSignal,
): AsyncGenerator<LockEvent> {
  const { signal, lastEventId, bind } = objectOf('watch', options)
  if (lastEventId !== undefined) whole('watch.lastEventId', lastEventId)
  if (bind !== undefined) flag('watch.bind', bind)
  yield* iterateStream<LockEvent>({
    signal: signal === undefined ? closing : AbortSignal.any([closing, signal]),
    read: (seen, until) =>
      client.locks.watch({ ...options, signal: until }, (event) => seen(event as unknown as LockEvent)),
    keep(waiting, event) {
      if (waiting.push(event) > maxWaiting) throw tooSlow()
    },
  })
}

function tooSlow(): SignalboxError {
  return new SignalboxError(
    'too_many',
    `${maxWaiting} events of a wait queue wait to be read. Read faster, or watch again from the last event seen.`,
  )
}
