import type { Stores } from './backend.ts'

/**
 * The stores of the namespaces used last, so that remembered hints of a namespace serve the next call too. A dropped view
 * still works for its current users; the next caller of that namespace gets a new one without hints.
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
