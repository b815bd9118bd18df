import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { openMemory } from '../../storage/memory/index.ts'
import { problemOf } from '../contract/index.ts'
import { createServer as createBareServer, type ServerOptions } from './index.ts'
import { asSignalboxError } from './request/problem.ts'
import { serverDefaults, serviceDefaults } from './server-options.ts'

// Lines of the security checklist that belong to a port, each tried on a real socket.

const box = { backend: await openMemory({ namespace: 'default', migrate: true }) }

type Options = Omit<ServerOptions, 'box'>

function createServer(options: Options) {
  return createBareServer({ box, ...options })
}

interface Answer {
  readonly status: number
  readonly head: string
  readonly problem: { code: string; detail: string; status: number }
}

/** Sends bytes as they are and reads until the server closes. */
async function send(port: number, ...chunks: string[]): Promise<Answer> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  for (const chunk of chunks) socket.write(chunk)
  const answer = await text(socket)
  const [head = '', body = ''] = answer.split('\r\n\r\n', 2)
  return { status: Number(head.slice(9, 12)), head: head.toLowerCase(), problem: JSON.parse(body || '{}') }
}

async function withServer(
  options: Options,
  story: (port: number, url: string) => Promise<void>,
): Promise<void> {
  await using server = createServer({ port: 0, ...options })
  const { url } = await server.listen()
  await story(Number(new URL(url).port), url)
  assert.equal((await fetch(`${url}/livez`)).status, 200, 'the server is unharmed')
}

function assertProblem(answer: Answer, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.problem.status, answer.problem.code], [status, status, code])
  assert.match(answer.head, /content-type: application\/problem\+json/)
  assert.match(answer.head, /x-content-type-options: nosniff/)
}

const get = (path: string, host: string) =>
  `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
const post = (port: number, length: number) =>
  `POST /v1/jobs HTTP/1.1\r\nHost: localhost:${port}\r\nConnection: close\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

test('a public address refuses to start while there is no token', async () => {
  for (const host of ['192.168.1.5', '::ffff:1.2.3.4', '0.0.0.0', '::']) {
    const server = createServer({ host, port: 0, allowedHosts: ['signalbox.example'] })
    await assert.rejects(server.listen(), { code: 'invalid_argument', message: /no token exists/ })
    await server.close()
  }
  for (const host of ['example.com', '127.0.0.1.example.com', '127.1', '*']) {
    assert.throws(() => createServer({ host }), {
      code: 'invalid_argument',
      message: /^host must be an IP address, or localhost/,
    })
  }
  for (const host of ['0.0.0.0', '::', '[::]'])
    assert.throws(() => createServer({ host }), { code: 'invalid_argument', message: /allowedHosts/ })
  for (const host of ['127.0.0.1', '127.0.0.9', '::1', '[::1]', 'localhost', 'LOCALHOST'])
    await createServer({ host }).close()
})

test('a server on all addresses answers only its configured names, and only with a token', async () => {
  const secret = 'a-secret-of-thirty-two-characters!'
  const options = { host: '0.0.0.0', port: 0, allowedHosts: ['signalbox.example'], bootstrap: [secret] }
  await using server = createServer(options)
  const { url } = await server.listen()
  const port = Number(new URL(url).port)
  for (const own of ['signalbox.example', `SignalBox.example:${port}`])
    assert.equal((await send(port, get('/livez', own))).status, 200, own)
  assertProblem(await send(port, get('/livez', `localhost:${port}`)), 403, 'forbidden')
  const ask = get('/v1/jobs', 'signalbox.example')
  const refused = await send(port, ask)
  assertProblem(refused, 401, 'unauthorized')
  assert.match(refused.head, /www-authenticate: bearer/)
  const known = ask.replace('Connection', `Authorization: Bearer ${secret}\r\nConnection`)
  assert.equal((await send(port, known)).status, 200)
})

test('a request to a foreign name is refused, so a page cannot rebind its name to this server', async () => {
  await withServer({}, async (port) => {
    for (const own of [`localhost:${port}`, `LocalHost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      assert.equal((await send(port, get('/livez', own))).status, 200, own)
    }
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      'localhost',
      `localhost:${port + 1}`,
      `localhost.:${port}`,
    ]) {
      assertProblem(await send(port, get('/livez', host)), 403, 'forbidden')
      assertProblem(await send(port, get('/nope', host)), 403, 'forbidden')
    }
  })
})

test('a request without a Host, or with one inside its target, is refused', async () => {
  await withServer({}, async (port) => {
    assertProblem(
      await send(port, 'GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n'),
      400,
      'invalid_argument',
    )
    assertProblem(await send(port, 'GET /livez HTTP/1.0\r\n\r\n'), 400, 'invalid_argument')
    assertProblem(
      await send(port, get('http://evil.example/livez', `localhost:${port}`)),
      400,
      'invalid_argument',
    )
    assertProblem(
      await send(port, get('*', `localhost:${port}`).replace('GET', 'OPTIONS')),
      400,
      'invalid_argument',
    )
  })
})

test('every answer forbids sniffing, framing and scripts, and does not name the software', async () => {
  await withServer({}, async (_port, url) => {
    for (const path of ['/', '/livez', '/readyz', '/nope', '/%zz']) {
      const { headers } = await fetch(url + path)
      assert.equal(headers.get('x-content-type-options'), 'nosniff', path)
      assert.equal(headers.get('content-security-policy'), "default-src 'none'; frame-ancestors 'none'", path)
      assert.equal(headers.get('cache-control'), 'no-store', path)
      for (const name of ['x-powered-by', 'server', 'access-control-allow-origin'])
        assert.equal(headers.get(name), null)
    }
  })
})

test('a malformed request gets a problem document, not silence', async () => {
  await withServer({}, async (port) => {
    assertProblem(await send(port, 'NONSENSE\r\n\r\n'), 400, 'invalid_argument')
    assertProblem(await send(port, 'GET /livez HTTP/1.1\r\nBad Header: x\r\n\r\n'), 400, 'invalid_argument')
    assertProblem(await send(port, '\0\0\0\0\r\n\r\n'), 400, 'invalid_argument')
    assertProblem(await send(port, get('/%zz', `localhost:${port}`)), 400, 'invalid_argument')
    assertProblem(await send(port, post(port, 7), '{"a": 1'), 400, 'invalid_argument')
    assertProblem(await send(port, post(port, 0)), 400, 'invalid_argument')
    const smuggled = post(port, 5).replace('Content-Length', 'Transfer-Encoding: chunked\r\nContent-Length')
    assertProblem(await send(port, smuggled, '0\r\n\r\n'), 400, 'invalid_argument')
  })
})

test('requests that Node would answer on its own get a document as well', async () => {
  await withServer({}, async (port) => {
    const connection = `CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`
    assertProblem(await send(port, connection), 404, 'not_found')
    const expecting = get('/nope', `localhost:${port}`).replace('Connection', 'Expect: tea\r\nConnection')
    assertProblem(await send(port, expecting), 404, 'not_found')
  })
})

test('an unknown route is not found, whatever the type of its body', async () => {
  await withServer({}, async (port) => {
    const odd = post(port, 2).replace('application/json', 'application/x-odd').replace('/v1/jobs', '/nope')
    assertProblem(await send(port, odd, 'hi'), 404, 'not_found')
  })
})

test('headers above the limit are refused', async () => {
  await withServer({}, async (port) => {
    const big = get('/livez', `localhost:${port}`).replace(
      'Connection',
      `X-Big: ${'x'.repeat(16_384)}\r\nConnection`,
    )
    assertProblem(await send(port, big), 431, 'headers_too_large')
  })
})

test('a body above the limit is refused by its announced length, and by its real length', async () => {
  await withServer({}, async (port) => {
    const claim = (length: number) => post(port, length).replace('/v1/jobs', '/v1/jobs/claim')
    assertProblem(await send(port, claim(1_048_577)), 413, 'too_large')
    assertProblem(await send(port, post(port, 8 * 1_048_576 + 1)), 413, 'too_large')
    const chunked = claim(0).replace('Content-Length: 0', 'Transfer-Encoding: chunked')
    const chunk = `${(65_536).toString(16)}\r\n${'x'.repeat(65_536)}\r\n`
    assertProblem(await send(port, chunked, ...Array.from({ length: 17 }, () => chunk)), 413, 'too_large')
  })
})

test('a client that is still sending when its last request is refused can read the reason', async () => {
  await withServer({}, async (port) => {
    // As many programs do, it reads when all is sent.
    const socket = connect(port, '127.0.0.1').pause()
    socket.on('error', () => {})
    const write = (part: string) =>
      new Promise<void>((resolve, reject) =>
        socket.write(part, (error) => (error ? reject(error) : resolve())),
      )
    await write(post(port, 9_000_000))
    for (let count = 0; count < 9; count++) await write('x'.repeat(1_000_000))
    assert.match(await text(socket), /^HTTP\/1\.1 413 /)
  })
})

test('a refusal behind a request does not take the answer of that request', async () => {
  await withServer({}, async (port) => {
    const first = `${post(port, 12).replace('Connection: close\r\n', '')}{"kind":"a"}`
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    socket.write(`${first}${first}NONSENSE\r\n\r\n`)
    const statuses = (await text(socket)).match(/(?<=HTTP\/1\.1 )\d+/g)
    assert.deepEqual(statuses, ['201', '201', '400'])
    // A claim does not wait for a client that has ended its half: it is answered at once, with no job.
    const body = '{"queues":["none"],"waitMs":60000}'
    const claim = post(port, body.length).replace('/v1/jobs', '/v1/jobs/claim')
    const gone = connect(port, '127.0.0.1').on('error', () => {})
    gone.end(`${claim.replace('Connection: close\r\n', '')}${body}NONSENSE\r\n\r\n`)
    assert.match(await text(gone), /^HTTP\/1\.1 200 .*\r\n\r\n{"items":\[\],"cursor":null}/s)
  })
})

test('a body that reaches for a prototype is refused and changes nothing', async () => {
  await withServer({}, async (port) => {
    for (const body of [
      '{"__proto__":{"x":1}}',
      '{"a":[{"__proto__":1}]}',
      '{"constructor":{"prototype":{"x":1}}}',
    ]) {
      assertProblem(await send(port, post(port, body.length), body), 400, 'invalid_argument')
    }
    assert.equal(({} as { x?: unknown }).x, undefined)
  })
})

test('a client that sends its headers or its body too slowly is answered and cut', async () => {
  await withServer({ headersTimeoutMs: 60, requestTimeoutMs: 120, timeoutCheckMs: 20 }, async (port) => {
    assertProblem(await send(port, 'GET /livez HTTP/1.1\r\nHost: loc'), 408, 'request_timeout')
    assertProblem(await send(port, post(port, 10), '{'), 408, 'request_timeout')
  })
})

test('the default limits are those of the security checklist', () => {
  const { host, headersTimeoutMs, requestTimeoutMs, timeoutCheckMs, maxHeaderBytes } = serverDefaults
  const { maxBodyBytes } = serviceDefaults
  assert.deepEqual(
    { host, headersTimeoutMs, requestTimeoutMs, timeoutCheckMs, maxHeaderBytes, maxBodyBytes },
    {
      host: '127.0.0.1',
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      timeoutCheckMs: 5_000,
      maxHeaderBytes: 16_384,
      maxBodyBytes: 1_048_576,
    },
  )
})

test('an unexpected error reveals no details to the client', () => {
  for (const thrown of [
    new Error('password=hunter2'),
    undefined,
    'hunter2',
    { statusCode: 500, message: 'hunter2' },
    { statusCode: 404, message: 'hunter2' },
    Object.assign(new Error('hunter2'), { code: 'HPE_INVALID_METHOD' }),
  ]) {
    const problem = problemOf(asSignalboxError(thrown))
    assert.equal(problem.code, 'internal')
    assert.doesNotMatch(JSON.stringify(problem), /hunter2/)
  }
  const newer = Object.assign(new Error('hunter2'), { name: 'SignalboxError', code: 'of_a_later_version' })
  assert.equal(problemOf(asSignalboxError(newer)).code, 'internal')
})
