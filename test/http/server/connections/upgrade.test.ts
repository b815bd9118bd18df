import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { test } from 'vitest'
import { WebSocket } from 'ws'
import { SignalboxError } from '../../../../src/core/errors.ts'
import { createFakeClock } from '../../../../src/core/fake-clock.ts'
import { createNotifier } from '../../../../src/core/notifier.ts'
import type { Authenticator, Principal } from '../../../../src/http/server/call.ts'
import { checkSite } from '../../../../src/http/server/request/site-guard.ts'
import type { GuardedSocket } from '../../../../src/http/server/sockets/guarded-socket.ts'
import {
  type Gateway,
  isWebSocketUpgrade,
  Upgrades,
  type UpgradesOptions,
} from '../../../../src/http/server/sockets/upgrade.ts'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'

/** Tokens by their secret. */
const principals: Readonly<Record<string, Principal>> = {
  worker: { id: 't1', scope: 'work', namespace: 'default', everyNamespace: false },
  reader: { id: 't2', scope: 'read', namespace: 'default', everyNamespace: false },
}

interface Stage extends AsyncDisposable {
  readonly port: number
  readonly upgrades: Upgrades
  /** What the gateway was given. */
  readonly accepted: { readonly socket: GuardedSocket; readonly principal: Principal }[]
  readonly watchers: Set<(reason: SignalboxError) => void>
  readonly errors: unknown[]
  /** The code with which the nth socket ended. */
  closed(nth?: number): Promise<number>
  open(options?: { token?: string; autoPong?: boolean }): Promise<WebSocket>
}

/** A port with a gateway at `/echo` that answers what it is sent, and whatever else the test puts there. */
async function upgrading(
  options: Partial<UpgradesOptions> = {},
  more: Readonly<Record<string, Gateway['accept']>> = {},
): Promise<Stage> {
  const accepted: Stage['accepted'] = []
  const closes = new Map<number, number>()
  const closed = createNotifier()
  const watchers: Stage['watchers'] = new Set()
  const errors: unknown[] = []
  const gateway = (accept: Gateway['accept']): Gateway => ({
    scope: 'work',
    accept(socket, principal) {
      const nth = accepted.push({ socket, principal }) - 1
      socket.events.on('closed', ({ code }) => {
        closes.set(nth, code)
        closed.wake()
      })
      accept(socket, principal)
    },
  })
  const gateways = new Map([
    ['/echo', gateway((socket) => void socket.events.on('message', ({ text }) => socket.send(text)))],
    ...Object.entries(more).map(([path, accept]) => [path, gateway(accept)] as const),
  ])
  const authenticator: Pick<Authenticator, 'authenticate' | 'watch'> = {
    async authenticate(incoming) {
      const secret = /^Bearer (.+)$/.exec(incoming.header('authorization') ?? '')?.[1]
      const principal = principals[secret ?? '']
      if (principal) return principal
      throw new SignalboxError('unauthorized', 'No valid token came with the request.')
    },
    watch(_principal, ended) {
      watchers.add(ended)
      return () => watchers.delete(ended)
    },
  }
  const server = createServer((_request, response) => response.end('ordinary'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const hosts = new Set([`127.0.0.1:${port}`])
  const upgrades = new Upgrades({
    authenticator,
    checkSite: (incoming) => checkSite(incoming, undefined, hosts),
    gateways,
    closeTimeoutMs: 300,
    onError: (error) => errors.push(error),
    ...options,
  })
  upgrades.attach(server)
  return {
    port,
    upgrades,
    accepted,
    watchers,
    errors,
    async closed(nth = 0) {
      const wait = async () => {
        while (!closes.has(nth)) await closed.wait()
        return closes.get(nth)!
      }
      return within(10_000, `the end of socket ${nth}`, wait())
    },
    async open({ token = 'worker', autoPong = true } = {}) {
      const headers = { authorization: `Bearer ${token}` }
      const ws = new WebSocket(`ws://127.0.0.1:${port}/echo`, { headers, autoPong } as object)
      ws.on('error', () => {})
      await once(ws, 'open')
      return ws
    },
    async [Symbol.asyncDispose]() {
      await upgrades.close()
      server.closeAllConnections()
      server.close()
    },
  }
}

interface Raw {
  readonly socket: Socket
  /** What has come, the head included. */
  readonly bytes: () => Buffer
}

/** Sends an upgrade request as it is given, and waits for the head of the answer. */
async function ask(port: number, lines: readonly string[], method = 'GET', path = '/echo'): Promise<Raw> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  const bytes = () => Buffer.concat(chunks)
  socket.write(`${[`${method} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`)
  const head = async () => {
    while (!bytes().includes('\r\n\r\n')) await once(socket, 'data')
  }
  await within(5_000, 'an answer', head())
  return { socket, bytes }
}

const upgradeLines = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]
const goodLines = (port: number) => [
  ...upgradeLines,
  `Host: 127.0.0.1:${port}`,
  'Authorization: Bearer worker',
]

/** An accepted socket without a library in between. */
async function askRaw(stage: Stage, path = '/echo'): Promise<Raw> {
  const raw = await ask(stage.port, goodLines(stage.port), 'GET', path)
  assert.match(raw.bytes().toString('latin1'), /^HTTP\/1\.1 101 /)
  return raw
}

interface FrameParts {
  readonly isFinal?: boolean
  readonly isMasked?: boolean
  readonly reserved?: number
}

/** A frame as a client sends it; the mask is zero, so the payload can be read. */
function frame(opcode: number, payload: Buffer | string = '', parts: FrameParts = {}): Buffer {
  const { isFinal = true, isMasked = true, reserved = 0 } = parts
  const data = Buffer.from(payload)
  const mask = isMasked ? 0x80 : 0
  const first = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode
  const head =
    data.length < 126
      ? Buffer.from([first, mask | data.length])
      : data.length < 65_536
        ? Buffer.from([first, mask | 126, data.length >> 8, data.length & 255])
        : Buffer.concat([Buffer.from([first, mask | 127, 0, 0, 0, 0]), uint32(data.length)])
  return Buffer.concat([head, isMasked ? Buffer.alloc(4) : Buffer.alloc(0), data])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

const [continuation, text, binary, ping] = [0, 1, 2, 9]

/** The code in the close frame that ends what came. */
async function closeCodeOf({ socket, bytes }: Raw): Promise<number> {
  // Not `once`, which a reset would reject: a client that still writes to a closing connection may get one.
  const closed = new Promise((resolve) => socket.once('close', resolve))
  if (!socket.closed) await within(5_000, 'the end of the connection', closed)
  const all = bytes()
  const at = all.lastIndexOf(0x88)
  assert.ok(at > 0, 'there is no close frame')
  return all.readUInt16BE(at + 2)
}

test('a caller with a token of the right scope gets a WebSocket, and its gateway gets the identity', async () => {
  await using stage = await upgrading()
  const ws = await stage.open()
  ws.send('hello')
  const [data, isBinary] = await once(ws, 'message')
  assert.equal(String(data), 'hello')
  assert.equal(isBinary, false)
  assert.equal(ws.extensions, '')
  assert.deepEqual(stage.accepted[0]!.principal, principals.worker)
  assert.equal(stage.watchers.size, 1)
  ws.close(1000)
  assert.equal(await stage.closed(), 1000)
  assert.equal(stage.watchers.size, 0)
  assert.equal(stage.accepted[0]!.socket.send('too late'), false)
})

test('a refused upgrade gets a problem document, and no gateway sees it', async () => {
  await using stage = await upgrading()
  const host = `Host: 127.0.0.1:${stage.port}`
  const token = 'Authorization: Bearer worker'
  const without = (name: string) => upgradeLines.filter((line) => !line.startsWith(name))
  const cases: readonly [
    what: string,
    status: number,
    code: string,
    Parameters<typeof ask>[1],
    string?,
    string?,
  ][] = [
    ['no token', 401, 'unauthorized', [...upgradeLines, host]],
    ['a wrong token', 401, 'unauthorized', [...upgradeLines, host, 'Authorization: Bearer unknown']],
    [
      'a token in the query',
      401,
      'unauthorized',
      [...upgradeLines, host],
      'GET',
      '/echo?token=worker&access_token=worker',
    ],
    ['too small a scope', 403, 'forbidden', [...upgradeLines, host, 'Authorization: Bearer reader']],
    ['a foreign host', 403, 'forbidden', [...upgradeLines, 'Host: evil.example', token]],
    ['no host', 400, 'invalid_argument', [...upgradeLines, token]],
    ['a foreign page', 403, 'forbidden', [...upgradeLines, host, token, 'Origin: http://evil.example']],
    ['a page without a name', 403, 'forbidden', [...upgradeLines, host, token, 'Origin: null']],
    [
      'a page of another site',
      403,
      'forbidden',
      [...upgradeLines, host, token, 'Sec-Fetch-Site: cross-site'],
    ],
    ['another path', 404, 'not_found', [...upgradeLines, host, token], 'GET', '/nope'],
    [
      'the path of a host elsewhere',
      400,
      'invalid_argument',
      [...upgradeLines, host, token],
      'GET',
      'http://evil.example/echo',
    ],
    ['another method', 405, 'method_not_allowed', [...upgradeLines, host, token], 'DELETE'],
    ['another protocol', 400, 'invalid_argument', [...without('Upgrade'), 'Upgrade: h2c', host, token]],
    ['no key', 400, 'invalid_argument', [...without('Sec-WebSocket-Key'), host, token]],
    [
      'an old version',
      400,
      'invalid_argument',
      [...without('Sec-WebSocket-Version'), 'Sec-WebSocket-Version: 7', host, token],
    ],
  ]
  for (const [what, status, code, lines, method, path] of cases) {
    const { socket, bytes } = await ask(stage.port, lines, method, path)
    if (!socket.closed) await once(socket, 'close')
    const [head, body] = bytes().toString().split('\r\n\r\n')
    assert.match(head!, new RegExp(`^HTTP/1\\.1 ${status} `), what)
    assert.match(head!, /content-type: application\/problem\+json/i, what)
    const problem = JSON.parse(body!)
    assert.deepEqual([problem.status, problem.code], [status, code], what)
    assert.doesNotMatch(body!, /worker/, what)
  }
  assert.equal(stage.accepted.length, 0)
  assert.deepEqual(stage.errors, [])
})

test('a page of our own site may connect, and so may a program that sends no origin', async () => {
  await using stage = await upgrading()
  for (const origin of [[`Origin: http://127.0.0.1:${stage.port}`], []]) {
    const raw = await ask(stage.port, [...goodLines(stage.port), ...origin])
    assert.match(raw.bytes().toString('latin1'), /^HTTP\/1\.1 101 /)
    raw.socket.destroy()
  }
  assert.equal(await stage.closed(1), 1006)
})

test('nodes have a gateway, and every other path is not found', async () => {
  await using stage = await serving()
  const { port, host } = new URL(stage.url)
  for (const path of ['/', '/v1/nodes', '/v1/nodes/connect/', '/v1/events', '/livez']) {
    const { bytes, socket } = await ask(Number(port), [...upgradeLines, `Host: ${host}`], 'GET', path)
    if (!socket.closed) await once(socket, 'close')
    assert.match(bytes().toString(), /^HTTP\/1\.1 404 [\s\S]*"code":"not_found"/)
  }
  // Others that name an upgrade are ordinary requests.
  const plain = await ask(
    Number(port),
    ['Connection: Upgrade', 'Upgrade: h2c', `Host: ${host}`],
    'GET',
    '/livez',
  )
  assert.match(plain.bytes().toString(), /^HTTP\/1\.1 200 /)
  plain.socket.destroy()
})

test('only a real WebSocket request is treated as one', () => {
  assert.equal(isWebSocketUpgrade({ headers: { upgrade: 'WebSocket' }, httpVersion: '1.1' }), true)
  assert.equal(isWebSocketUpgrade({ headers: { upgrade: 'h2c' }, httpVersion: '1.1' }), false)
  assert.equal(isWebSocketUpgrade({ headers: { upgrade: 'websocket' }, httpVersion: '1.0' }), false)
  assert.equal(isWebSocketUpgrade({ headers: {}, httpVersion: '1.1' }), false)
})

test('a caller whose token cannot be looked up in time gets an error that says so', async () => {
  const clock = createFakeClock()
  const authenticating = Promise.withResolvers<void>()
  await using stage = await upgrading({
    clock,
    authenticator: {
      authenticate() {
        authenticating.resolve()
        return new Promise(() => {})
      },
      watch: () => () => {},
    },
  })
  const asked = ask(stage.port, goodLines(stage.port))
  await authenticating.promise
  clock.advance(10_000)
  assert.match((await asked).bytes().toString(), /^HTTP\/1\.1 504 [\s\S]*"code":"timeout"/)
})

test('a caller that leaves during its authentication does not affect others', async () => {
  const known = Promise.withResolvers<Principal>()
  const authenticating = Promise.withResolvers<void>()
  await using stage = await upgrading({
    authenticator: {
      authenticate() {
        authenticating.resolve()
        return known.promise
      },
      watch: () => () => {},
    },
  })
  const socket = connect(stage.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`GET /echo HTTP/1.1\r\n${goodLines(stage.port).join('\r\n')}\r\n\r\n`)
  await authenticating.promise
  socket.resetAndDestroy()
  await new Promise((resolve) => setTimeout(resolve, 50))
  known.resolve(principals.worker!)
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(stage.accepted.length, 0)
  assert.deepEqual(stage.errors, [])
})

test('malformed and oversize messages are closed with the right code, and the next caller is served', async () => {
  await using stage = await upgrading()
  const fragments = (count: number) => [
    frame(text, 'x', { isFinal: false }),
    ...Array.from({ length: count - 2 }, () => frame(continuation, 'x', { isFinal: false })),
    frame(continuation, 'x'),
  ]
  const cases: readonly [what: string, code: number, frames: readonly Buffer[]][] = [
    ['a message above 256 KiB', 1009, [frame(text, Buffer.alloc(262_145, 'x'))]],
    [
      'fragments above it together',
      1009,
      [
        frame(text, Buffer.alloc(200_000, 'x'), { isFinal: false }),
        frame(continuation, Buffer.alloc(200_000, 'x')),
      ],
    ],
    ['a flood of fragments', 1008, fragments(1_000)],
    [
      'a flood of empty fragments',
      1008,
      [
        frame(text, '', { isFinal: false }),
        ...Array.from({ length: 1_000 }, () => frame(continuation, '', { isFinal: false })),
      ],
    ],
    ['a frame without a mask', 1002, [frame(text, 'x', { isMasked: false })]],
    ['a compressed frame', 1002, [frame(text, 'x', { reserved: 4 })]],
    ['an unknown kind of frame', 1002, [frame(7, 'x')]],
    ['a continuation of nothing', 1002, [frame(continuation, 'x')]],
    ['a ping that is too long', 1002, [frame(ping, 'x'.repeat(126))]],
    ['text that is none', 1007, [frame(text, Buffer.from([0xff, 0xfe]))]],
    ['bytes instead of text', 1003, [frame(binary, 'x')]],
  ]
  for (const [what, code, frames] of cases) {
    const raw = await askRaw(stage)
    raw.socket.write(Buffer.concat(frames))
    assert.equal(await closeCodeOf(raw), code, what)
  }
  // All that may be is taken.
  const raw = await askRaw(stage)
  raw.socket.write(Buffer.concat([...fragments(64), frame(text, 'next')]))
  while (!raw.bytes().includes('next')) await within(5_000, 'the answer', once(raw.socket, 'data'))
  assert.ok(raw.bytes().includes('x'.repeat(64)))
  raw.socket.destroy()
  assert.deepEqual(stage.errors, [])
})

test('a message in a thousand tiny fragments is refused', async () => {
  await using stage = await upgrading()
  const raw = await askRaw(stage)
  raw.socket.setNoDelay()
  const whole = frame(text, Buffer.alloc(200_000, 'x'))
  let sent = 0
  raw.socket.write(whole.subarray(0, 14))
  while (!raw.socket.closed && sent < 20_000) {
    raw.socket.write(whole.subarray(14 + sent, 15 + sent++))
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(sent < 20_000, 'it went on for ever')
  assert.equal(await closeCodeOf(raw), 1008)
})

test('a message that is never finished is dropped, though its sender answers pings', async () => {
  await using stage = await upgrading({ pingMs: 300 })
  const raw = await askRaw(stage)
  raw.socket.write(frame(text, 'begun', { isFinal: false }))
  const pongs = setInterval(() => raw.socket.write(frame(10)), 10)
  try {
    assert.equal(await closeCodeOf(raw), 1008)
  } finally {
    clearInterval(pongs)
  }
})

test('a peer that stops within a frame, or answers no ping, is cut off; one that answers stays', async () => {
  await using stage = await upgrading({ pingMs: 300 })
  const silent = await askRaw(stage)
  silent.socket.write(frame(text, 'whole').subarray(0, 8))
  const deaf = await stage.open({ autoPong: false })
  const good = await stage.open()
  assert.equal(await stage.closed(0), 1006)
  assert.equal(await stage.closed(1), 1006)
  assert.notEqual(deaf.readyState, WebSocket.OPEN)
  for (let nth = 0; nth < 5; nth++) await once(good, 'ping')
  good.send('still there')
  assert.equal(String((await once(good, 'message'))[0]), 'still there')
  good.terminate()
})

test('a peer that reads too slowly is closed with 1013, and its waiting data is bounded', async () => {
  let sent = 0
  const flood: Gateway['accept'] = (socket) => {
    const more = () => {
      for (let nth = 0; nth < 10; nth++) {
        if (!socket.send('y'.repeat(65_536))) return
        sent++
      }
      setImmediate(more)
    }
    more()
  }
  await using stage = await upgrading({}, { '/flood': flood })
  const slow = await askRaw(stage, '/flood')
  slow.socket.pause()
  // It is cut once it has not even taken the goodbye.
  assert.equal(await stage.closed(0), 1006)
  assert.ok(sent < 500, `${sent} messages of 64 KiB were taken`)

  const late = await askRaw(stage, '/flood')
  late.socket.pause()
  while (stage.accepted[1]!.socket.send('z')) await new Promise((resolve) => setImmediate(resolve))
  late.socket.resume()
  assert.equal(await closeCodeOf(late), 1013)
})

test('a peer that sends pings and never reads the answers is closed', async () => {
  await using stage = await upgrading({ maxBufferedBytes: 100_000 })
  const raw = await askRaw(stage)
  raw.socket.pause()
  const flood = Buffer.concat(Array.from({ length: 1_000 }, () => frame(ping, 'x'.repeat(125))))
  let isOver = false
  void stage.closed(0).then(() => {
    isOver = true
  })
  while (!isOver) {
    if (raw.socket.writable && !raw.socket.write(flood))
      await new Promise((resolve) => setTimeout(resolve, 5))
    await new Promise((resolve) => setImmediate(resolve))
  }
  raw.socket.destroy()
})

test('an ended token closes its sockets with 4401', async () => {
  await using stage = await upgrading()
  const ws = await stage.open()
  const closed = once(ws, 'close')
  const [ended] = stage.watchers
  ended!(new SignalboxError('unauthorized', `The token was revoked. ${'é'.repeat(100)}`))
  const [code, reason] = await closed
  assert.equal(code, 4401)
  assert.match(String(reason), /^The token was revoked\. é+$/)
})

test('a gateway that throws loses only that socket', async () => {
  const broken: Gateway['accept'] = () => {
    throw new Error('broken on accept')
  }
  const brittle: Gateway['accept'] = (socket) =>
    void socket.events.on('message', async () => {
      throw new Error('broken on message')
    })
  await using stage = await upgrading({}, { '/broken': broken, '/brittle': brittle })
  const good = await stage.open()
  assert.equal(await closeCodeOf(await askRaw(stage, '/broken')), 1011)
  const raw = await askRaw(stage, '/brittle')
  raw.socket.write(frame(text, 'x'))
  assert.equal(await closeCodeOf(raw), 1011)
  assert.deepEqual(
    stage.errors.map((error) => (error as Error).message),
    ['broken on accept', 'broken on message'],
  )
  good.send('still there')
  assert.equal(String((await once(good, 'message'))[0]), 'still there')
  good.terminate()
})

test('a node that connects while its namespace stops is sent to another server, and no error is logged', async () => {
  const stopping: Gateway['accept'] = () => {
    throw new SignalboxError('draining', 'This dispatcher is stopping.')
  }
  await using stage = await upgrading({}, { '/stopping': stopping })
  assert.equal(await closeCodeOf(await askRaw(stage, '/stopping')), 1001)
  assert.deepEqual(stage.errors, [])
})

test('closing sends 1001, cuts sockets that do not answer, and refuses new ones', async () => {
  await using stage = await upgrading()
  const ws = await stage.open()
  const stubborn = await askRaw(stage)
  const goodbye = once(ws, 'close')
  const closed = stage.upgrades.close()
  assert.equal((await goodbye)[0], 1001)
  const { bytes } = await ask(stage.port, goodLines(stage.port))
  assert.match(bytes().toString(), /^HTTP\/1\.1 503 [\s\S]*"code":"draining"/)
  await within(5_000, 'closing', closed)
  assert.equal(await closeCodeOf(stubborn), 1001)
  await stage.upgrades.close()
})
