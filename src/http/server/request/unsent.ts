import type { ServerResponse } from 'node:http'
import { type Clock, systemClock } from '../../../core/clock.ts'

/** Limits on answers that clients have not read yet. */
export interface UnsentOptions {
  /** The most bytes of all unread answers. @default 268_435_456 */
  readonly maxBytes?: number
  /** The least time that a client gets to read an answer. @default 90_000 */
  readonly graceMs?: number
  /** A long answer gets more time, by this rate. @default 16_384 */
  readonly bytesPerSecond?: number
  readonly clock?: Clock
  /** Called when the server cuts an answer and its connection. @default does nothing */
  readonly onCut?: (answer: ServerResponse) => void
}

export const unsentDefaults: Required<UnsentOptions> = {
  maxBytes: 268_435_456,
  // More than the 60 s of a waiting claim, because an answer may wait for an earlier one on the same connection.
  graceMs: 90_000,
  bytesPerSecond: 16_384,
  clock: systemClock,
  onCut() {},
}

/**
 * Tracks answers that clients read slowly or never. The server cuts a client that takes too long. When all unread
 * answers together exceed the limit, the server cuts the oldest first, so clients that read are not affected. An answer
 * that is sent at once, as nearly all are, costs one check.
 */
export class Unsent {
  readonly #options: Required<UnsentOptions>
  /** The bytes of each answer, oldest first. */
  readonly #answers = new Map<ServerResponse, number>()
  #bytes = 0

  constructor(options?: UnsentOptions) {
    this.#options = { ...unsentDefaults, ...options }
  }

  /** The bytes of all unread answers. */
  get bytes(): number {
    return this.#bytes
  }

  /** Tracks an answer. Call this for every answer, after all of it is written. */
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
