/** Who of this process listens to which topics. */
export class Listeners {
  readonly #byTopic = new Map<string, Set<() => void>>()
  readonly #all = new Set<() => void>()

  get size(): number {
    return this.#all.size
  }

  /** Calls `heard` at every wake-up of these topics, until the returned function is called. */
  listen(topics: readonly string[], heard: () => void): () => void {
    // A function of its own, so that one function may listen twice and stop once.
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

  /** Whether one of those that `of` gave listens still. */
  has(heard: () => void): boolean {
    return this.#all.has(heard)
  }

  /** Those who listen to a topic now: who begins to listen at a wake-up must not hear it. */
  of(topic: string): readonly (() => void)[] {
    return [...(this.#byTopic.get(topic) ?? [])]
  }

  wake(topic: string): void {
    for (const heard of this.of(topic)) heard()
  }

  /** Wakes everybody who listens to any topic that begins with this, each once. */
  wakeAll(beginning = ''): void {
    const topics = [...this.#byTopic.keys()].filter((topic) => topic.startsWith(beginning))
    for (const heard of new Set(topics.flatMap((topic) => this.of(topic)))) heard()
  }

  clear(): void {
    this.#byTopic.clear()
    this.#all.clear()
  }
}
