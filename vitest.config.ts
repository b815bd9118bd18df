import { join } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import Dealing from './test/support/dealing.ts'
import { filesThatShare } from './test/support/sharing.ts'

/**
 * Two tiers. `npm test` runs the projects `unit`, `modules` and `services`; `npm run test:faults` runs `faults` and `dashboard`:
 * crash campaigns at CI size, outages and overload (folders named `faults`), fuzz, and a real browser.
 */

// The folders whose tests need Postgres, MariaDB and Redis; all other tests run without.
const withServices = ['test/{conformance,services,docs}/**/*.test.ts']
const withFaults = ['test/{crashes,examples}/**/*.test.ts', 'test/**/{faults,fuzz,pipelining}/**/*.test.ts']
const withBrowser = ['test/{dashboard,site}/**/*.test.ts']
// Tests of modules that keep nothing for the whole process. For a small file, starting a process and loading its module takes
// longer than its tests do. Those that watch leases of a few hundred milliseconds have a process, and its heap, to themselves.
const inOneProcess = filesThatShare(import.meta.dirname, [
  '{src,dashboard}/**/*.test.ts',
  'test/{dispatch,monitor/channels}/**/*.test.ts',
  // Most tests of once move a fake clock. The other tests of the work queue weigh the heap or measure time.
  'test/once/!(run).test.ts',
  'test/work-queue/{bad-input,delays,done,iterate,limiters,metrics,parallelize,run,shutdown,waits}.test.ts',
  // The house test that parses all sources leaves a heap that small tests need not carry.
  'test/{house,support}/**/!(awaited).test.ts',
  // Telemetry is set up for a process as a whole, and so are the dialects of JSON Schema.
  'test/http/{remote,server/{connections,handlers}}/!(telemetry).test.ts',
])

// Tests start Node hundreds of times, on our sources: what one start has stripped of its types and compiled, the next
// one takes from here.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compile')

// `source` resolves `signalbox/…` to src, for Vite's resolver and for Node's inside the workers.
const config: ViteUserConfig = defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  test: {
    pool: 'forks',
    execArgv: ['--conditions=source', '--expose-gc'],
    // Only for what hangs: on a machine that is busy or stands still now and then, tests of many processes take half a minute.
    testTimeout: 60_000,
    // Two more than the two cores that CI has: half of the time is waiting for a server, a disk or an instant. `npm test`
    // has five; in the faults tier a file is many processes already.
    maxWorkers: 4,
    sequence: { sequencer: Dealing },
    setupFiles: ['./test/support/orphan.ts'],
    // A test that fails in CI runs once more, because CI shares its machine. The run names each test that needed it.
    retry: process.env.CI ? 1 : 0,
    reporters: [
      'default',
      './test/support/slowest.ts',
      './test/support/retried.ts',
      './test/support/closing.ts',
    ],
    // Several projects, because vitest runs a project's globalSetup only when one of its files is to run: a run of one
    // module does not wait for databases.
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{src,dashboard,test}/**/*.test.ts'],
          exclude: [...withServices, ...withFaults, ...withBrowser, ...inOneProcess],
        },
      },
      {
        extends: true,
        test: {
          name: 'modules',
          include: inOneProcess,
          exclude: withFaults,
          // One file after the other, in processes that stay.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'services',
          include: withServices,
          exclude: withFaults,
          globalSetup: ['./test/support/services/setup.ts'],
          // Of the engines in a file whose tests mostly wait.
          maxConcurrency: 4,
        },
      },
      {
        extends: true,
        test: {
          name: 'faults',
          include: withFaults,
          globalSetup: ['./test/support/services/setup.ts'],
          maxConcurrency: 3,
        },
      },
      {
        extends: true,
        test: {
          name: 'dashboard',
          include: withBrowser,
          globalSetup: ['./test/dashboard/setup.ts'],
          // A browser is many processes, and all of them may have to wait for a core.
          testTimeout: 90_000,
        },
      },
    ],
  },
})

export default config
