import { createNotifier, type Notifier } from '../../../core/notifier.ts'

/** Counts requests in flight and waits for their end. */
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

  /** Resolves when no request is left, or after the grace time. */
  async drained(graceMs: number): Promise<void> {
    const endsAt = performance.now() + graceMs
    while (this.#count > 0) {
      const timeoutMs = endsAt - performance.now()
      if (timeoutMs <= 0) return
      await this.#ended.wait({ timeoutMs })
    }
  }
}
