import { createNotifier } from '../../core/notifier.ts'

export interface StreamIteration<Event> {
  /** Ends the iteration. */
  readonly signal: AbortSignal | undefined
  /** Reads the stream until it is over or the signal aborts. */
  read(seen: (event: Event) => void, signal: AbortSignal): Promise<void>
  /** Keeps an event for the reader; what it throws ends the stream. */
  keep(waiting: Event[], event: Event): void
}

/** The events that a stream of the client pushes, one by one. When the iteration ends, so does the stream. */
export async function* iterateStream<Event>({
  signal,
  read,
  keep,
}: StreamIteration<Event>): AsyncGenerator<Event, void, undefined> {
  const over = new AbortController()
  const until = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
  const notifier = createNotifier()
  const waiting: Event[] = []
  let end: { readonly error?: unknown } | undefined
  const seen = (event: Event) => {
    keep(waiting, event)
    notifier.wake()
  }
  const ended = (how: { readonly error?: unknown }) => {
    end = how
    notifier.wake()
  }
  const reading = read(seen, until).then(
    () => ended({}),
    (error: unknown) => ended({ error }),
  )
  try {
    while (!until.aborted) {
      const event = waiting.shift()
      if (event !== undefined) yield event
      else if (end === undefined) await notifier.wait({ signal: until }).catch(() => undefined)
      else if ('error' in end) throw end.error
      else return
    }
  } finally {
    over.abort()
    await reading
  }
}
