import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** A test and how long it ran. */
export interface Timed {
  readonly name: string
  readonly file: string
  readonly ms: number
}

const shownCount = 20

/** The tests that took longest, slowest first. Tests that did not run took no time and are not listed. */
export function slowestOf(tests: readonly Timed[], count: number = shownCount): readonly Timed[] {
  return tests
    .filter(({ ms }) => ms > 0)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, count)
}

/** Prints the slowest tests of a run, so that a test that grows slow is seen in the run that made it slow. */
export default class Slowest implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const slowest = slowestOf(modules.flatMap(timesOf))
    if (slowest.length === 0) return
    console.log(`\nThe slowest ${slowest.length} tests:`)
    for (const { ms, file, name } of slowest)
      console.log(`  ${(ms / 1_000).toFixed(1).padStart(6)} s  ${file} > ${name}`)
  }
}

function timesOf(module: TestModule): readonly Timed[] {
  const timed = (test: TestCase) => ({
    name: test.fullName,
    file: module.relativeModuleId,
    ms: test.diagnostic()?.duration ?? 0,
  })
  return [...module.children.allTests()].map(timed)
}
