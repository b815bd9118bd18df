/** An asynchronous read-write lock, first come first served, as schedulers put around their registry. */
export class RwLock {
  #readers = 0
  #isWritten = false
  readonly #line: { readonly isWriter: boolean; readonly enter: () => void }[] = []
  #longestMs = 0
  #observe: (from: number, to: number) => void = () => undefined

  /** Tells of every wait from now on. */
  observe(observe: (from: number, to: number) => void): void {
    this.#observe = observe
  }

  /** The longest that anybody has waited for it. */
  get longestMs(): number {
    return this.#longestMs
  }

  async read<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    await this.#enter(false)
    try {
      return await work()
    } finally {
      this.#readers--
      this.#letIn()
    }
  }

  async write<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    await this.#enter(true)
    try {
      return await work()
    } finally {
      this.#isWritten = false
      this.#letIn()
    }
  }

  async #enter(isWriter: boolean): Promise<void> {
    const cameAt = performance.now()
    await new Promise<void>((enter) => {
      this.#line.push({ isWriter, enter })
      this.#letIn()
    })
    const enteredAt = performance.now()
    this.#longestMs = Math.max(this.#longestMs, enteredAt - cameAt)
    this.#observe(cameAt, enteredAt)
  }

  #letIn(): void {
    for (let first = this.#line[0]; first !== undefined; first = this.#line[0]) {
      if (this.#isWritten || (first.isWriter && this.#readers > 0)) return
      this.#line.shift()
      if (first.isWriter) this.#isWritten = true
      else this.#readers++
      first.enter()
    }
  }
}
