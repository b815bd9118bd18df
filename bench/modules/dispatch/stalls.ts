/**
 * When the host did not let this thread run. The event loop is kept turning, so it never sleeps: what passes by the clock
 * in a turn and is not spent by the thread is time that another process had the core. (Where a garbage collection waits for
 * its helper threads that counts too; they wait for a core then.)
 */
export class HostStalls implements Disposable {
  readonly #stalls: { readonly from: number; readonly to: number; readonly lostMs: number }[] = []
  #at = performance.now()
  #spentMs = spentMs()
  #isOver = false
  #longestMs = 0

  constructor() {
    setImmediate(this.#look)
  }

  /** The longest so far. */
  get longestMs(): number {
    return this.#longestMs
  }

  /** The part of this span that the host took. */
  within(from: number, to: number): number {
    let lostMs = 0
    for (const stall of this.#stalls) {
      const overlap = Math.min(to, stall.to) - Math.max(from, stall.from)
      if (overlap > 0) lostMs += Math.min(overlap, stall.lostMs)
    }
    return lostMs
  }

  [Symbol.dispose](): void {
    this.#isOver = true
  }

  readonly #look = (): void => {
    const at = performance.now()
    const spent = spentMs()
    const lostMs = at - this.#at - (spent - this.#spentMs)
    // What is shorter is how exactly the kernel counts.
    if (lostMs > 0.2) {
      this.#stalls.push({ from: this.#at, to: at, lostMs })
      this.#longestMs = Math.max(this.#longestMs, lostMs)
    }
    this.#at = at
    this.#spentMs = spent
    if (!this.#isOver) setImmediate(this.#look)
  }
}

function spentMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
