import type { Dependency } from './dependency-store.ts'

/**
 * Goes through all dependencies, page by page and round by round, for what nobody told of. A round begins a second after the
 * one before at the earliest, and later where rounds are long, so that it takes a tenth of the time at most.
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

  /** Somewhere between the first page and the last. */
  get isUnderWay(): boolean {
    return this.#place !== undefined
  }

  /** Whether there were dependencies in the last whole round or in this one, or there may be some since. */
  get hasFound(): boolean {
    return this.#isExpecting || this.#lastCount > 0 || this.#count > 0
  }

  /** There may be dependencies that no round has met yet, not even one that is under way. */
  expect(): void {
    this.#isExpecting = true
  }

  /** One page, if it is time. */
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
