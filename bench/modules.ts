import type { BenchModule } from './case.ts'

/**
 * Every module that can be measured. Loaded by name, so that a module whose peers are not installed holds up no other.
 */
const modules: Readonly<Record<string, () => Promise<BenchModule>>> = {
  workqueue: async () => (await import('./modules/work-queue/index.ts')).workqueueModule,
  jobs: async () => (await import('./modules/jobs/index.ts')).jobsModule,
  server: async () => (await import('./modules/server/index.ts')).serverModule,
  locks: async () => (await import('./modules/locks/index.ts')).locksModule,
  once: async () => (await import('./modules/once/index.ts')).onceModule,
  monitor: async () => (await import('./modules/monitor/index.ts')).monitorModule,
  dispatch: async () => (await import('./modules/dispatch/index.ts')).dispatchModule,
  copy: async () => (await import('./modules/copy/index.ts')).copyModule,
  dashboard: async () => (await import('./modules/dashboard/index.ts')).dashboardModule,
}

/** The names `npm run bench -- MODULE` knows. */
export const moduleNames: readonly string[] = Object.keys(modules)

/** The module of that name, or undefined. */
export async function findModule(name: string): Promise<BenchModule | undefined> {
  return Object.hasOwn(modules, name) ? modules[name]!() : undefined
}
