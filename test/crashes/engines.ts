/**
 * The engines that crash tests run on, and the lines they print. Without a server an engine is left out, as the run's
 * first lines say; `BACKENDS=sqlite` narrows it further.
 */
import { test } from 'vitest'
import { startMariadb, startPostgres } from '../support/services/index.ts'
import { hasService, serviceFacts } from '../support/services/own.ts'
import type { Service } from '../support/services/service.ts'
import { createFaults, type Faults } from './faults.ts'
import { createGround, type Ground, type SqlEngine } from './ground.ts'
import type { Counts } from './stage.ts'

const testMs = 120_000

function isHere(engine: SqlEngine): boolean {
  const wanted = process.env.BACKENDS?.split(',') ?? [engine]
  return wanted.includes(engine) && (engine === 'sqlite' || hasService(engine))
}

/** The server that the run's tests share; SQLite has none. */
function sharedServer(engine: SqlEngine): string | undefined {
  return engine === 'sqlite' ? undefined : serviceFacts(engine).url
}

/** One test for each engine, each on a separate database; it prints the campaign's counts. */
export function crashTest(
  engines: readonly SqlEngine[],
  name: string,
  run: (ground: Ground) => Promise<Counts>,
): void {
  for (const engine of engines) {
    test.runIf(isHere(engine))(`${engine}: ${name}`, { timeout: testMs, concurrent: true }, async () => {
      await using ground = await createGround(engine, sharedServer(engine))
      printCounts(engine, name, await run(ground))
    })
  }
}

/** The same on a durable server that belongs to the test alone and may be killed. */
export function serverCrashTest(
  name: string,
  run: (ground: Ground, server: NonNullable<Service['revivable']>) => Promise<Counts>,
): void {
  for (const engine of ['postgres', 'mariadb'] as const) {
    // A server that was there before us is not ours to kill.
    const isOurs = isHere(engine) && serviceFacts(engine).from !== 'environment'
    test.runIf(isOurs)(`${engine}: ${name}`, { timeout: testMs, concurrent: true }, async () => {
      await using server = await (engine === 'postgres' ? startPostgres : startMariadb)({ durable: true })
      await using ground = await createGround(engine, server.url)
      printCounts(engine, name, await run(ground, server.revivable!))
    })
  }
}

/** The same on a server whose machine has faults. */
export function faultyServerTest(
  compiler: string,
  name: string,
  run: (ground: Ground, faults: Faults) => Promise<Counts>,
): void {
  for (const engine of ['postgres', 'mariadb'] as const) {
    const isOurs = isHere(engine) && serviceFacts(engine).from !== 'environment'
    test.runIf(isOurs)(`${engine}: ${name}`, { timeout: testMs, concurrent: true }, async () => {
      await using faults = await createFaults(compiler)
      const start = engine === 'postgres' ? startPostgres : startMariadb
      await using server = await start({ durable: true, env: faults.env })
      await using ground = await createGround(engine, server.url)
      printCounts(engine, name, await run(ground, faults))
      // So that the server ends as quickly as it should.
      faults.set({})
    })
  }
}

/** The same for campaigns that make their databases themselves. */
export function openingTest(
  name: string,
  run: (engine: SqlEngine, server?: string) => Promise<Counts>,
): void {
  for (const engine of ['sqlite', 'postgres', 'mariadb'] as const) {
    test.runIf(isHere(engine))(`${engine}: ${name}`, { timeout: testMs, concurrent: true }, async () => {
      printCounts(engine, name, await run(engine, sharedServer(engine)))
    })
  }
}

function printCounts(engine: SqlEngine, name: string, counts: Counts): void {
  const counted = Object.entries(counts).map(([what, count]) => `${count} ${what}`)
  console.log(`[crashes] ${engine}: ${name}: ${counted.join(', ')}`)
}
