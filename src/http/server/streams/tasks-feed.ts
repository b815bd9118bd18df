import { SignalboxError } from '../../../core/errors.ts'
import type { Dispatch, TaskEvent } from '../../../dispatch/index.ts'
import type { Feed, FeedReader } from '../call.ts'

/** What happens to one task, for one reader: from the present state to the end, after which the stream ends too. */
export function createTasksFeed(dispatch: Pick<Dispatch, 'watch'>, taskId: string): Feed {
  return {
    open(_lastEventId, reader) {
      const controller = new AbortController()
      void tell(dispatch.watch(taskId, { signal: controller.signal }), reader, controller.signal)
      return () => controller.abort(new SignalboxError('closed', 'Its reader has gone.'))
    },
  }
}

/** Never rejects. */
async function tell(
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
