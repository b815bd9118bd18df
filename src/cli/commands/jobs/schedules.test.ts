import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, test } from 'vitest'
import { type Box, open } from '../../../index.ts'
import { createPrinter } from '../../print.ts'
import { run } from '../../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-schedules-'))
const database = `sqlite:${join(folder, 'store.db')}` as const
let box: Box
beforeAll(async () => {
  box = await open(database)
})
afterAll(async () => {
  await box.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs a command line in this process, with what it printed. */
async function schedules(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const line = ['schedules', ...args, '--database', database]
  const code = await run(line, createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

test('a schedule is set, listed, paused, resumed, run and removed from the shell', async () => {
  const set = ['set', 'report', '--cron', '0 9 * * 1-5', '--time-zone', 'Asia/Shanghai', '--kind', 'report']
  const made = await schedules(...set, '--payload', '{"to":"team"}', '--catch-up', 'all')
  assert.deepEqual([made.code, made.err], [0, ''])
  assert.match(made.out, /^set report: next 20\d\d-\d\d-\d\dT01:00:00\.000Z\n$/)
  const { job, catchUp } = (await box.jobs.schedules.find('report'))!
  assert.deepEqual([job.kind, job.payload, catchUp], ['report', { to: 'team' }, 'all'])
  const listed = await schedules('list')
  assert.match(
    listed.out,
    /^NAME +WHEN +KIND +NEXT +LAST\nreport {2}0 9 \* \* 1-5 Asia\/Shanghai {2}report {2}\d.*Z {2}never\n$/,
  )
  assert.equal((await schedules('pause', 'report')).out, 'paused report\n')
  assert.match((await schedules('run', 'report')).out, /^added job \w{26}\n$/)
  assert.equal((await box.jobs.list()).items.length, 1)
  assert.match((await schedules('resume', 'report')).out, /^resumed report: next /)
  const { items } = JSON.parse((await schedules('list', '--json')).out) as { items: { name: string }[] }
  assert.deepEqual(
    items.map(({ name }) => name),
    ['report'],
  )
  assert.equal((await schedules('remove', 'report')).out, 'removed report\n')
  assert.deepEqual((await box.jobs.schedules.list()).items, [])
})

test('an interval is listed in a unit that people read', async () => {
  await box.jobs.schedules.set('sweep', { everyMs: 600_000, job: { kind: 'sweep' } })
  assert.match((await schedules('ls')).out, /sweep {2}every 10 min {2}sweep/)
  await box.jobs.schedules.remove('sweep')
})

test('a mistake is reported, with its own exit code', async () => {
  const never = await schedules('set', 'never', '--cron', '0 0 30 2 *', '--kind', 'k')
  assert.equal(never.code, 2)
  assert.match(never.err, /names no day that exists/)
  const both = await schedules('set', 'both', '--cron', '* * * * *', '--every', '1m', '--kind', 'k')
  assert.equal(both.code, 2)
  const payload = await schedules('set', 's', '--every', '1m', '--kind', 'k', '--payload', '{')
  assert.match(payload.err, /--payload must be JSON/)
  const absent = await schedules('run', 'absent')
  assert.deepEqual([absent.code, /no schedule "absent"/.test(absent.err)], [1, true])
  assert.equal((await schedules('remove', 'absent')).code, 1)
  assert.deepEqual((await box.jobs.schedules.list()).items, [])
})
