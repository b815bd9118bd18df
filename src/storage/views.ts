import type { Stores } from './backend.ts'

/**
 * The stores of the namespaces used last, so that what this process remembers of one serves the next call too. One that
 * was dropped works on for whoever has it; who asks for its namespace again gets another, that remembers nothing yet.
 */
export class Views {
  readonly #views = new Map<string, Stores>()
  readonly #create: (namespace: string) => Stores

  constructor(create: (namespace: string) => Stores) {
    this.#create = create
  }

  within(namespace: string): Stores {
    const view = this.#views.get(namespace) ?? this.#create(namespace)
    // A map keeps the order of insertion: the first in it is the one not asked for the longest.
    this.#views.delete(namespace)
    this.#views.set(namespace, view)
    if (this.#views.size > mostViews) this.#views.delete(this.#views.keys().next().value!)
    return view
  }
}

const mostViews = 100
