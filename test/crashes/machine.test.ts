import { test } from 'vitest'
import { crashTest, faultyServerTest } from './engines.ts'
import { createFaults, findCompiler } from './faults.ts'
import { clockSteps, slowDisk } from './machine.ts'

const compiler = findCompiler()
// A separate test, so that the run mentions it: a file without any test would fail.
if (compiler === undefined)
  test.skip('not run, for there is no C compiler: slow syncs, steps of the clock', () => {})
else {
  crashTest(['sqlite'], 'where every sync takes half a second, no lease is lost', async (ground) => {
    await using faults = await createFaults(compiler)
    // Awaited here: else the faults would be gone before it begins.
    return await slowDisk(ground, faults, { seed: 1, jobs: 4, syncMs: 500 })
  })
  faultyServerTest(compiler, 'where every sync takes half a second, no lease is lost', (ground, faults) =>
    slowDisk(ground, faults, { seed: 1, jobs: 4, syncMs: 500 }),
  )
  faultyServerTest(
    compiler,
    'a clock of the store that is set by an hour doubles no effect',
    (ground, faults) => clockSteps(ground, faults, { seed: 1, jobs: 20 }),
  )
}
