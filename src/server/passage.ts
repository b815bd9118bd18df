import { createJobs, type Jobs } from '../jobs/index.ts'
import type { Route } from '../wire/index.ts'
import type { Call, Incoming, Principal, Space } from './call.ts'
import { keepMs } from './requestkey.ts'
import type { Spaces } from './spaces.ts'

/** Whoever has not said who they are. */
const nobody: Principal = { id: 'nobody', scope: 'read', namespace: 'default', everyNamespace: false }

/**
 * One request on its way. What it needs of its namespace is made when it is asked for, so that a health probe enters no
 * space and a request without a key no service of its own.
 */
export class Passage implements Call {
  readonly route: Route
  readonly params: unknown
  readonly incoming: Incoming
  readonly begunAt: number
  readonly #spaces: Spaces
  query: unknown
  body: unknown
  principal: Principal = nobody
  /** The Idempotency-Key and what it is bound to. */
  key: { readonly key: string; readonly fingerprint: string } | undefined
  #space: Space | undefined
  #keyed: Jobs | undefined

  constructor(spaces: Spaces, route: Route, params: unknown, incoming: Incoming, begunAt: number) {
    this.#spaces = spaces
    this.route = route
    this.params = params
    this.incoming = incoming
    this.begunAt = begunAt
  }

  /** Who asks, once that is known. */
  get principalId(): string | undefined {
    return this.principal === nobody ? undefined : this.principal.id
  }

  get signal(): AbortSignal {
    return this.incoming.signal
  }

  get isGone(): boolean {
    return this.incoming.isGone
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

  /** It is over: lets go of the space. */
  leave(): void {
    if (this.#space !== undefined) this.#spaces.leave(this.#space)
    this.#space = undefined
  }

  #makeKeyed(key: { readonly key: string; readonly fingerprint: string }): Jobs {
    const { stores, jobs, redactor } = this.space
    const { notes, schedules, bell } = stores
    const { gates } = this.space
    const { jobs: store } = stores.keyed({ caller: this.principal.id, keepMs, ...key })
    return createJobs({
      ...{ store: redactor.store(store), notes, schedules, gates, bell, beside: jobs },
      passesSealed: true,
    })
  }
}
