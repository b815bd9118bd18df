/**
 * The work queue as its contract describes it, in arrays and linear scans: slow, and obviously right. Each operation
 * returns the answer that the queue must give; `outcomes` has the outcome of every promise.
 *
 *     waiting --due--> store --get--> in flight --done--> (gone, or again to the store when dirty)
 */

/** An item of the walk: `id` is its identity, `version` its payload, `group` its tenant. */
export interface Thing {
  readonly id: string
  readonly group: string
  readonly version: number
}

/** Which queue is modelled. */
export interface ModelOptions {
  readonly store: 'fifo' | 'fair'
  readonly coalesce: boolean
  readonly timings: boolean
  readonly baseDelay: number
  readonly maxDelay: number
}

/** What became of a promise. */
export type Outcome =
  | 'open'
  | 'resolved'
  | 'rejected'
  | 'shutdown'
  | { readonly thing: Thing; readonly priority: number }

interface Pending {
  thing: Thing
  priority: number
  /** Its position: lower comes first within a level. */
  place: number
  /** When the add that made it pending was made. */
  since: number
}
interface Turn {
  readonly number: number
  readonly thing: Thing
  readonly since: number
}
interface Delayed {
  thing: Thing
  priority: number
  dueAt: number
  place: number
}
interface SizeWait {
  readonly promise: number
  readonly limit: number
}

/** The naive queue; compare it with the real one after each step. */
export class Model {
  readonly #options: ModelOptions
  now = 0
  shuttingDown = false
  adds = 0
  retries = 0
  depthMoves: number[] = []
  latencies: number[] = []
  durations: number[] = []
  /** Every call that the store must have received. */
  tape: string[] = []
  readonly outcomes: Outcome[] = []
  /** The turn that each given promise or tryGet began. */
  readonly turns: { number: number; thing: Thing }[] = []

  #store: Pending[] = []
  #dirty: Pending[] = []
  #inFlight: Turn[] = []
  #waiting: Delayed[] = []
  #getters: number[] = []
  #drains: number[] = []
  #idles: number[] = []
  #sizes: SizeWait[] = []
  /** Fair stores: whose turn it is, per level. */
  #turnsOfGroups = new Map<number, string[]>()
  readonly #failures = new Map<string, number>()
  #places = 0

  constructor(options: ModelOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#store.length
  }
  get processing(): number {
    return this.#inFlight.length
  }
  get waiting(): number {
    return this.#waiting.length
  }
  get depth(): number {
    return this.#store.length + this.#dirty.length
  }

  stats(name: string): Record<string, unknown> {
    const ages = this.#inFlight.map(({ since }) => (this.now - since) / 1_000)
    return {
      name,
      depth: this.depth,
      size: this.size,
      processing: this.processing,
      waiting: this.waiting,
      adds: this.adds,
      retries: this.retries,
      ...(this.#options.timings && {
        unfinishedWorkSeconds: ages.reduce((sum, age) => sum + age, 0),
        longestRunningProcessorSeconds: Math.max(0, ...ages),
      }),
    }
  }

  add(thing: Thing, priority: number): boolean {
    if (this.shuttingDown) return false
    if (this.#options.coalesce) return this.#useUp(thing, priority)
    // The waiting add stays in force, but what it hands out later is the newest payload.
    const delayed = this.#delayedOf(thing.id)
    if (delayed) delayed.thing = thing
    return this.#enter(thing, priority)
  }

  addAfter(thing: Thing, ms: number, priority: number, replace: boolean): boolean {
    if (this.shuttingDown) return false
    this.retries++
    if (ms <= 0) return replace ? this.#useUp(thing, priority) : this.add(thing, priority)
    if (this.#options.coalesce && (this.#queuedOf(thing.id) || this.#dirtyOf(thing.id)))
      return this.#enter(thing, priority)
    const dueAt = this.now + ms
    const delayed = this.#delayedOf(thing.id)
    if (!delayed) {
      this.#waiting.push({ thing, priority, dueAt, place: ++this.#places })
      return true
    }
    delayed.thing = thing
    delayed.priority = Math.max(delayed.priority, priority)
    if (replace || dueAt < delayed.dueAt) {
      delayed.dueAt = dueAt
      delayed.place = ++this.#places
    }
    return false
  }

  addRateLimited(thing: Thing, priority: number): boolean {
    if (this.shuttingDown) return false
    const failures = this.numRequeues(thing.id)
    this.#failures.set(thing.id, failures + 1)
    const ms = Math.min(this.#options.baseDelay * 2 ** failures, this.#options.maxDelay)
    return this.addAfter(thing, ms, priority, false)
  }

  forget(id: string): void {
    this.#failures.delete(id)
  }

  numRequeues(id: string): number {
    return this.#failures.get(id) ?? 0
  }

  cancelAfter(id: string): boolean {
    const before = this.#waiting.length
    this.#waiting = this.#waiting.filter(({ thing }) => thing.id !== id)
    return this.#waiting.length < before
  }

  readyAt(id: string): number | undefined {
    return this.#delayedOf(id)?.dueAt
  }

  /** Takes the next item now: a turn's number, 'shutdown', or undefined when there is nothing. */
  tryGet(): Outcome | undefined {
    if (this.#store.length > 0) return this.#take()
    return this.shuttingDown ? 'shutdown' : undefined
  }

  /** A get: the number of its promise. */
  get(aborted: boolean): number {
    if (aborted) return this.#promise('rejected')
    const taken = this.tryGet()
    const promise = this.#promise(taken ?? 'open')
    if (taken === undefined) this.#getters.push(promise)
    return promise
  }

  done(id: string): boolean {
    const turn = this.#inFlight.find(({ thing }) => thing.id === id)
    if (!turn) return false
    this.#end(turn)
    return true
  }

  /** Ends a turn, when it still lasts. */
  dispose(number: number): void {
    const turn = this.#inFlight.find((each) => each.number === number)
    if (turn) this.#end(turn)
  }

  shutDown(): void {
    this.#close()
    for (const promise of this.#drains) this.outcomes[promise] = 'resolved'
    this.#drains = []
  }

  drain(aborted: boolean): number {
    this.#close()
    const idle = this.#store.length === 0 && this.#inFlight.length === 0
    // Which of the two wins for an aborted signal and an idle queue is not said: the walk does not ask.
    if (aborted) return this.#promise('rejected')
    const promise = this.#promise(idle ? 'resolved' : 'open')
    if (!idle) this.#drains.push(promise)
    return promise
  }

  onIdle(): number {
    const idle = this.#store.length === 0 && this.#inFlight.length === 0
    const promise = this.#promise(idle ? 'resolved' : 'open')
    if (!idle) this.#idles.push(promise)
    return promise
  }

  onSizeLessThan(limit: number): number {
    const promise = this.#promise(this.size < limit ? 'resolved' : 'open')
    if (this.size >= limit) this.#sizes.push({ promise, limit })
    return promise
  }

  /** Aborts whatever waits on a promise; one that is settled stays as it is. */
  abort(promise: number): void {
    if (this.outcomes[promise] !== 'open') return
    this.outcomes[promise] = 'rejected'
    const others = (each: number): boolean => each !== promise
    this.#getters = this.#getters.filter(others)
    this.#drains = this.#drains.filter(others)
    this.#idles = this.#idles.filter(others)
    this.#sizes = this.#sizes.filter((each) => others(each.promise))
  }

  /** Moves the time on; what falls due on the way enters in due order. */
  advance(ms: number): void {
    const end = this.now + ms
    for (;;) {
      const next = this.#waiting.toSorted((a, b) => a.dueAt - b.dueAt || a.place - b.place)[0]
      if (!next || next.dueAt > end) break
      this.now = next.dueAt
      this.#waiting = this.#waiting.filter((each) => each !== next)
      this.#enter(next.thing, next.priority)
    }
    this.now = end
  }

  #queuedOf(id: string): Pending | undefined {
    return this.#store.find(({ thing }) => thing.id === id)
  }
  #dirtyOf(id: string): Pending | undefined {
    return this.#dirty.find(({ thing }) => thing.id === id)
  }
  #delayedOf(id: string): Delayed | undefined {
    return this.#waiting.find(({ thing }) => thing.id === id)
  }

  #promise(outcome: Outcome): number {
    return this.outcomes.push(outcome) - 1
  }

  /** Adds an item now, in place of its waiting add. */
  #useUp(thing: Thing, priority: number): boolean {
    const delayed = this.#delayedOf(thing.id)
    this.#waiting = this.#waiting.filter((each) => each !== delayed)
    return this.#enter(thing, delayed ? Math.max(priority, delayed.priority) : priority)
  }

  /** An item becomes pending, or joins the pending one. */
  #enter(thing: Thing, priority: number): boolean {
    const queued = this.#queuedOf(thing.id)
    if (queued) {
      const before = queued.priority
      queued.thing = thing
      if (priority > before) this.#raise(queued, priority)
      this.tape.push(`touch ${thing.id}${thing.version} at ${queued.priority} from ${before}`)
      return false
    }
    const dirty = this.#dirtyOf(thing.id)
    if (dirty) {
      dirty.thing = thing
      dirty.priority = Math.max(dirty.priority, priority)
      return false
    }
    this.adds++
    this.depthMoves.push(1)
    const pending = { thing, priority, place: 0, since: this.now }
    if (this.#inFlight.some((turn) => turn.thing.id === thing.id)) this.#dirty.push(pending)
    else this.#push(pending)
    return true
  }

  #push(pending: Pending): void {
    pending.place = ++this.#places
    this.#store.push(pending)
    this.#line(pending)
    this.tape.push(`push ${pending.thing.id}${pending.thing.version} at ${pending.priority}`)
    const getter = this.#getters.shift()
    if (getter !== undefined) this.outcomes[getter] = this.#take()
  }

  #take(): Outcome {
    const top = Math.max(...this.#store.map(({ priority }) => priority))
    let level = this.#store.filter(({ priority }) => priority === top)
    if (this.#options.store === 'fair') {
      const [group] = this.#turnsOfGroups.get(top)!
      level = level.filter(({ thing }) => thing.group === group)
    }
    const next = level.toSorted((a, b) => a.place - b.place)[0]!
    this.#unline(next, true)
    this.tape.push(`pop ${next.thing.id}${next.thing.version} at ${next.priority}`)
    this.depthMoves.push(-1)
    this.latencies.push((this.now - next.since) / 1_000)
    const turn = { number: this.turns.length, thing: next.thing, since: this.now }
    this.#inFlight.push(turn)
    this.turns.push(turn)
    this.#notify()
    return { thing: next.thing, priority: next.priority }
  }

  #raise(pending: Pending, priority: number): void {
    this.#unline(pending, false)
    pending.priority = priority
    pending.place = ++this.#places
    this.#store.push(pending)
    this.#line(pending)
  }

  /** Its group waits for a turn of its level. */
  #line({ priority, thing }: Pending): void {
    const groups = this.#turnsOfGroups.get(priority) ?? []
    if (!groups.includes(thing.group)) groups.push(thing.group)
    this.#turnsOfGroups.set(priority, groups)
  }

  /** Leaves the store; its group goes to the end when it was served, and out when it has no more. */
  #unline(pending: Pending, served: boolean): void {
    this.#store = this.#store.filter((each) => each !== pending)
    const { group } = pending.thing
    const left = this.#store.some((each) => each.priority === pending.priority && each.thing.group === group)
    const groups = this.#turnsOfGroups.get(pending.priority)!
    if (!left || served) groups.splice(groups.indexOf(group), 1)
    if (left && served) groups.push(group)
  }

  #end(turn: Turn): void {
    this.#inFlight = this.#inFlight.filter((each) => each !== turn)
    this.durations.push((this.now - turn.since) / 1_000)
    const dirty = this.#dirtyOf(turn.thing.id)
    if (dirty) {
      this.#dirty = this.#dirty.filter((each) => each !== dirty)
      this.#push(dirty)
    }
    this.#notify()
  }

  #close(): void {
    this.shuttingDown = true
    this.#waiting = []
    for (const promise of this.#getters) this.outcomes[promise] = 'shutdown'
    this.#getters = []
  }

  /** Settles the waits whose state has come. */
  #notify(): void {
    if (this.#store.length === 0 && this.#inFlight.length === 0) {
      for (const promise of [...this.#drains, ...this.#idles]) this.outcomes[promise] = 'resolved'
      this.#drains = []
      this.#idles = []
    }
    for (const { promise, limit } of this.#sizes) if (this.size < limit) this.outcomes[promise] = 'resolved'
    this.#sizes = this.#sizes.filter(({ limit }) => this.size >= limit)
  }
}
