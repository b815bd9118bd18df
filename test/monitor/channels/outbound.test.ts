import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { test } from 'vitest'
import type { OutboundReply } from '../../../src/monitor/channels/channel.ts'
import { createOutbound, type ResolvedAddress } from '../../../src/monitor/delivery/outbound.ts'
import { makeCertificate } from './certificate.ts'
import { local } from './messages.ts'

interface Listening extends AsyncDisposable {
  readonly port: number
  readonly seen: string[]
}

async function listen(handle: RequestListener, tls?: { key: string; cert: string }): Promise<Listening> {
  const seen: string[] = []
  const answer: RequestListener = (request, response) => {
    seen.push(`${request.method} ${request.headers.host} ${request.url}`)
    handle(request, response)
  }
  const server = tls ? createTlsServer(tls, answer) : createServer(answer)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

function post(url: string): { url: string; headers: Record<string, string>; body: string } {
  return { url, headers: { 'content-type': 'application/json' }, body: '{"text":"héllo"}' }
}

function assertBlocked(reply: OutboundReply, what: string): void {
  assert.equal(reply.status, 0, what)
  assert.equal(reply.sure, true, what)
  assert.match(reply.problem ?? '', /--allow-private|user name|neither https/, what)
}

test('no notation of a local or private address is reached', async () => {
  await using server = await listen((_, response) => response.end('ok'))
  await using outbound = createOutbound()
  const hosts = [
    '[::ffff:7f00:1]',
    '[::ffff:127.0.0.1]',
    '0x7f.1',
    '0177.0.0.1',
    '2130706433',
    '127.1',
    '0.0.0.0',
    '0',
    '127.0.0.1',
    '[::1]',
    '[::]',
    '169.254.169.254',
    'localhost',
    '127。0。0。1',
  ]
  for (const host of hosts) {
    for (const scheme of ['http', 'https']) {
      assertBlocked(await outbound.send(post(`${scheme}://${host}:${server.port}/`)), `${scheme} ${host}`)
    }
  }
  assert.deepEqual(server.seen, [])
})

test('an address with a user name, a password or another scheme is refused', async () => {
  await using server = await listen((_, response) => response.end('ok'))
  await using outbound = createOutbound({ allowPrivate: local })
  for (const url of [
    `http://user:pass@127.0.0.1:${server.port}/`,
    `http://user@127.0.0.1:${server.port}/`,
    'file:///etc/passwd',
    'ftp://example.org/',
  ]) {
    assertBlocked(await outbound.send(post(url)), url)
  }
  assert.deepEqual(server.seen, [])
})

test('a name is judged by all its addresses, and one refused address refuses the name', async () => {
  await using server = await listen((_, response) => response.end('ok'))
  const answers: ResolvedAddress[][] = [
    [{ address: '127.0.0.1', family: 4 }],
    [
      { address: '93.184.216.34', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ],
    [{ address: '::ffff:7f00:1', family: 6 }],
  ]
  for (const found of answers) {
    await using outbound = createOutbound({ lookup: async () => found })
    assertBlocked(await outbound.send(post(`https://rebind.example:${server.port}/`)), JSON.stringify(found))
  }
  assert.deepEqual(server.seen, [])
})

test('a name is resolved once per connection, and the connection goes to the checked address', async () => {
  await using server = await listen((_, response) => response.end('ok'))
  let lookups = 0
  // The second answer of a rebinding name would be an address that is not allowed.
  const lookup = async (): Promise<ResolvedAddress[]> => {
    lookups += 1
    return [{ address: lookups === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }]
  }
  await using outbound = createOutbound({ allowPrivate: ['127.0.0.1/32'], lookup })
  const first = await outbound.send(post(`http://rebind.example:${server.port}/a?b=c`))
  assert.equal(first.status, 200)
  assert.equal(lookups, 1)
  assert.deepEqual(server.seen, [`POST rebind.example:${server.port} /a?b=c`])

  // The connection is kept: no other look-up.
  assert.equal((await outbound.send(post(`http://rebind.example:${server.port}/again`))).status, 200)
  assert.equal(lookups, 1)
  // A new connection is judged again, and the name now has an address that is not allowed.
  assertBlocked(await outbound.send(post(`http://rebind.example:${server.port + 1}/`)), 'rebound')
  assert.equal(server.seen.length, 2)
})

test('plain http goes only to addresses that the operator named', async () => {
  await using outbound = createOutbound({
    allowPrivate: local,
    lookup: async () => [{ address: '93.184.216.34', family: 4 }],
  })
  for (const url of ['http://93.184.216.34/', 'http://public.example/']) {
    assertBlocked(await outbound.send(post(url)), url)
  }
})

test('a redirect is a reply and is not followed', async () => {
  await using inner = await listen((_, response) => response.end('secret'))
  await using server = await listen((_, response) => {
    response.writeHead(302, { location: `http://127.0.0.1:${inner.port}/` }).end()
  })
  await using outbound = createOutbound({ allowPrivate: local })
  const reply = await outbound.send(post(`http://127.0.0.1:${server.port}/`))
  assert.equal(reply.status, 302)
  assert.deepEqual(inner.seen, [])
})

test('the proxy settings of the environment are ignored', async () => {
  await using proxy = await listen((_, response) => response.end('proxy'))
  await using server = await listen((_, response) => response.end('direct'))
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']
  const before = names.map((name) => process.env[name])
  for (const name of names) {
    process.env[name] = name.startsWith('NODE') ? '1' : `http://127.0.0.1:${proxy.port}`
  }
  try {
    await using outbound = createOutbound({ allowPrivate: local })
    assert.equal((await outbound.send(post(`http://127.0.0.1:${server.port}/`))).body, 'direct')
    assert.deepEqual(proxy.seen, [])
  } finally {
    for (const [at, name] of names.entries()) {
      if (before[at] === undefined) delete process.env[name]
      else process.env[name] = before[at]
    }
  }
})

test('a request arrives unchanged, and its connection is reused', async () => {
  const bodies: string[] = []
  const ports = new Set<number | undefined>()
  await using server = await listen(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    bodies.push(Buffer.concat(chunks).toString())
    ports.add(request.socket.remotePort)
    assert.equal(request.headers['accept-encoding'], 'identity')
    response.setHeader('x-word', 'yes').end('taken')
  })
  await using outbound = createOutbound({ allowPrivate: local })
  for (let n = 0; n < 3; n += 1) {
    const reply = await outbound.send(post(`http://127.0.0.1:${server.port}/`))
    assert.deepEqual([reply.status, reply.body, reply.headers['x-word']], [200, 'taken', 'yes'])
    assert.equal(reply.problem, undefined)
  }
  assert.deepEqual(bodies, Array(3).fill('{"text":"héllo"}'))
  assert.equal(ports.size, 1)
})

test('an endless reply is cut at its limit', async () => {
  await using server = await listen((_, response) => {
    const pour = (): void => {
      while (response.write('x'.repeat(10_000)));
    }
    response.on('drain', pour)
    pour()
  })
  await using outbound = createOutbound({ allowPrivate: local, timeoutMs: 10_000 })
  const reply = await outbound.send(post(`http://127.0.0.1:${server.port}/`))
  assert.equal(reply.status, 200)
  assert.equal(reply.body.length, 65_536)
  assert.match(reply.problem ?? '', /cut/)
})

test('the deadline holds for the whole exchange, also for a slow reply', async () => {
  await using silent = await listen(() => {})
  await using trickling = await listen((request, response) => {
    const timer = setInterval(() => response.write('.'), 20)
    request.on('close', () => clearInterval(timer))
  })
  await using outbound = createOutbound({ allowPrivate: local, timeoutMs: 200 })
  const unanswered = await outbound.send(post(`http://127.0.0.1:${silent.port}/`))
  assert.deepEqual([unanswered.status, unanswered.sure], [0, false])
  assert.match(unanswered.problem ?? '', /200 ms/)
  const cut = await outbound.send(post(`http://127.0.0.1:${trickling.port}/`))
  assert.equal(cut.status, 200)
  assert.match(cut.problem ?? '', /200 ms/)
})

test('a name look-up that never ends is stopped by the deadline, and nothing was sent', async () => {
  await using outbound = createOutbound({ timeoutMs: 100, lookup: () => new Promise(() => {}) })
  const reply = await outbound.send(post('https://slow.example/'))
  assert.deepEqual([reply.status, reply.sure], [0, true])
})

test('only a failed connection proves that nothing was sent', async () => {
  await using closing = await listen((request) => request.socket.destroy())
  const refusing = createTcpServer()
  await new Promise<void>((done) => refusing.listen(0, '127.0.0.1', done))
  const { port } = refusing.address() as AddressInfo
  await new Promise((done) => refusing.close(done))

  await using outbound = createOutbound({ allowPrivate: local })
  const refused = await outbound.send(post(`http://127.0.0.1:${port}/`))
  assert.deepEqual([refused.status, refused.sure], [0, true])
  assert.match(refused.problem ?? '', /refused/)
  const closed = await outbound.send(post(`http://127.0.0.1:${closing.port}/`))
  assert.deepEqual([closed.status, closed.sure], [0, false])

  await using lost = createOutbound({
    lookup: async () => {
      throw Object.assign(new Error('getaddrinfo ENOTFOUND secret.example'), { code: 'ENOTFOUND' })
    },
  })
  const unresolved = await lost.send(post('https://secret.example/'))
  assert.deepEqual([unresolved.status, unresolved.sure], [0, true])
  assert.match(unresolved.problem ?? '', /not resolved/)
})

test('nothing is sent to a server with an untrusted certificate', async () => {
  const tls = makeCertificate()
  await using server = await listen((_, response) => response.end('ok'), tls)
  const lookup = async (): Promise<ResolvedAddress[]> => [{ address: '127.0.0.1', family: 4 }]
  const url = `https://localhost:${server.port}/hook?access_token=canary`
  await using outbound = createOutbound({ allowPrivate: local, lookup })
  const reply = await outbound.send(post(url))
  assert.deepEqual([reply.status, reply.sure], [0, true])
  assert.match(reply.problem ?? '', /SELF_SIGNED/)
  assert.deepEqual(server.seen, [])

  await using trusting = createOutbound({ allowPrivate: local, lookup, ca: tls.cert })
  assert.equal((await trusting.send(post(url))).status, 200)
  // Another name than the certificate's is not trusted either.
  const other = await trusting.send(post(`https://other.example:${server.port}/`))
  assert.deepEqual([other.status, other.sure], [0, true])
  assert.equal(server.seen.length, 1)
})

test('closing waits for running requests and then accepts no more', async () => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
  const { promise: allowed, resolve: allow } = Promise.withResolvers<void>()
  await using server = await listen(async (_, response) => {
    arrive()
    await allowed
    response.end('late')
  })
  const outbound = createOutbound({ allowPrivate: local })
  const sending = outbound.send(post(`http://127.0.0.1:${server.port}/`))
  await arrived
  const closing = outbound.close()
  const refused = await outbound.send(post(`http://127.0.0.1:${server.port}/`))
  assert.deepEqual([refused.status, refused.sure], [0, true])
  allow()
  assert.equal((await sending).body, 'late')
  await closing
  assert.equal(server.seen.length, 1)
})

test('a reply with characters that HTTP forbids is reported without quoting it', async () => {
  await using outbound = createOutbound({ allowPrivate: local })
  const reply = await outbound.send({
    url: 'http://127.0.0.1:9/',
    headers: { authorization: 'canary\r\nx: y' },
    body: '',
  })
  assert.deepEqual([reply.status, reply.sure], [0, true])
  assert.doesNotMatch(reply.problem ?? '', /canary/)
})
