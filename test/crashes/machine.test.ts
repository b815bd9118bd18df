import { test } from 'vitest'
import { crashTest, faultyServerTest } from './engines.ts'
import { createFaults, findCompiler } from './faults.ts'
import { clockSteps, slowDisk } from './machine.ts'

const compiler = findCompiler()
// A separate test, so that the run mentions it: a file without any test would fail.
if (compiler === undefined)
  test.skip('slow syncs and clock steps are not tested without a C compiler', () => {})
else {
  crashTest(['sqlite'], 'no lease is lost when every disk sync takes half a second', async (ground) => {
    await using faults = await createFaults(compiler)
    // Awaited here: else the faults would be gone before it begins.
    return await slowDisk(ground, faults, { seed: 1, jobs: 4, syncMs: 500 })
  })
  faultyServerTest(compiler, 'no lease is lost when every disk sync takes half a second', (ground, faults) =>
    slowDisk(ground, faults, { seed: 1, jobs: 4, syncMs: 500 }),
  )
  faultyServerTest(
    compiler,
    'setting the clock of the store by an hour doubles no effect',
    (ground, faults) => clockSteps(ground, faults, { seed: 1, jobs: 20 }),
  )
}
