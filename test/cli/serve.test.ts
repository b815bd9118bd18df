import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { version } from '../../src/core/version.ts'
import { createWorkplace } from './command.ts'

const aSecret = 'canary-0123456789abcdef0123456789abcdef'

function post(url: string, path: string, body: unknown, token?: string): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

// Each test has its own folder and its own processes, and most of it is waiting for them: so they run side by side.
test.concurrent('serve prints its address, its store and its access rules, answers, and ends cleanly on either signal', async () => {
  using place = createWorkplace()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    await using server = await place.serve(['--log-level=error'])
    const { url } = server
    assert.equal(
      server.out(),
      `Signalbox ${version} is listening on ${url} (Ctrl+C stops it)\n` +
        'Database: sqlite:signalbox.db\n' +
        'Authentication: off (only this machine can reach the server)\n' +
        'Channel secrets: plain text in the database (SIGNALBOX_SECRET_KEY is not set)\n' +
        `Try: curl ${url}/v1/queues\n`,
    )
    assert.equal((await fetch(`${url}/readyz`)).status, 200)
    assert.equal((await fetch(`${url}/v1/queues`)).status, 200)
    server.kill(signal)
    const { code, err } = await server.ended
    assert.deepEqual([code, err], [0, ''])
  }
})

test.concurrent('serve --json prints one line for programs', async () => {
  using place = createWorkplace()
  await using server = await place.serve(['--json', '--database=sqlite:mine.db?synchronous=normal'])
  const { warnings, ...line } = JSON.parse(server.out())
  assert.equal(server.out().indexOf('\n'), server.out().length - 1)
  const { url, pid } = server
  assert.deepEqual(line, {
    event: 'listening',
    version,
    url,
    pid,
    database: 'sqlite:mine.db',
    needsToken: false,
    channelSecrets: 'plain',
  })
  assert.match(warnings[0], /synchronous=normal/)
})

test.concurrent('a flag wins over its environment variable, that over the file, and that over the default', async () => {
  using place = createWorkplace()
  writeFileSync(
    join(place.folder, 'signalbox.config.json'),
    '{ "host": "127.0.0.3", "port": 1, "database": "memory:", "json": true }',
  )
  {
    await using server = await place.serve([], { SIGNALBOX_PORT: '0', SIGNALBOX_HOST: '127.0.0.2' })
    assert.match(server.url, /^http:\/\/127\.0\.0\.2:/)
    assert.equal(JSON.parse(server.out()).database, 'memory:')
  }
  await using server = await place.serve(['--host', 'localhost', '--port', '0'], {
    SIGNALBOX_HOST: '127.0.0.2',
  })
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:/)
})

test.concurrent('serve lists every mistake of the configuration, and does not touch the store', async () => {
  using place = createWorkplace()
  const { code, out, err } = await place.run(['serve', '--port', '\u001b[31m1', '--retention', 'long'], {
    SIGNALBOX_HOST: '',
    SIGNALBOX_NOPE: '1',
  })
  assert.equal(code, 2)
  assert.equal(out, '')
  const lines = err.split('\n')
  assert.equal(lines.length, 5)
  assert.match(lines[0]!, /^signalbox: SIGNALBOX_HOST must be an IP address or localhost, not ""\.$/)
  assert.match(lines[1]!, /^signalbox: --port must be a whole number from 0 to 65535, not "\\u001b\[31m1"\.$/)
  assert.match(lines[2]!, /^signalbox: --retention must be milliseconds/)
  assert.match(lines[3]!, /^signalbox: "SIGNALBOX_NOPE" is not a variable of Signalbox\./)
  assert.equal(existsSync(join(place.folder, 'signalbox.db')), false)
})

test.concurrent('a second signal ends serve at once, whatever its clients do', async () => {
  using place = createWorkplace()
  await using server = await place.serve(['--log-level=silent'])
  const { host, port } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  socket.write(
    `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n`,
  )
  await once(socket, 'data')
  server.kill('SIGTERM')
  // Draining shows that the first signal has arrived; two at once would count as one.
  while ((await fetch(`${server.url}/readyz`)).status !== 503);
  server.kill('SIGINT')
  const { code, err } = await server.ended
  assert.equal(code, 1)
  assert.match(err, /^signalbox: A second signal arrived.*\n$/)
  socket.destroy()
})

test.concurrent('a stop waits for running requests, and at most for the grace time', async () => {
  using place = createWorkplace()
  await using server = await place.serve(['--grace', '50ms', '--log-level=silent'])
  const { host, port } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  socket.write(
    `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n`,
  )
  await once(socket, 'data')
  server.kill('SIGTERM')
  assert.equal((await server.ended).code, 0)
  socket.destroy()
})

test.concurrent('a port in use gives one clear line and a failure', async () => {
  using place = createWorkplace()
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const { code, out, err } = await place.run(['serve', '--port', String(port), '--database=memory:'])
  other.close()
  assert.equal(code, 1)
  assert.equal(out, '')
  assert.match(
    err,
    new RegExp(
      `^{.*"server.start".*}\\nsignalbox: Port ${port} on 127\\.0\\.0\\.1 is already in use\\..*--port.*\\n$`,
    ),
  )
})

test.concurrent('an unreachable database gives one clear line without its password, and a failure', async () => {
  using place = createWorkplace()
  for (const scheme of ['postgres', 'mysql']) {
    const address = `${scheme}://u:CANARY@127.0.0.1:1/nowhere`
    const { code, out, err } = await place.run(['serve', '--port=0'], { SIGNALBOX_DATABASE: address })
    assert.equal(code, 1)
    assert.equal(out, '')
    assert.match(err, /^signalbox: [^\n]*ECONNREFUSED[^\n]*\n$/)
    assert.doesNotMatch(err, /CANARY/)
  }
})

test.concurrent('a server that other machines can reach needs a token to start, and then requires one', async () => {
  using place = createWorkplace()
  const everywhere = ['--host=0.0.0.0', '--allowed-hosts=127.0.0.1,jobs.example.com']
  const refused = await place.run(['serve', '--port=0', ...everywhere])
  assert.equal(refused.code, 2)
  assert.match(
    refused.err,
    /^\{.*"server\.start".*\}\nsignalbox: host "0\.0\.0\.0" is reachable from other machines.*token.*\n$/,
  )

  await using server = await place.serve([...everywhere, '--log-level=info'], { SIGNALBOX_TOKEN: aSecret })
  const url = `http://127.0.0.1:${new URL(server.url).port}`
  assert.match(server.out(), /^Authentication: on/m)
  assert.equal((await fetch(`${url}/livez`)).status, 200)
  assert.equal((await fetch(`${url}/v1/queues`)).status, 401)
  assert.equal((await post(url, '/v1/jobs', { kind: 'hello' }, `${aSecret}x`)).status, 401)
  assert.equal((await post(url, '/v1/jobs', { kind: 'hello' }, aSecret)).status, 201)
  server.kill('SIGTERM')
  const { out, err } = await server.ended
  assert.match(err, /"route":"addJobs"/, 'requests are logged')
  assert.doesNotMatch(out + err, /canary/)
})

test.concurrent('a token made by hand is enough for a public server, and is required on the loopback too', async () => {
  using place = createWorkplace()
  const made = await place.call(['token', 'create', '--name', 'ci', '--scope', 'work'])
  assert.equal(made.code, 0, made.err)
  const secret = made.out.trim()
  for (const host of ['--host=0.0.0.0', '--host=127.0.0.1']) {
    await using server = await place.serve([host, '--allowed-hosts=127.0.0.1', '--json'])
    const url = `http://127.0.0.1:${new URL(server.url).port}`
    assert.equal(JSON.parse(server.out()).needsToken, true)
    assert.equal((await fetch(`${url}/v1/queues`)).status, 401)
    assert.equal((await post(url, '/v1/jobs', { kind: 'hello' }, secret)).status, 201)
  }
})

test.concurrent('secrets come from a file that other users cannot read', async () => {
  using place = createWorkplace()
  const file = join(place.folder, 'secrets')
  writeFileSync(file, `${aSecret}\n`, { mode: 0o644 })
  const refused = await place.run(['serve', '--port=0', '--token-file', file])
  assert.equal(refused.code, 2)
  assert.match(
    refused.err,
    /^signalbox: --token-file names .* which other users may read or write \(mode 644\)/,
  )
  assert.doesNotMatch(refused.err, /canary/)

  writeFileSync(join(place.folder, 'sound'), `${aSecret}\n`, { mode: 0o600 })
  await using server = await place.serve(['--token-file', 'sound'])
  assert.equal((await fetch(`${server.url}/v1/queues`)).status, 401)
  const headers = { authorization: `Bearer ${aSecret}` }
  assert.equal((await fetch(`${server.url}/v1/queues`, { headers })).status, 200)
})

test.concurrent('other users cannot read the database file and its folder', async () => {
  using place = createWorkplace()
  await using _server = await place.serve(['--database=sqlite:data/box/mine.db'])
  const modeOf = (path: string) => (statSync(join(place.folder, path)).mode & 0o777).toString(8)
  assert.deepEqual(['data', 'data/box'].map(modeOf), ['700', '700'])
  assert.deepEqual(
    ['mine.db', 'mine.db-wal', 'mine.db-shm'].map((file) => modeOf(`data/box/${file}`)),
    ['600', '600', '600'],
  )
})

test.concurrent('serve deletes jobs that ended before the retention, in every namespace', async () => {
  using place = createWorkplace()
  await using server = await place.serve(['--retention=1s', '--log-level=warn'])
  const isForgotten = async (namespace: string) => {
    const ask = (path: string, body?: unknown) => {
      const headers = { 'content-type': 'application/json', 'signalbox-namespace': namespace }
      const post = { method: 'POST', headers, body: JSON.stringify(body) }
      return fetch(`${server.url}/v1/jobs${path}`, body === undefined ? { headers } : post)
    }
    const { id } = (await (await ask('', { kind: 'hello' })).json()) as { id: string }
    const { items } = (await (await ask('/claim', {})).json()) as { items: readonly [{ token: string }] }
    assert.equal((await ask(`/${id}/ack`, { token: items[0].token })).status, 200)
    while ((await ask(`/${id}`)).status !== 404) await sleep(50)
  }
  await Promise.all(['default', 'shop'].map(isForgotten))
})

test.concurrent('--no-migrate changes no database: without a schema it fails with a clear line, with one it serves', async () => {
  using place = createWorkplace()
  const { code, err } = await place.run(['serve', '--no-migrate', '--port=0'])
  assert.equal(code, 1)
  assert.match(err, /^signalbox: sqlite:signalbox\.db has no schema\. Run `signalbox migrate up`.*\n$/)
  assert.equal(existsSync(join(place.folder, 'signalbox.db')), false)

  assert.equal((await place.call(['migrate', 'up'])).code, 0)
  await using server = await place.serve(['--no-migrate'])
  assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
})

test.concurrent('the timeouts of dispatch are settings: nodes get the heartbeat of a flag or a YAML file', async () => {
  using place = createWorkplace()
  const heartbeatOf = async (url: string) => {
    const reply = await fetch(`${url}/v1/nodes/connect`)
    return ((await reply.json()) as { heartbeatMs: number }).heartbeatMs
  }
  {
    await using server = await place.serve(['--log-level=error', '--dispatch-heartbeat=3s'])
    assert.equal(await heartbeatOf(server.url), 3_000)
  }
  writeFileSync(
    join(place.folder, 'signalbox.config.yaml'),
    'log_level: error\ndispatch:\n  heartbeat: 4s\n  gone_after: 1m\n',
  )
  await using server = await place.serve()
  assert.equal(await heartbeatOf(server.url), 4_000)
})

test.concurrent('the log has lines for start, ready, draining and stop, in that order', async () => {
  using place = createWorkplace()
  await using server = await place.serve(['--grace=1s'])
  server.kill('SIGTERM')
  const { code, err } = await server.ended
  assert.equal(code, 0)
  const lines = err
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ event }) => event.startsWith('server.'))
  assert.deepEqual(
    lines.map(({ level, event }) => `${level} ${event}`),
    ['info server.start', 'info server.ready', 'info server.draining', 'info server.stop'],
  )
  const [start, ready, draining, stop] = lines
  assert.deepEqual([start.version, start.pid, start.database], [version, server.pid, 'sqlite:signalbox.db'])
  assert.equal(ready.url, server.url)
  assert.deepEqual([draining.signal, draining.graceMs], ['SIGTERM', 1_000])
  assert.ok(stop.uptimeMs >= 0 && stop.drainedMs >= 0)
})
