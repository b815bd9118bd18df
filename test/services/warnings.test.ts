/** All places that show warnings show weak settings of the database and of its Redis together. */
import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { open } from '../../src/index.ts'
import { createWorkplace } from '../cli/command.ts'
import { startRedis } from '../support/services/index.ts'
import { hasService, ownMariadb, ownPostgres } from '../support/services/own.ts'

const ofRedis = /append-only file/

async function doctor(...args: readonly string[]): Promise<readonly string[]> {
  let out = ''
  const output = { write: (text: string) => (out += text) }
  await run(['doctor', ...args, '--json'], createPrinter(output, output, {}))
  const { findings } = JSON.parse(out) as { findings: readonly { level: string; text: string }[] }
  return findings.filter(({ level }) => level === 'warning').map(({ text }) => text)
}

describe.skipIf(!hasService('redis'))('warnings', () => {
  test('a box on SQLite and Redis, its server and doctor warn about weak durability of both', async () => {
    await using redis = await startRedis()
    using place = createWorkplace()
    const database = `sqlite:${place.folder}/mine.db?synchronous=normal`
    const isBoth = (warnings: readonly string[]) => {
      assert.ok(
        warnings.some((text) => /synchronous=normal/.test(text)),
        `SQLite: ${warnings}`,
      )
      assert.ok(
        warnings.some((text) => ofRedis.test(text)),
        `Redis: ${warnings}`,
      )
    }
    for (const contention of [true, false]) {
      await using box = await open(database, { redis: redis.url, contention })
      assert.equal(box.warnings.length, 2)
      isBoth(box.warnings)
    }
    await using server = await place.serve([`--database=${database}`, `--redis=${redis.url}`])
    isBoth(
      server
        .out()
        .split('\n')
        .filter((line) => line.startsWith('Warning:')),
    )
    isBoth(await doctor('--url', server.url))
    isBoth(await doctor('--database', database, '--redis', redis.url))
  })

  for (const [name, own] of [
    ['postgres', ownPostgres],
    ['mariadb', ownMariadb],
  ] as const) {
    test.skipIf(!hasService(name))(
      `a box on ${name} and Redis warns about weak durability of both`,
      async () => {
        await using redis = await startRedis()
        await using place = await own()
        await using alone = await open(place.url, { migrate: true })
        await using box = await open(place.url, { redis: redis.url })
        assert.deepEqual(box.warnings.slice(0, -1), alone.warnings)
        assert.match(box.warnings.at(-1)!, ofRedis)
      },
    )
  }
})
