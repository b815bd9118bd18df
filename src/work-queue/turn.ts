/**
 * A turn is one pending add on its way through the queue: the store keeps it as an `Entry`, the getter receives it as
 * `Work`. It is one object for both, so "this turn only" is plain identity: a later consumer of the item has another one.
 */

/** One pending add, as a store sees it. The queue may raise its priority and renew its item; see `touch`. */
export interface Entry<T> {
  readonly item: T
  readonly priority: number
}

/** An item in flight. Disposing of it is `done` for this turn only, and may be repeated. */
export interface Work<T> extends Disposable {
  readonly shutdown: false
  readonly item: T
  readonly priority: number
}

/** The answer of a queue that is shut down and empty. */
export interface NoWork extends Disposable {
  readonly shutdown: true
  readonly item: undefined
}

export const noWork: NoWork = Object.freeze({
  shutdown: true as const,
  item: undefined,
  [Symbol.dispose]() {},
})

/** Takes a turn back when it is over. */
export interface TurnOwner<T> {
  end(turn: Turn<T>): void
}

export class Turn<T> implements Work<T>, Entry<T> {
  /** Kept, so that an item whose key changes while it is in flight still ends its own turn. */
  readonly key: unknown
  item: T
  priority: number
  /** The turn that was added while this one is in flight. */
  next: Turn<T> | undefined = undefined
  /** Set while the turn is in flight, which it is once: a later consumer of the item has another turn. */
  #owner: TurnOwner<T> | undefined = undefined

  constructor(key: unknown, item: T, priority: number) {
    this.key = key
    this.item = item
    this.priority = priority
  }

  // On the prototype, so that it costs a queued item no memory.
  get shutdown(): false {
    return false
  }

  // Static, so that a caller who holds the work cannot call them on it.
  static begin<T>(turn: Turn<T>, owner: TurnOwner<T>): void {
    turn.#owner = owner
  }

  static end<T>(turn: Turn<T>): void {
    turn.#owner = undefined
  }

  static isInFlight<T>(turn: Turn<T>): boolean {
    return turn.#owner !== undefined
  }

  [Symbol.dispose](): void {
    this.#owner?.end(this)
  }
}
