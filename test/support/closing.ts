import type { Reporter, SerializedError, TestModule } from 'vitest/node'

/** The outcomes of a run's tests. */
export interface Tally {
  passed: number
  failed: number
  skipped: number
}

/**
 * Counts a run's tests. A file that failed without a failing test (it did not load, a hook threw) and an
 * error outside every test count as one failure each, so that a failed run never says "0 failed".
 */
export function tally(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): Tally {
  const sum: Tally = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
  for (const module of modules) {
    const before = sum.failed
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state !== 'pending') sum[state]++
    }
    if (module.state() === 'failed' && sum.failed === before) sum.failed++
  }
  return sum
}

/** Prints the run's closing line, in a form that scripts can read. */
export default class Closing implements Reporter {
  #tally: Tally = { passed: 0, failed: 0, skipped: 0 }

  onInit(): void {
    // At exit, because the other reporters, teardown and errors of the set-up all print after the run's end.
    process.once('exit', (code) => {
      const { passed, failed, skipped } = this.#tally
      const failures = code === 0 ? failed : Math.max(failed, 1)
      console.log(`Tests: ${passed} passed, ${failures} failed, ${skipped} skipped`)
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    this.#tally = tally(modules, unhandledErrors)
  }
}
