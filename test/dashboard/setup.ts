import { chromium } from 'playwright-core'
import type { TestProject } from 'vitest/node'
import { ensureDashboard, isCurrent } from '../../tools/dashboard.ts'
import { launchOptions } from './chromium.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the one browser of this run listens. */
    readonly browser: string
  }
}

/** Builds the dashboard when it must and starts one browser, for all files of this run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const options = await launchOptions()
  await ensureDashboard((line) => console.log(`[dashboard] ${line}`))
  if (!isCurrent()) throw new Error('The dashboard could not be built; see above.')
  const server = await chromium.launchServer({ ...options, host: '127.0.0.1' })
  project.provide('browser', server.wsEndpoint())
  return () => server.close()
}
