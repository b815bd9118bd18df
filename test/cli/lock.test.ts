import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { test } from 'vitest'
import { createWorkplace, type Workplace } from './command.ts'

const key = { operation: 'deploy', resource: 'eu-1' }

function openStore(place: Workplace) {
  return open(`sqlite:${place.folder}/signalbox.db`)
}

/** A child that says something in JavaScript. */
function js(code: string): readonly string[] {
  return ['--', process.execPath, '-e', code]
}

test('a command runs under the lock with its token, and its exit code is the answer and the outcome', async () => {
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

test('a busy lock refuses with 75, and a deadline that comes is 124; the command does not run', async () => {
  using place = createWorkplace()
  await using box = await openStore(place)
  await using _held = await box.locks.hold('deploy', 'eu-1', { node: 'other' })
  const refused = await place.run(['lock', 'deploy', 'eu-1', '--no-wait', ...js('console.log("ran")')])
  assert.deepEqual([refused.code, refused.out], [75, ''])
  assert.match(refused.err, /held by other/)
  const late = await place.run(['lock', 'deploy', 'eu-1', '--deadline', '300ms', ...js('console.log("ran")')])
  assert.deepEqual([late.code, late.out], [124, ''])
})

test('when the lock is lost the command is ended, and the exit code is 125', async () => {
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
  let holder = (await box.locks.inspect(key)).holder
  const deadline = performance.now() + 20_000
  while (holder === null) {
    assert.ok(performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 20))
    holder = (await box.locks.inspect(key)).holder
  }
  await box.locks.evict({ ...key, node: holder.node, requestId: holder.requestId })
  const { code, err } = await running
  assert.equal(code, 125)
  assert.match(err, /lost deploy of "eu-1"/)
})

test('a command that is not there is 127, and one that a signal ended is 128 and its number', async () => {
  using place = createWorkplace()
  const missing = await place.run(['lock', 'deploy', 'eu-1', '--', './not-there'])
  assert.equal(missing.code, 127)
  const killed = await place.run(['lock', 'deploy', 'eu-1', ...js('process.kill(process.pid, "SIGKILL")')])
  assert.equal(killed.code, 137)
})

test('the lock may be a server’s', async () => {
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

test('a signal is passed on to the command, whose exit code is the answer', async () => {
  using place = createWorkplace()
  const code =
    'process.on("SIGTERM", () => process.exit(9)); process.kill(process.ppid, "SIGTERM"); setInterval(() => {}, 1000)'
  const ended = await place.run(['lock', 'deploy', 'eu-1', ...js(code)])
  assert.equal(ended.code, 9)
  await using box = await openStore(place)
  assert.equal((await box.locks.inspect(key)).lastOutcome?.outcome, 'failure')
})
