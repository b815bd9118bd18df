import { SignalboxError } from '../../../core/errors.ts'
import type { Feed, FeedEvent } from '../call.ts'

/** Why the signal of a feed aborts. Created once: an error for each of a thousand readers would cost as much as sending. */
export const readerGone: SignalboxError = new SignalboxError('closed', 'The reader of this stream has gone.')

/**
 * A feed whose events are generated for each reader: `follow` yields them, from where the reader was. The stream ends after the
 * last event, or with the error that `follow` throws. The signal aborts when the reader leaves; `reasonOf` says why.
 */
export function createReaderFeed(
  follow: (lastEventId: string | undefined, signal: AbortSignal) => AsyncIterable<FeedEvent>,
  reasonOf: () => SignalboxError = () => readerGone,
): Feed {
  return {
    open(lastEventId, reader) {
      const controller = new AbortController()
      const { signal } = controller
      const events = follow(lastEventId, signal)
      void (async () => {
        try {
          for await (const event of events) {
            if (signal.aborted) return
            reader.send(event)
          }
          if (!signal.aborted) reader.end?.()
        } catch (error) {
          if (!signal.aborted) reader.fail(error)
        }
      })()
      return () => controller.abort(reasonOf())
    },
  }
}
