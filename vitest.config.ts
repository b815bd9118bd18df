import { defineConfig, type ViteUserConfig } from 'vitest/config'

// The folders whose tests need Postgres, MariaDB and Redis; all other tests run without.
const withServices = ['test/{conformance,services,crashes}/**/*.test.ts']

// `source` resolves `signalbox/…` to src, for Vite's resolver and for Node's inside the workers.
const config: ViteUserConfig = defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  test: {
    pool: 'forks',
    execArgv: ['--conditions=source', '--expose-gc'],
    testTimeout: 20_000,
    // Most of what they do is to wait for a server, a disk or an instant.
    maxWorkers: 2,
    setupFiles: ['./test/support/orphan.ts'],
    reporters: ['default', './test/support/closing.ts'],
    // Two projects, because vitest runs a project's globalSetup only when one of its files is to run: whoever
    // tests a room by itself does not wait for databases.
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['src/**/*.test.ts', 'test/**/*.test.ts'], exclude: withServices },
      },
      {
        extends: true,
        test: {
          name: 'services',
          include: withServices,
          globalSetup: ['./test/support/services/setup.ts'],
        },
      },
    ],
  },
})

export default config
