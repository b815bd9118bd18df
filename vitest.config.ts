import { defineConfig, type ViteUserConfig } from 'vitest/config'

// `source` resolves `signalbox/…` to src, for Vite's resolver and for Node's inside the workers.
const config: ViteUserConfig = defineConfig({
  resolve: { conditions: ['source'] },
  ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    pool: 'forks',
    execArgv: ['--conditions=source', '--expose-gc'],
    testTimeout: 20_000,
  },
})

export default config
