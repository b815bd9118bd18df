import type { ServerResponse } from 'node:http'
import { type Clock, systemClock } from '../../../core/clock.ts'
import { createNotifier, type Notifier } from '../../../core/notifier.ts'

/** How much memory may be taken by answers that their clients have not read yet. */
export interface UnsentOptions {
  /** The most bytes of all of them. @default 268_435_456 */
  readonly maxBytes?: number
  /** How long a client may take in any case. @default 90_000 */
  readonly graceMs?: number
  /** How fast it must read at least, when that takes longer. @default 16_384 */
  readonly bytesPerSecond?: number
  readonly clock?: Clock
  /** An answer was cut, with its connection. @default does nothing */
  readonly onCut?: (answer: ServerResponse) => void
}

export const unsentDefaults: Required<UnsentOptions> = {
  maxBytes: 268_435_456,
  // Above the 60 s that a claim may wait: an answer may wait behind another on the same connection.
  graceMs: 90_000,
  bytesPerSecond: 16_384,
  clock: systemClock,
  onCut() {},
}

/**
 * Answers on their way to clients that read slowly, or never. A client that takes too long is cut. When all of them
 * together exceed the limit, those that have waited longest are cut first, so clients that read are not affected. An
 * answer that went out at once, as nearly all do, costs one check.
 */
export class Unsent {
  readonly #options: Required<UnsentOptions>
  /** In the order they were written. */
  readonly #answers = new Map<ServerResponse, number>()
  #bytes = 0

  constructor(options?: UnsentOptions) {
    this.#options = { ...unsentDefaults, ...options }
  }

  /** How many bytes wait for their readers. */
  get bytes(): number {
    return this.#bytes
  }

  /** To be told of every answer, once all of it was written. */
  watch(answer: ServerResponse): void {
    const bytes = answer.writableLength
    if (bytes === 0 || answer.destroyed) return
    const { maxBytes, graceMs, bytesPerSecond, clock } = this.#options
    const timer = clock.setTimeout(() => this.#cut(answer), graceMs + (bytes / bytesPerSecond) * 1_000)
    ;(timer as { unref?(): void }).unref?.()
    this.#answers.set(answer, bytes)
    this.#bytes += bytes
    if (this.#bytes > maxBytes) this.#cutOldest(maxBytes)
    const done = () => {
      clock.clearTimeout(timer)
      if (this.#answers.delete(answer)) this.#bytes -= bytes
    }
    answer.once('finish', done).once('close', done)
  }

  #cutOldest(maxBytes: number): void {
    for (const [answer, bytes] of this.#answers) {
      // The newest client has had no time to read yet.
      if (this.#bytes <= maxBytes || this.#answers.size === 1) return
      this.#answers.delete(answer)
      this.#bytes -= bytes
      this.#cut(answer)
    }
  }

  #cut(answer: ServerResponse): void {
    this.#options.onCut(answer)
    answer.destroy()
  }
}

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
