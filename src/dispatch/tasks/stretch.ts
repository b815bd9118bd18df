/** So long others wait for a piece of the work. */
const stretchMs = 1

/** Counts how long others have been held up: `if (stretch.isOver) await stretch.pause()` in loops. */
export class Stretch {
  #began = performance.now()
  #beforeMs = 0

  get isOver(): boolean {
    return performance.now() - this.#began >= stretchMs
  }

  /** How long the work itself has taken, without the pauses. */
  get workedMs(): number {
    return this.#beforeMs + performance.now() - this.#began
  }

  /** Lets others run. */
  async pause(): Promise<void> {
    this.#beforeMs = this.workedMs
    await new Promise((resolve) => setImmediate(resolve))
    this.#began = performance.now()
  }
}
