/**
 * A turn is one pending add on its way through the queue: the store keeps it as an `Entry`, the getter receives
 * it as `Work`. It is one object for both, so handing an item over allocates nothing, and "this turn only" is
 * plain identity: whoever took the item later holds another object.
 */

/** One pending add, as a store sees it. The queue may raise its priority and renew its item; see `touch`. */
export interface Entry<T> {
  readonly item: T
  readonly priority: number
}

/** An item in hand. Disposing of it is `done` for this turn only, and may be repeated. */
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

/** The queue that a turn belongs to, as far as the turn needs to know it. */
export interface TurnOwner<T> {
  /** Ends the turn, which is in hand. */
  end(turn: Turn<T>): void
}

export class Turn<T> implements Work<T>, Entry<T> {
  /** Kept, not computed again: an item that was changed while in hand still ends its own turn. */
  readonly key: unknown
  item: T
  priority: number
  inHand: boolean
  readonly #owner: TurnOwner<T>

  constructor(owner: TurnOwner<T>, key: unknown, item: T, priority: number) {
    this.#owner = owner
    this.key = key
    this.item = item
    this.priority = priority
    this.inHand = false
  }

  // On the prototype, so that it costs a queued item no memory.
  get shutdown(): false {
    return false
  }

  // A turn is in hand once: when it is over, whoever has the item since has another turn.
  [Symbol.dispose](): void {
    if (this.inHand) this.#owner.end(this)
  }
}
