import type { SignalboxError } from '../../../core/errors.ts'
import { createJobs, type Jobs } from '../../../jobs/index.ts'
import type { Route } from '../../contract/index.ts'
import type { Authenticator, Call, Incoming, Principal } from '../call.ts'
import type { Space, Spaces } from '../namespace-services.ts'
import { keepMs } from './idempotent-response.ts'

/** The principal of a request that is not authenticated yet. */
const anonymous: Principal = { id: 'anonymous', scope: 'read', namespace: 'default', everyNamespace: false }

/**
 * The state of one request. It enters its namespace on first use, so a health probe enters none, and it creates a job
 * service only for an Idempotency-Key.
 */
export class RequestContext implements Call {
  readonly route: Route
  readonly params: unknown
  readonly incoming: Incoming
  readonly begunAt: number
  readonly #spaces: Spaces
  query: unknown
  body: unknown
  principal: Principal = anonymous
  /** The Idempotency-Key, and the hash of the request to which it is bound. */
  key: { readonly key: string; readonly fingerprint: string } | undefined
  #space: Space | undefined
  #keyed: Jobs | undefined
  #unwatch: (() => void) | undefined
  #tokenEnd: SignalboxError | undefined
  #over: AbortController | undefined
  #fail: ((reason: SignalboxError) => void) | undefined

  constructor(spaces: Spaces, route: Route, params: unknown, incoming: Incoming, begunAt: number) {
    this.#spaces = spaces
    this.route = route
    this.params = params
    this.incoming = incoming
    this.begunAt = begunAt
  }

  /** The id of the caller; undefined before authentication. */
  get principalId(): string | undefined {
    return this.principal === anonymous ? undefined : this.principal.id
  }

  /** Aborts when the client leaves, or when the token ends during a wait. */
  get signal(): AbortSignal {
    const { signal } = this.incoming
    if (this.#unwatch === undefined && this.#tokenEnd === undefined) return signal
    if (this.#over === undefined) {
      const over = new AbortController()
      this.#over = over
      if (this.hasLostToken) over.abort(this.#tokenEnd)
      else if (signal.aborted) over.abort(signal.reason)
      else signal.addEventListener('abort', () => over.abort(signal.reason), { once: true })
    }
    return this.#over.signal
  }

  get isGone(): boolean {
    return this.hasLostToken || this.incoming.isGone
  }

  get hasLostToken(): boolean {
    return this.#tokenEnd !== undefined
  }

  get lastEventId(): string | undefined {
    return this.incoming.header('last-event-id')
  }

  get space(): Space {
    this.#space ??= this.#spaces.enter(this.principal.namespace)
    return this.#space
  }

  get jobs(): Jobs {
    if (this.key === undefined) return this.space.jobs
    this.#keyed ??= this.#makeKeyed(this.key)
    return this.#keyed
  }

  /** Ends the request when its token ends. Start every wait after this call, and await it by `whileTokenLasts`. */
  watchToken(authenticator: Pick<Authenticator, 'watch'>): void {
    this.#unwatch ??= authenticator.watch(this.principal, (reason) => {
      this.#tokenEnd = reason
      this.#over?.abort(reason)
      this.#fail?.(reason)
    })
  }

  /** The waits are over: the request runs to its end, even if the token ends now. */
  unwatchToken(): void {
    this.#unwatch?.()
    this.#unwatch = undefined
  }

  /** Resolves with the wait, or rejects when the token ends first. This does not stop the work behind the wait. */
  whileTokenLasts<Value>(wait: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#fail = reject
      wait.then(resolve, reject)
    })
  }

  /** Leaves the namespace after the request. */
  leave(): void {
    this.unwatchToken()
    if (this.#space !== undefined) this.#spaces.leave(this.#space)
    this.#space = undefined
  }

  #makeKeyed(key: { readonly key: string; readonly fingerprint: string }): Jobs {
    const { stores, jobs, redactor, activity } = this.space
    const { logs, schedules, notifier } = stores
    const { dependencies } = this.space
    const { jobs: store } = stores.keyed({ caller: this.principal.id, keepMs, ...key })
    return createJobs({
      ...{ store: redactor.store(store), logs, schedules, dependencies, notifier, beside: jobs },
      ...(activity && { activity }),
      passesSealed: true,
    })
  }
}
