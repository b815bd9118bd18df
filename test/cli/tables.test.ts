/** Every table of the command line fits the terminal, whatever the names in it. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { createTokens } from '../../src/access/index.ts'
import { createPrinter, widthOf } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { open } from '../../src/index.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-tables-'))
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
const database = `sqlite:${join(folder, 'box.db')}`
const long = `邮件 ${'of a long name '.repeat(10)}`.trim()

/** One of everything that a list shows, by its longest names. */
async function fill(): Promise<void> {
  await using box = await open(database)
  await box.jobs.add(long, {}, { queue: long, maxAttempts: 1 })
  const [job] = await box.jobs.claim({ queues: [long] })
  await box.jobs.nack(job!, { error: new Error(long) })
  await box.locks.acquire({ operation: long, resource: long, node: long, ttlMs: '1h' })
  await box.dispatch.submit({ service: long })
  await box.jobs.schedules.set(long, { everyMs: '1h', job: { kind: long } })
  await createTokens({ store: box.backend.tokens }).create({
    name: long,
    scope: 'work',
    namespace: 'default',
  })
  const channel = {
    type: 'webhook',
    url: 'https://example.com/hook',
    secret: 'Canary9Canary9Canary9',
  } as const
  await box.monitor.subscribe({ name: long, notifyNew: true, channel })
  const venues = [{ venueId: long, state: long }]
  await box.monitor.report({ taskId: 't1', source: long, timeSlot: long, observedAt: Date.now(), venues })
}

test('the table of every command fits the terminal, and a pipe gets it whole', async () => {
  await fill()
  const print = async (args: readonly string[], columns?: number) => {
    let out = ''
    const stdout = {
      write: (text: string) => (out += text),
      isTTY: columns !== undefined,
      columns: columns ?? 0,
    }
    const code = await run([...args, '--database', database], createPrinter(stdout, stdout, {}))
    assert.equal(code, 0, out)
    return out.trimEnd().split('\n')
  }
  for (const args of [
    ['jobs', 'ls'],
    ['queues', 'ls'],
    ['locks', 'ls'],
    ['tasks', 'ls'],
    ['schedules', 'ls'],
    ['token', 'ls'],
    ['monitor', 'notifications'],
    ['config', 'print'],
  ]) {
    const whole = await print(args)
    assert.ok(
      whole.some((line) => widthOf(line) > 80),
      args.join(' '),
    )
    for (const columns of [80, 40]) {
      const lines = await print(args, columns)
      assert.equal(lines.length, whole.length, args.join(' '))
      for (const line of lines) assert.ok(widthOf(line) <= columns, `${args.join(' ')}: ${line}`)
    }
  }
})
