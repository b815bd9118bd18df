import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { test } from 'vitest'
import { version } from '../core/version.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))

type Child = ChildProcessByStdio<null, Readable, Readable>

function start(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  nodeArgs: readonly string[] = [],
): Child {
  return spawn(process.execPath, [...nodeArgs, main, ...args], {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Runs a command line to its end. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}, nodeArgs: readonly string[] = []) {
  const child = start(args, env, nodeArgs)
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { out, err, code: code as number | null }
}

test('every mistake in the command line is one clear line and exit code 2', async () => {
  const mistakes: [string[], NodeJS.ProcessEnv, RegExp][] = [
    [['nope'], {}, /unknown command 'nope'/],
    [['serve', '--nope'], {}, /unknown option '--nope'/],
    [['serve', 'here'], {}, /too many arguments/],
    [['serve', '--port'], {}, /argument missing/],
    [['serve', '--port', 'abc'], {}, /--port must be a whole number from 0 to 65535, not "abc"/],
    [['serve', '--token', 'x'], {}, /unknown option '--token'/],
    [['serve'], { SIGNALBOX_PORT: '' }, /SIGNALBOX_PORT must be .* not ""/],
    [['serve'], { SIGNALBOX_HOST: '' }, /SIGNALBOX_HOST must be .* not ""/],
    [['config', 'nope'], {}, /unknown command 'nope'/],
    [['config', 'print', 'it'], {}, /too many arguments/],
    [['token', 'nope'], {}, /unknown command 'nope'/],
  ]
  // Two at a time: each is a whole Node.
  for (let i = 0; i < mistakes.length; i += 2) {
    await Promise.all(
      mistakes.slice(i, i + 2).map(async ([args, env, message]) => {
        const { code, out, err } = await run(args, env)
        assert.equal(code, 2, err)
        assert.equal(out, '')
        assert.match(err, message)
        assert.match(err, /^signalbox: [^\n]+\n$/)
      }),
    )
  }
})

test('the version and the help are answers, and a missing command is a mistake', async () => {
  assert.deepEqual(await run(['--version']), { out: `${version}\n`, err: '', code: 0 })
  const help = await run(['--help'])
  assert.equal(help.code, 0)
  assert.match(help.out, /Examples:\n {2}signalbox demo\n {2}signalbox serve/)
  const nothing = await run([])
  assert.deepEqual(nothing, { out: '', err: help.out, code: 2 })
})

test('an older Node gets the needed and the found version, before anything is imported', async () => {
  const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`
  const result = await run(['--version'], {}, [
    '--import',
    `data:text/javascript,${encodeURIComponent(older)}`,
  ])
  assert.deepEqual(result, {
    out: '',
    err: 'signalbox: Node 24 or newer is required; this is Node 20.20.2.\n',
    code: 1,
  })
  const source = await readFile(main, 'utf8')
  assert.match(source, /^#!\/usr\/bin\/env node\n/)
  assert.doesNotMatch(source, /^import\b|\bfrom '/m)
})

test('a reader that closes the pipe ends the output, without an error', async () => {
  const child = start(['--help'])
  child.stdout.destroy()
  const [err, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  assert.deepEqual([code, err], [0, ''])
})

test.runIf(existsSync('/dev/full'))('an output that does not fit on the disk is one clear line', async () => {
  const full = openSync('/dev/full', 'w')
  const child = spawn(process.execPath, [main, '--help'], { stdio: ['ignore', full, 'pipe'] })
  closeSync(full)
  const [err, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')])
  assert.deepEqual([code, err], [1, 'signalbox: the output could not be written (ENOSPC).\n'])
})

test('a server whose log has lost its reader continues', async () => {
  const child = start(['serve', '--port=0', '--database=memory:', '--json'])
  try {
    const [line] = await once(child.stdout, 'data')
    const { url } = JSON.parse(String(line)) as { url: string }
    child.stderr.destroy()
    for (let count = 0; count < 3; count++) {
      assert.equal((await fetch(`${url}/v1/queues`)).status, 200)
      // Its log is written now and then.
      await sleep(150)
    }
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'close'), [0, null])
  } finally {
    child.kill('SIGKILL')
  }
})
