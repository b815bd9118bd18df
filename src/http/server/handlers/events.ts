import { SignalboxError } from '../../../core/errors.ts'
import { show, text } from '../../../core/options.ts'
import type { events, jobEvents } from '../../contract/index.ts'
import type { Handler } from '../call.ts'

/** The routes that answer with a stream, by their ids. */
export interface EventHandlers {
  readonly events: Handler<typeof events>
  readonly jobEvents: Handler<typeof jobEvents>
}

export const eventHandlers: EventHandlers = {
  events: async ({ space }) => ({ feed: space.queuesFeed }),
  jobEvents: async ({ query, space }) => ({ feed: space.hintsFeed(decodeQueues(query?.queues)) }),
}

/** As many as one claim may ask for. */
const maxQueues = 100

/** The names in `a,b%2Cc`; without any, the queue that a claim without any asks for. */
function decodeQueues(list: string | undefined): readonly string[] {
  if (list === undefined) return ['default']
  const names = list.split(',')
  if (names.length > maxQueues) {
    throw new SignalboxError('invalid_argument', `queues must name up to ${maxQueues}, not ${names.length}.`)
  }
  return [...new Set(names.map((name, nth) => text(`queues[${nth}]`, decodeName(name))))]
}

function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw new SignalboxError(
      'invalid_argument',
      `queues has a name that is not percent-encoded as it must be: ${show(encoded)}.`,
    )
  }
}
