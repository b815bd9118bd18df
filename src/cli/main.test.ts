import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
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
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Runs a command line to its end. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}, nodeArgs: readonly string[] = []) {
  const child = start(args, env, nodeArgs)
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { out, err, code: code as number | null }
}

async function firstLine(child: Child): Promise<string> {
  let line = ''
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    line += chunk
    if (line.includes('\n')) break
  }
  return line
}

/** Starts a server for the length of a story; it never outlives it. */
async function serving(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  story: (child: Child, line: string, url: string, stderr: Promise<string>) => Promise<void>,
): Promise<void> {
  const child = start(['serve', ...args], env)
  // Read from the start: Node throws away what nobody has read when a child exits.
  const stderr = text(child.stderr)
  try {
    const line = await firstLine(child)
    const [url] = /http:\/\/[^\s"]+/.exec(line) ?? []
    assert.ok(url, `no address in ${JSON.stringify(line)}`)
    await story(child, line, url, stderr)
  } finally {
    child.kill('SIGKILL')
  }
}

test('serve says where it listens, answers there, and ends well on either signal', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    await serving(['--port', '0'], {}, async (child, line, url, stderr) => {
      assert.equal(line, `Signalbox ${version} is listening on ${url} (Ctrl+C stops it)\n`)
      const reply = await fetch(`${url}/livez`)
      assert.deepEqual(await reply.json(), { status: 'ok', version })
      const ended = once(child, 'exit')
      child.kill(signal)
      assert.deepEqual(await ended, [0, null])
      assert.equal(await stderr, '')
    })
  }
})

test('serve --json prints one line for programs', async () => {
  await serving(['--json', '--port=0'], {}, async (child, line, url) => {
    assert.deepEqual(JSON.parse(line), { event: 'listening', version, url, pid: child.pid })
  })
})

test('a flag goes before its environment variable, and that before the default', async () => {
  await serving([], { SIGNALBOX_PORT: '0', SIGNALBOX_HOST: '127.0.0.2' }, async (_child, _line, url) => {
    assert.match(url, /^http:\/\/127\.0\.0\.2:/)
    assert.notEqual(new URL(url).port, '7420')
  })
  await serving(
    ['--host', 'localhost', '--port', '0'],
    { SIGNALBOX_HOST: '127.0.0.2' },
    async (_child, _line, url) => {
      assert.match(url, /^http:\/\/127\.0\.0\.1:/)
    },
  )
})

test('a second signal ends serve at once, whatever its clients do', async () => {
  await serving(['--port', '0'], {}, async (child, _line, url, stderr) => {
    const { host, port } = new URL(url)
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    socket.write(
      `POST / HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n`,
    )
    await once(socket, 'data')
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    // Draining shows that the first signal has arrived; two at once would count as one.
    while ((await fetch(`${url}/readyz`)).status !== 503);
    child.kill('SIGINT')
    assert.deepEqual(await ended, [1, null])
    assert.match(await stderr, /^signalbox: A second signal came;.*\n$/)
  })
})

test('a port in use is one clear line and a failure', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const { code, out, err } = await run(['serve', '--port', String(port)])
  other.close()
  assert.equal(code, 1)
  assert.equal(out, '')
  assert.match(
    err,
    new RegExp(`^signalbox: Port ${port} on 127\\.0\\.0\\.1 is already in use\\..*--port.*\\n$`),
  )
})

test('an address that others could reach refuses to start', async () => {
  const { code, err } = await run(['serve', '--host', '0.0.0.0', '--port', '0'])
  assert.equal(code, 2)
  assert.match(err, /^signalbox: host must be a loopback address.*\n$/)
})

test('every mistake in the command line is one clear line and exit code 2', async () => {
  const mistakes: [string[], NodeJS.ProcessEnv, RegExp][] = [
    [['nope'], {}, /unknown command 'nope'/],
    [['serve', '--nope'], {}, /unknown option '--nope'/],
    [['serve', 'here'], {}, /too many arguments/],
    [['serve', '--port'], {}, /argument missing/],
    [['serve', '--port', 'abc'], {}, /'abc' is invalid\. It must be a whole number from 0 to 65535/],
    [['serve', '--port', '99999'], {}, /'99999' is invalid/],
    [['serve', '--port', '\u001b[31m\n1'], {}, /'\\u001b\[31m 1' is invalid/],
    [['serve'], { SIGNALBOX_PORT: '' }, /value '' from env 'SIGNALBOX_PORT' is invalid/],
    [['serve'], { SIGNALBOX_HOST: '' }, /value '' from env 'SIGNALBOX_HOST' is invalid/],
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

test('the version and the help are answers, and no command at all is a mistake', async () => {
  assert.deepEqual(await run(['--version']), { out: `${version}\n`, err: '', code: 0 })
  const help = await run(['--help'])
  assert.equal(help.code, 0)
  assert.match(help.out, /Examples:\n {2}signalbox serve\n/)
  const nothing = await run([])
  assert.deepEqual(nothing, { out: '', err: help.out, code: 2 })
})

test('an older Node is told which version is needed and which was found, before anything is imported', async () => {
  const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`
  const result = await run(['--version'], {}, [
    '--import',
    `data:text/javascript,${encodeURIComponent(older)}`,
  ])
  assert.deepEqual(result, {
    out: '',
    err: 'signalbox: it needs Node 24 or newer, and this is Node 20.20.2.\n',
    code: 1,
  })
  const source = await readFile(main, 'utf8')
  assert.match(source, /^#!\/usr\/bin\/env node\n/)
  assert.doesNotMatch(source, /^import\b|\bfrom '/m)
})
