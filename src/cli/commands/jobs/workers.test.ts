import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, test } from 'vitest'
import { type Box, open } from '../../../index.ts'
import { createPrinter } from '../../print.ts'
import { run } from '../../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-workers-'))
const database = `sqlite:${join(folder, 'store.db')}` as const
let box: Box
beforeAll(async () => {
  box = await open(database, { jobs: { release: '2026-11-18' } })
})
afterAll(async () => {
  await box.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs a command line in this process, with what it printed. */
async function workers(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const line = ['workers', ...args, '--database', database]
  const code = await run(line, createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000
  while (!(await isSo())) {
    assert.ok(performance.now() < deadline, what)
    await sleep(20)
  }
}

test('workers are listed in a table, and quieted, resumed and stopped from the shell', async () => {
  assert.match((await workers('ls')).out, /^There are no workers\./)
  const worker = box.jobs.worker({ workerId: 'ada', queues: ['mail', 'sms'], handlers: { mail: () => 1 } })
  await worker.start()
  await until('it is listed', async () => (await box.jobs.workers()).items.length === 1)
  const listed = (await workers('list')).out.split('\n')
  assert.match(listed[0]!, /^WORKER +STATE +HOST +QUEUES +RUNNING +SLOTS +RELEASE +UP +SEEN +LONGEST$/)
  assert.match(listed[1]!, /^ada +running +\S+ +mail, sms +0 +10 +2026-11-18 +\d+ s +\d+ s ago +-$/)
  const { items, at } = JSON.parse((await workers('ls', '--queue', 'mail', '--json')).out) as {
    items: { id: string }[]
    at: number
  }
  assert.deepEqual([items.map(({ id }) => id), at > 0], [['ada'], true])
  assert.equal((await workers('ls', '--queue', 'post')).out, 'No worker matches.\n')

  assert.equal((await workers('quiet', 'ada')).out, 'ada finishes what it runs and claims nothing more\n')
  await until('the worker is quiet', () => worker.mode === 'quiet')
  assert.match((await workers('ls', '--state', 'quiet')).out, /\nada +quiet /)
  assert.equal((await workers('resume', 'ada')).out, 'ada claims again\n')
  await until('the worker claims again', () => worker.mode === 'running')
  const stopped = JSON.parse((await workers('stop', 'ada', '--grace', '5m', '--json')).out) as object
  assert.deepEqual({ ...stopped, id: 'ada', wanted: 'stop' }, stopped)
  await until('the worker stopped', () => worker.mode === 'stopped')
  assert.match((await workers('ls')).out, /^There are no workers\./)
})

test('a mistake is reported, with its own exit code', async () => {
  const absent = await workers('quiet', 'eve')
  assert.equal(absent.code, 1)
  assert.match(absent.err, /There is no worker "eve"/)
  const state = await workers('ls', '--state', 'odd')
  assert.equal(state.code, 2)
  assert.match(state.err, /--state must be one of/)
  assert.equal((await workers('stop', 'eve', '--grace', 'long')).code, 2)
})
