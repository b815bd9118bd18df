import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { open } from '../../index.ts'
import { openCopyEnd, openMigrator } from '../../storage/index.ts'
import { createPrinter } from '../print.ts'
import { run } from '../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-copycommand-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function runCopy(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const output = (name: 'out' | 'err') => ({ write: (text: string) => (written[name] += text) })
  const code = await run(args, createPrinter(output('out'), output('err'), {}))
  return { code, ...written }
}

test('copy counts, continues an earlier copy, copies, compares, and reports each step on a line', async () => {
  const [from, to] = ['from', 'to'].map((name) => `sqlite:${join(folder, `${name}.db`)}`) as [string, string]
  let fromId: string
  {
    await using box = await open(from, { contention: false, series: false })
    await box.jobs.addMany([{ kind: 'a' }, { kind: 'b' }, { kind: 'c' }])
    await using end = await openCopyEnd(from)
    fromId = (await end.storeId())!
  }
  const plan = await runCopy('copy', from, to, '--dry-run')
  assert.deepEqual(plan, {
    code: 0,
    out: '           3  job_queue\n3 rows would be copied, 3 of them jobs\n',
    err: '',
  })

  // As a copy that was killed at once leaves it.
  {
    await using migrator = await openMigrator(to)
    await migrator.up()
    await using end = await openCopyEnd(to)
    await end.begin(fromId)
  }
  const status = await runCopy('migrate', 'status', '--database', to)
  assert.equal(status.code, 1)
  assert.match(
    status.out,
    /is being filled by `signalbox copy`, which has not ended: run the same copy again/,
  )
  const doctor = await runCopy('doctor', '--database', to)
  assert.match(doctor.out, /problem {2}schema: .*It is the target of an unfinished `signalbox copy`/)

  process.env.COPY_TEST_TO = to
  const copied = await runCopy('copy', from, 'env:COPY_TEST_TO')
  assert.deepEqual([copied.code, copied.err], [0, ''])
  assert.match(
    copied.out,
    /^went on with 3 of 3 rows, 3 of them jobs, in [\d.]+ s; compared both sides in [\d.]+ s\nsha256 [0-9a-f]{64}\n$/,
  )

  const verified = await runCopy('copy', from, to, '--verify-only', '--json')
  const lines = verified.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  assert.deepEqual([lines[0]!.event, lines[0]!.phase, lines[0]!.total], ['progress', 'verifying', 6])
  const { event, rows, jobs, sha256 } = lines.at(-1)!
  assert.deepEqual([event, rows, jobs], ['verified', 3, 3])
  assert.ok(copied.out.includes(String(sha256)))
})

test('invalid arguments end with 2, and a refusal with 1 and its reason', async () => {
  const from = `sqlite:${join(folder, 'from.db')}`
  for (const [args, code, said] of [
    [[from, from], 2, /the same store/],
    [[from, 'memory:'], 2, /gone with its process/],
    [[from, 'env:NO_SUCH_VARIABLE'], 2, /the variable NO_SUCH_VARIABLE is not set/],
    [[from, 'sqlite:x.db', '--dry-run', '--verify-only'], 2, /not both/],
    [[from, 'sqlite:x.db', '--wait', 'soon'], 2, /--wait/],
    [[from, `sqlite:${join(folder, 'to.db')}`], 1, /copied to this target before/],
  ] as const) {
    const answer = await runCopy('copy', ...args)
    assert.deepEqual([answer.code, answer.out], [code, ''], answer.err)
    assert.match(answer.err, said)
  }
})
