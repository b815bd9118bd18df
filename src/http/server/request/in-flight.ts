import { createNotifier, type Notifier } from '../../../core/notifier.ts'

/** How many requests are under way, and the wait until they are over. */
export class InFlight {
  readonly #ended: Notifier = createNotifier()
  #count = 0

  enter(): void {
    this.#count++
  }

  leave(): void {
    this.#count--
    if (this.#count === 0) this.#ended.wake()
  }

  /** Resolves when none is left, or when that took too long. */
  async drained(graceMs: number): Promise<void> {
    const endsAt = performance.now() + graceMs
    while (this.#count > 0) {
      const timeoutMs = endsAt - performance.now()
      if (timeoutMs <= 0) return
      await this.#ended.wait({ timeoutMs })
    }
  }
}
