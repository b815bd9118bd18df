import { EventParser, type ParsedEvent } from '../../../src/http/contract/sse.ts'
import { within } from '../../support/deadline.ts'

/** A stream of events as a client reads it. */
export interface EventReader extends AsyncDisposable {
  readonly response: Response
  /** All that has come. */
  readonly events: readonly ParsedEvent[]
  readonly parser: EventParser
  /** The next event that has not been asked for yet. */
  next(withinMs?: number): Promise<ParsedEvent>
  /** Reads until the server ends it. */
  toEnd(withinMs?: number): Promise<readonly ParsedEvent[]>
}

export async function readEvents(url: string, headers: Record<string, string> = {}): Promise<EventReader> {
  const gone = new AbortController()
  const response = await fetch(url, { headers, signal: gone.signal })
  const body = response.body!.getReader()
  const events: ParsedEvent[] = []
  const parser = new EventParser((event) => events.push(event))
  let asked = 0

  /** False at the end. */
  async function readMore(): Promise<boolean> {
    const { done, value } = await body.read()
    if (value) parser.push(value)
    return !done
  }
  async function readNext(): Promise<ParsedEvent> {
    while (events.length <= asked) if (!(await readMore())) throw new Error('the stream has ended')
    return events[asked++]!
  }
  async function readToEnd(): Promise<readonly ParsedEvent[]> {
    while (await readMore());
    return events
  }
  return {
    response,
    events,
    parser,
    next: (ms = 10_000) => within(ms, 'the next event', readNext()),
    toEnd: (ms = 10_000) => within(ms, 'the end of the stream', readToEnd()),
    async [Symbol.asyncDispose]() {
      gone.abort()
      await body.cancel().catch(() => undefined)
    },
  }
}

export function dataOf({ data }: ParsedEvent): unknown {
  return JSON.parse(data)
}
