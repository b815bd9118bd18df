/**
 * A turn is one pending add in the queue: the store holds it as an `Entry`, the getter receives it as `Work`. Both are
 * the same object, so identity tells turns apart: a later consumer of the item has another turn.
 */

/** One pending add in a store. The queue may raise its priority and replace its item; see `touch`. */
export interface Entry<T> {
  readonly item: T
  readonly priority: number
}

/** An item in flight. Disposing it calls `done` for this turn only. A second call has no effect. */
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

/** Ends turns. */
export interface TurnOwner<T> {
  end(turn: Turn<T>): void
}

export class Turn<T> implements Work<T>, Entry<T> {
  /** Stored, so that an item whose key changes while it is in flight still ends its own turn. */
  readonly key: unknown
  item: T
  priority: number
  /** The turn that was added while this one is in flight. */
  next: Turn<T> | undefined = undefined
  /** Set while the turn is in flight. A turn is in flight once. */
  #owner: TurnOwner<T> | undefined = undefined

  constructor(key: unknown, item: T, priority: number) {
    this.key = key
    this.item = item
    this.priority = priority
  }

  // A getter on the prototype uses no memory in queued items.
  get shutdown(): false {
    return false
  }

  // Static, so that a caller cannot call them on its work.
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
