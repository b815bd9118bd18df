import type { Dependency } from './dependency-store.ts'

/**
 * Walks all dependencies, page by page and round by round, to find those that no wake-up named. Rounds begin at least a
 * second apart, and further apart if they are long, so that they take at most a tenth of the time.
 */
export class DependencyWalk {
  readonly #judge: (after: Dependency | undefined) => Promise<{ count: number; next: Dependency | undefined }>
  #place: Dependency | undefined
  #beganAt = 0
  #nextAt = 0
  #count = 0
  #lastCount = 0
  #isExpecting = false

  constructor(
    judge: (after: Dependency | undefined) => Promise<{ count: number; next: Dependency | undefined }>,
  ) {
    this.#judge = judge
  }

  /** Whether it is between the first page and the last. */
  get isUnderWay(): boolean {
    return this.#place !== undefined
  }

  /** Whether the last round or this one found dependencies, or some may have been added since. */
  get hasFound(): boolean {
    return this.#isExpecting || this.#lastCount > 0 || this.#count > 0
  }

  /** Dependencies may have been added that no round has seen, not even the present one. */
  expect(): void {
    this.#isExpecting = true
  }

  /** Judges one page, if it is time. */
  async step(): Promise<void> {
    const now = performance.now()
    if (!this.isUnderWay) {
      if (now < this.#nextAt) return
      this.#beganAt = now
      this.#count = 0
      this.#isExpecting = false
    }
    const { count, next } = await this.#judge(this.#place)
    this.#count += count
    this.#place = next
    if (next !== undefined) return
    this.#lastCount = this.#count
    const tookMs = performance.now() - this.#beganAt
    this.#nextAt = performance.now() + Math.max(restMs, tookMs * restsPerRound)
  }
}

const restMs = 900
const restsPerRound = 9
