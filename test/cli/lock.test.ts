import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { test } from 'vitest'
import { within } from '../support/deadline.ts'
import { createWorkplace, type Workplace } from './command.ts'

const key = { operation: 'deploy', resource: 'eu-1' }

function databaseOf({ folder }: Workplace): string {
  return `sqlite:${folder}/signalbox.db`
}

function openStore(place: Workplace) {
  return open(databaseOf(place))
}

/** A child that says something in JavaScript. */
function js(code: string): readonly string[] {
  return ['--', process.execPath, '-e', code]
}

/** Looks until there is something; fails when there is nothing in 20 seconds. */
async function until<Value>(look: () => Value | Promise<Value>): Promise<Found<Value>> {
  for (const deadline = performance.now() + 20_000; ; await sleep(20)) {
    const found = await look()
    if (found) return found as Found<Value>
    assert.ok(performance.now() < deadline, 'it did not come within 20 s')
  }
}

type Found<Value> = Exclude<Value, false | null | undefined>

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended, as it should.
  }
}

// Each test has its own folder and its own processes, and most of it is waiting for them: so they run side by side.
test.concurrent('a command runs under the lock with its token, and its exit code sets the outcome', async () => {
  using place = createWorkplace()
  const good = await place.run([
    'lock',
    'deploy',
    'eu-1',
    '--node',
    'a',
    ...js('console.log(process.env.SIGNALBOX_LOCK_TOKEN)'),
  ])
  assert.deepEqual([good.code, good.err], [0, ''])
  assert.match(good.out, /^\d+\n$/)
  const bad = await place.run(['lock', 'deploy', 'eu-1', '--node', 'a', ...js('process.exit(3)')])
  assert.deepEqual([bad.code, bad.out, bad.err], [3, '', ''])
  await using box = await openStore(place)
  const { holder, lastOutcome } = await box.locks.inspect(key)
  assert.deepEqual(
    [holder, lastOutcome?.outcome, lastOutcome?.error?.message],
    [null, 'failure', 'exit code 3'],
  )
})

test.concurrent('a busy lock refuses with exit code 75, a deadline ends with 124; the command does not run', async () => {
  using place = createWorkplace()
  await using box = await openStore(place)
  await using _held = await box.locks.hold('deploy', 'eu-1', { node: 'other' })
  const refused = await place.run(['lock', 'deploy', 'eu-1', '--no-wait', ...js('console.log("ran")')])
  assert.deepEqual([refused.code, refused.out], [75, ''])
  assert.match(refused.err, /held by other/)
  const late = await place.run(['lock', 'deploy', 'eu-1', '--deadline', '300ms', ...js('console.log("ran")')])
  assert.deepEqual([late.code, late.out], [124, ''])
  assert.match(late.err, /deploy of "eu-1" was not granted within the deadline/)
})

test.concurrent('a named store wins over a server in the environment, and naming both is a mistake', async () => {
  using place = createWorkplace()
  await using box = await openStore(place)
  const nobodyThere = 'http://127.0.0.1:1'
  const store = ['--database', databaseOf(place)]
  const { code, err } = await place.run(['lock', 'deploy', 'eu-1', ...store, ...js('process.exit(3)')], {
    SIGNALBOX_URL: nobodyThere,
  })
  assert.deepEqual([code, err], [3, ''])
  assert.equal((await box.locks.inspect(key)).lastOutcome?.outcome, 'failure')
  const both = await place.run(['lock', 'deploy', 'eu-1', '--url', nobodyThere, ...store, ...js('')])
  assert.equal(both.code, 2)
  assert.match(both.err, /Give one or the other/)
  const nameless = await place.run(['lock', 'deploy', 'eu-1', '--namespace', '', ...js('')])
  assert.equal(nameless.code, 2)
  assert.match(nameless.err, /--namespace/)
})

test.concurrent('a lost lock ends the processes that the command started, also after the command itself ended', {
  timeout: 60_000,
}, async () => {
  using place = createWorkplace()
  await using box = await openStore(place)
  const [pidFile, askedFile] = [join(place.folder, 'pid'), join(place.folder, 'asked')]
  const grandchild = `const { renameSync, writeFileSync } = require('node:fs')
    process.on('SIGTERM', () => writeFileSync(${JSON.stringify(askedFile)}, ''))
    setInterval(() => {}, 1000)
    writeFileSync('pid.part', String(process.pid))
    renameSync('pid.part', ${JSON.stringify(pidFile)})`
  // It inherits the standard output, so the run is over only when the grandchild is gone too.
  const child = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(grandchild)}], { stdio: 'inherit' })
    setInterval(() => {}, 1000)`
  const running = place.run(['lock', 'deploy', 'eu-1', '--node', 'a', '--ttl', '1s', ...js(child)])
  const pid = Number(await until(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8')))
  try {
    const holder = await until(async () => (await box.locks.inspect(key)).holder)
    await box.locks.evict({ ...key, node: holder.node, requestId: holder.requestId })
    const { code, err } = await within(20_000, 'the end of the command and its child', running)
    assert.equal(code, 125, err)
    assert.ok(existsSync(askedFile), 'SIGTERM did not reach the grandchild')
  } finally {
    endProcess(pid)
  }
})

test.concurrent('a lost lock ends the command, and the exit code is 125', async () => {
  using place = createWorkplace()
  await using box = await openStore(place)
  const running = place.run([
    'lock',
    'deploy',
    'eu-1',
    '--node',
    'a',
    '--ttl',
    '1s',
    ...js('setInterval(() => {}, 1000)'),
  ])
  const holder = await until(async () => (await box.locks.inspect(key)).holder)
  await box.locks.evict({ ...key, node: holder.node, requestId: holder.requestId })
  const { code, err } = await running
  assert.equal(code, 125)
  assert.match(err, /lost deploy of "eu-1"/)
})

test.concurrent('a missing command gives exit code 127, and a signalled one 128 plus the signal number', async () => {
  using place = createWorkplace()
  const missing = await place.run(['lock', 'deploy', 'eu-1', '--', './not-there'])
  assert.equal(missing.code, 127)
  const killed = await place.run(['lock', 'deploy', 'eu-1', ...js('process.kill(process.pid, "SIGKILL")')])
  assert.equal(killed.code, 137)
})

test.concurrent('the lock command also uses locks of a server', async () => {
  using place = createWorkplace()
  await using server = await place.serve(['--log-level=warn'])
  const { code, out } = await place.run([
    'lock',
    'deploy',
    'eu-1',
    '--url',
    server.url,
    ...js('console.log("ran")'),
  ])
  assert.deepEqual([code, out], [0, 'ran\n'])
  const reply = await fetch(`${server.url}/v1/locks/state?operation=deploy&resource=eu-1`)
  const state = (await reply.json()) as { lastOutcome: { outcome: string } }
  assert.equal(state.lastOutcome.outcome, 'success')
})

test.concurrent('the lock command passes signals on to its command, and returns its exit code', async () => {
  using place = createWorkplace()
  const code =
    'process.on("SIGTERM", () => process.exit(9)); process.kill(process.ppid, "SIGTERM"); setInterval(() => {}, 1000)'
  const ended = await place.run(['lock', 'deploy', 'eu-1', ...js(code)])
  assert.equal(ended.code, 9)
  await using box = await openStore(place)
  assert.equal((await box.locks.inspect(key)).lastOutcome?.outcome, 'failure')
})
