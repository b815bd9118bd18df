import { randomBytes } from 'node:crypto'
import { test } from 'vitest'
import { hasService, serviceFacts } from '../../support/services/own.ts'
import { createGround } from '../ground.ts'
import type { Counts } from '../stage.ts'
import { killLockServers } from './lock-kills.ts'

const options = { seed: 1, operations: 1_200, kills: 6 }
/** Where the rules and their transactions are the same as on SQLite, a shorter history will do. */
const shorter = { seed: 1, operations: 400, kills: 3 }
const testMs = 120_000

function isHere(engine: 'sqlite' | 'postgres' | 'mariadb' | 'redis'): boolean {
  const wanted = process.env.BACKENDS?.split(',') ?? [engine]
  return wanted.includes(engine) && (engine === 'sqlite' || hasService(engine))
}

for (const engine of ['sqlite', 'postgres', 'mariadb'] as const) {
  test.runIf(isHere(engine))(
    `${engine}: lock servers killed with -9 give a history that a single wait queue could have given`,
    { timeout: testMs },
    async () => {
      await using ground = await createGround(
        engine,
        engine === 'sqlite' ? undefined : serviceFacts(engine).url,
      )
      const size = engine === 'sqlite' ? options : shorter
      printCounts(engine, await killLockServers({ url: ground.url, namespace: 'crashes' }, size))
    },
  )
}

test.runIf(isHere('redis'))(
  'redis: lock servers killed with -9 give a history that a single wait queue could have given',
  { timeout: testMs },
  async () => {
    const namespace = `crashes-${randomBytes(6).toString('hex')}`
    printCounts('redis', await killLockServers({ url: serviceFacts('redis').url, namespace }, options))
  },
)

function printCounts(engine: string, counts: Counts): void {
  const counted = Object.entries(counts).map(([what, count]) => `${count} ${what}`)
  console.log(`[crashes] ${engine}: histories of locks: ${counted.join(', ')}`)
}
