import type { StopSignal } from '../job-store.ts'

/** The plainest there is. */
export class Stop implements StopSignal {
  readonly #listeners: (() => void)[] = []
  aborted = false
  reason: unknown

  stop(reason: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    for (const heard of this.#listeners.splice(0)) heard()
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason
  }

  addEventListener(_type: 'abort', heard: () => void): void {
    if (!this.aborted) this.#listeners.push(heard)
  }

  removeEventListener(_type: 'abort', heard: () => void): void {
    const at = this.#listeners.indexOf(heard)
    if (at >= 0) this.#listeners.splice(at, 1)
  }
}
