/**
 * The servers of one client, which share a store. A client stays with one that works and turns to the next when it
 * fails. Each client has its own random order, so that the clients of a server that died spread over the others.
 */
export class Servers {
  readonly #order: readonly string[]
  #index = 0

  constructor(urls: readonly string[], random: () => number = Math.random) {
    this.#order = shuffle(urls, random)
  }

  /** The server to ask now. */
  get current(): string {
    return this.#order[this.#index]!
  }

  get size(): number {
    return this.#order.length
  }

  /** Turns to the next server, unless another call has left this one already. */
  leave(url: string): void {
    if (this.current === url) this.#index = (this.#index + 1) % this.size
  }

  /** All of them, for messages. */
  toString(): string {
    return this.#order.map((url) => new URL(url).origin).join(', ')
  }
}

/** The same items in a random order. */
export function shuffle<Item>(items: readonly Item[], random: () => number): readonly Item[] {
  const order = [...items]
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    ;[order[last], order[other]] = [order[other]!, order[last]!]
  }
  return order
}
