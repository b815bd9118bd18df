/**
 * A turn is one pending add on its way through the queue: the store keeps it as an `Entry`, the getter receives it as
 * `Work`. It is one object for both, so "this turn only" is plain identity: a later consumer of the item has another one.
 */
import { extend, renumber } from './key-indexes.ts'

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
  /** Of its key. It is kept, so that an item whose key changes while in flight still ends its own turn. */
  index: number
  item: T
  priority: number
  /** Set while the turn is in flight, which it is once: a later consumer of the item has another turn. */
  #owner: TurnOwner<T> | undefined

  constructor(index: number, item: T, priority: number) {
    this.index = index
    this.item = item
    this.priority = priority
    this.#owner = undefined
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

  [Symbol.dispose](): void {
    this.#owner?.end(this)
  }
}

/**
 * The turns in flight, by key index. The one that was taken last is kept apart: a consumer that ends each turn before it
 * takes the next then needs no array element and no look-up by key.
 */
export class InFlight<T> {
  #latest: Turn<T> | undefined
  /** By key index: all but the latest. */
  #others: (Turn<T> | undefined)[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The turn that was taken last, if it is still in flight. */
  get latest(): Turn<T> | undefined {
    return this.#latest
  }

  find(index: number): Turn<T> | undefined {
    const latest = this.#latest
    return latest !== undefined && latest.index === index ? latest : this.#others[index]
  }

  put(turn: Turn<T>): void {
    const previous = this.#latest
    if (previous !== undefined) {
      extend(this.#others, previous.index)
      this.#others[previous.index] = previous
    }
    this.#latest = turn
    this.#size++
  }

  /** Removes a turn that is in flight. */
  remove(turn: Turn<T>): void {
    if (turn === this.#latest) this.#latest = undefined
    else this.#others[turn.index] = undefined
    this.#size--
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    for (const turn of [this.#latest, ...this.#others]) {
      if (turn !== undefined) turn.index = newIndexes[turn.index] as number
    }
    this.#others = renumber(this.#others, newIndexes)
  }

  /** Gives memory back; only while nothing is in flight. */
  clear(): void {
    this.#others = []
  }
}
