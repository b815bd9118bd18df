/**
 * Typed events, for logs, metrics and tests. A listener cannot harm the emitter or other listeners: what it throws, and the
 * rejection of its promise, go to `onListenerError`. Without that hook the error is printed, not thrown again: that would end
 * the process, and a broken log line must not stop a worker.
 */

/** The events of something: on, once and emit, by name. */
export interface Events<Map extends object> extends EventSource<Map> {
  /** Calls every listener that was there when the call began, in their order. */
  emit<Name extends keyof Map>(name: Name, event: Map[Name]): void
}

/** The listening side of events, for handing out. */
export interface EventSource<Map extends object> {
  /** Listens until the returned function is called. A listener that was added twice is called twice. */
  on<Name extends keyof Map>(name: Name, listener: (event: Map[Name]) => unknown): () => void
  /** The next event of that name; rejects with the signal's reason when it aborts first. */
  once<Name extends keyof Map>(name: Name, options?: { readonly signal?: AbortSignal }): Promise<Map[Name]>
  /** How many listeners a name has. */
  listenerCount(name: keyof Map): number
}

/** The options of events. */
export interface EventsOptions {
  /** Gets what a listener threw. @default prints it with console.error */
  readonly onListenerError?: (error: unknown, name: PropertyKey) => void
}

interface Registration {
  readonly listener: (event: never) => unknown
  /** Rises with every `on`, so that an emit can skip listeners that came after it began. */
  readonly number: number
}

/** Creates events: names and payloads are the keys and values of `Map`. */
export function createEvents<Map extends object>(options: EventsOptions = {}): Events<Map> {
  return new EventHub<Map>(options.onListenerError ?? printListenerError)
}

class EventHub<Names extends object> implements Events<Names> {
  /** A name is here only while it has listeners; a set keeps their order and forgets one in constant time. */
  readonly #registrations = new Map<keyof Names, Set<Registration>>()
  readonly #onListenerError: (error: unknown, name: PropertyKey) => void
  #lastNumber = 0

  constructor(onListenerError: (error: unknown, name: PropertyKey) => void) {
    this.#onListenerError = onListenerError
  }

  on<Name extends keyof Names>(name: Name, listener: (event: Names[Name]) => unknown): () => void {
    const registration: Registration = { listener, number: ++this.#lastNumber }
    const all = this.#registrations.get(name)
    if (all) all.add(registration)
    else this.#registrations.set(name, new Set([registration]))
    return () => {
      const mine = this.#registrations.get(name)
      if (mine?.delete(registration) && mine.size === 0) this.#registrations.delete(name)
    }
  }

  once<Name extends keyof Names>(
    name: Name,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<Names[Name]> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const off = this.on(name, (event) => {
        leave()
        resolve(event)
      })
      const abort = () => {
        leave()
        reject(signal!.reason)
      }
      const leave = () => {
        off()
        signal?.removeEventListener('abort', abort)
      }
      signal?.addEventListener('abort', abort)
    })
  }

  emit<Name extends keyof Names>(name: Name, event: Names[Name]): void {
    const all = this.#registrations.get(name)
    if (!all) return
    const last = this.#lastNumber
    for (const { listener, number } of all) {
      // A set also visits listeners that are added meanwhile; they came after the event.
      if (number > last) break
      try {
        const result = (listener as (event: Names[Name]) => unknown)(event)
        if (result instanceof Promise) result.catch((error: unknown) => this.#report(error, name))
      } catch (error) {
        this.#report(error, name)
      }
    }
  }

  listenerCount(name: keyof Names): number {
    return this.#registrations.get(name)?.size ?? 0
  }

  #report(error: unknown, name: PropertyKey): void {
    try {
      this.#onListenerError(error, name)
    } catch (hookError) {
      printListenerError(hookError, name)
    }
  }
}

function printListenerError(error: unknown, name: PropertyKey): void {
  console.error(`A listener of the event "${String(name)}" failed:`, error)
}
