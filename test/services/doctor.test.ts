/** Doctor on real servers: it reads their clocks and their settings, and shows no password. */
import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { open } from '../../src/index.ts'
import { hasService, ownMariadb, ownPostgres, ownRedis } from '../support/services/own.ts'

interface Finding {
  readonly level: string
  readonly check: string
  readonly subject: string
  readonly text: string
}

async function doctor(...args: readonly string[]): Promise<{ code: number; findings: readonly Finding[] }> {
  let out = ''
  const output = { write: (text: string) => (out += text) }
  const code = await run(['doctor', ...args, '--json'], createPrinter(output, output, {}))
  return { code, findings: JSON.parse(out).findings }
}

for (const [name, own] of [
  ['postgres', ownPostgres],
  ['mariadb', ownMariadb],
] as const) {
  describe.skipIf(!hasService(name))(`doctor on ${name}`, () => {
    test('finds an empty database healthy when serve may migrate, and reports a problem when it may not', async () => {
      await using place = await own()
      const { code, findings } = await doctor('--database', place.url)
      assert.equal(code, 0, JSON.stringify(findings))
      assert.equal((await doctor('--database', place.url, '--no-migrate')).code, 1)
    })

    test('compares the clock, judges the settings, and inspects the jobs', async () => {
      await using place = await own()
      await using box = await open(place.url, { migrate: true })
      await box.jobs.add('mail', {}, { queue: 'shut' })
      await box.jobs.pause('shut')
      const { code, findings } = await doctor('--database', place.url)
      assert.equal(code, 0, JSON.stringify(findings))
      const of = (check: string) => findings.filter((one) => one.check === check)
      assert.deepEqual([of('clocks').length, of('clocks')[0]?.level], [1, 'ok'])
      assert.equal(of('schema')[0]?.level, 'ok')
      assert.equal(of('queues')[0]?.subject, 'shut')
      // Test servers are either fast rather than durable, or set up by a developer: the doctor reports either.
      assert.deepEqual(
        of('durability').filter(({ level }) => level === 'warning').length,
        box.warnings.length,
      )
      assert.ok(!JSON.stringify(findings).includes('@'))
    })
  })
}

describe.skipIf(!hasService('redis'))('doctor on Redis', () => {
  test('compares the clock and judges the settings without writing to Redis', async () => {
    await using keys = await ownRedis()
    const { findings } = await doctor('--database', 'memory:', '--redis', keys.url)
    assert.ok(findings.some(({ check, level }) => check === 'clocks' && level === 'ok'))
    assert.ok(findings.some(({ check }) => check === 'store' || check === 'durability'))
    assert.ok(!findings.some(({ check }) => check === 'eviction'))
  })
})
