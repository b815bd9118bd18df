import type { Reporter, TestModule } from 'vitest/node'

/** A test that failed at first and passed when it ran again. */
export interface Retried {
  readonly name: string
  readonly file: string
  /** The message of its first failure. */
  readonly error: string
}

/** The tests of these files that needed a second run. */
export function retriedOf(modules: readonly TestModule[]): readonly Retried[] {
  return modules.flatMap((module) =>
    [...module.children.allTests()]
      .filter((test) => test.diagnostic()?.flaky)
      .map((test) => ({
        name: test.fullName,
        file: module.relativeModuleId,
        error: test.result().errors?.[0]?.stack ?? test.result().errors?.[0]?.message ?? 'unknown',
      })),
  )
}

/** Prints each test that passed only when it ran again, with its first failure: it is a defect of the test or of the product. */
export default class RetriedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const retried = retriedOf(modules)
    if (retried.length === 0) return
    console.log(`\n${retried.length} tests passed only on their second run. Mend them:`)
    for (const { file, name, error } of retried) console.log(`  ${file} > ${name}\n    ${error}`)
  }
}
