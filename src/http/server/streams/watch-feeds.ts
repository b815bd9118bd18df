import { SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import type { Dispatch, TaskEvent } from '../../../dispatch/index.ts'
import type { LockEvent, Locks, WatchOptions } from '../../../locks/index.ts'
import type { Feed, FeedReader } from '../call.ts'

/**
 * What happens in a line, for one reader: the events of `locks.watch`, each with its id. A reader that waits in the
 * line keeps its place by reading. The stream ends after the last event there can be; one whose server goes away is
 * told when to come again, and its lease is left as it was.
 */
export function createLocksFeed(
  locks: Pick<Locks, 'watch'>,
  options: Omit<WatchOptions, 'signal' | 'lastEventId'>,
  isDraining: () => boolean,
): Feed {
  return {
    open(lastEventId, reader) {
      const controller = new AbortController()
      const { signal } = controller
      void sendLockEvents(
        locks.watch({ ...options, lastEventId: readEventId(lastEventId), signal }),
        reader,
        signal,
      )
      return () => {
        if (isDraining()) controller.abort(new SignalboxError('draining', 'This server is shutting down.'))
        else controller.abort(gone)
      }
    },
  }
}

/** Made once: a reason of its own for each of a thousand readers who are told the end would cost as much as to tell them. */
const gone = new SignalboxError('closed', 'Nobody reads this stream any more.')

/** Never rejects. */
async function sendLockEvents(
  events: AsyncIterable<LockEvent>,
  reader: FeedReader,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const { id, type, ...data } of events) reader.send({ id, type, data })
    if (!signal.aborted) reader.end?.()
  } catch (error) {
    reader.fail(error)
  }
}

/** The number in a Last-Event-ID; 0 when there is none. */
export function readEventId(lastEventId: string | undefined): number {
  if (lastEventId === undefined) return 0
  if (/^\d{1,16}$/.test(lastEventId) && Number(lastEventId) <= Number.MAX_SAFE_INTEGER)
    return Number(lastEventId)
  throw new SignalboxError(
    'invalid_argument',
    `The header Last-Event-ID must be the id of an event of this stream, a whole number, not ${show(lastEventId)}.`,
  )
}

/** What happens to one task, for one reader: from the present state to the end, after which the stream ends too. */
export function createTasksFeed(dispatch: Pick<Dispatch, 'watch'>, taskId: string): Feed {
  return {
    open(_lastEventId, reader) {
      const controller = new AbortController()
      void sendTaskEvents(dispatch.watch(taskId, { signal: controller.signal }), reader, controller.signal)
      return () => controller.abort(new SignalboxError('closed', 'Its reader has gone.'))
    },
  }
}

/** Never rejects. */
async function sendTaskEvents(
  events: AsyncIterable<TaskEvent>,
  reader: FeedReader,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const { status, ...data } of events) reader.send({ type: status, data })
    if (!signal.aborted) reader.end?.()
  } catch (error) {
    if (!signal.aborted) reader.fail(error)
  }
}
