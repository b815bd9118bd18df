/** The listeners of this process, by topic. */
export class Listeners {
  readonly #byTopic = new Map<string, Set<() => void>>()
  readonly #all = new Set<() => void>()

  get size(): number {
    return this.#all.size
  }

  /** Calls `heard` at every wake-up of these topics, until the returned function is called. */
  listen(topics: readonly string[], heard: () => void): () => void {
    // A separate function for each call, so that the same `heard` can listen twice and stop once.
    const mine = () => heard()
    this.#all.add(mine)
    for (const topic of topics) {
      const others = this.#byTopic.get(topic) ?? new Set()
      this.#byTopic.set(topic, others.add(mine))
    }
    return () => {
      this.#all.delete(mine)
      for (const topic of topics) {
        const others = this.#byTopic.get(topic)
        others?.delete(mine)
        if (others?.size === 0) this.#byTopic.delete(topic)
      }
    }
  }

  /** Whether a listener that `of` returned still listens. */
  has(heard: () => void): boolean {
    return this.#all.has(heard)
  }

  /** The current listeners of a topic. A listener that joins during a wake-up must not hear it. */
  of(topic: string): readonly (() => void)[] {
    return [...(this.#byTopic.get(topic) ?? [])]
  }

  wake(topic: string): void {
    for (const heard of this.of(topic)) heard()
  }

  /** Wakes all listeners of topics with this prefix, each once. */
  wakeAll(beginning = ''): void {
    const topics = [...this.#byTopic.keys()].filter((topic) => topic.startsWith(beginning))
    for (const heard of new Set(topics.flatMap((topic) => this.of(topic)))) heard()
  }

  clear(): void {
    this.#byTopic.clear()
    this.#all.clear()
  }
}
