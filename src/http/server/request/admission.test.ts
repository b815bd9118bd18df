import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { type Clock, systemClock } from '../../../core/clock.ts'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { Admission, type AdmissionOptions, admissionDefaults } from './admission.ts'
import { createClientAddresses } from './client-addresses.ts'
import { createLoopLag } from './loop-lag.ts'

const ci = { id: 'ci' }
const ops = { id: 'ops' }

test("a request above a token's cap is refused, and only that token’s", () => {
  const admission = new Admission({ maxRequestsPerPrincipal: 2 })
  const leave = admission.enterRequest(ci)
  admission.enterRequest(ci)
  assert.throws(() => admission.enterRequest(ci), {
    code: 'too_many',
    details: { max: 2, retryAfterMs: 1_000 },
  })
  admission.enterRequest(ops)
  leave()
  leave()
  admission.enterRequest(ci)
  assert.throws(
    () => admission.enterRequest(ci),
    { code: 'too_many' },
    'leaving twice must not make room twice',
  )
})

test("a stream above a token's cap is refused, and requests are counted separately", () => {
  const admission = new Admission({ maxStreamsPerPrincipal: 1 })
  const leave = admission.enterStream(ci)
  assert.throws(() => admission.enterStream(ci), {
    code: 'too_many',
    details: { max: 1, retryAfterMs: 5_000 },
  })
  admission.enterStream(ops)
  admission.enterRequest(ci)
  leave()
  admission.enterStream(ci)
})

test('a wrong token above the cap of an address in the period is refused', () => {
  const clock = createFakeClock()
  const { failures } = new Admission({ maxFailuresPerAddress: 2, failureWindowMs: 1_000 }, clock)
  for (const _ of [1, 2]) failures.count('10.0.0.1')
  assert.throws(() => failures.count('10.0.0.1'), { code: 'too_many', details: { retryAfterMs: 1_000 } })
  clock.advance(1_000)
  failures.count('10.0.0.1')
})

test('counters disappear when their time is over, however many there were', () => {
  const admission = new Admission()
  const leavers = Array.from({ length: 1_000 }, (_, i) => [
    admission.enterRequest({ id: `t${i}` }),
    admission.enterRequest({ id: `t${i}` }),
    admission.enterStream({ id: `t${i}` }),
  ]).flat()
  assert.equal(admission.counterCount, 2_000)
  for (const leave of leavers) leave()
  assert.equal(admission.counterCount, 0)
})

async function serving(
  options: AdmissionOptions,
  story: (port: number, server: Server, admission: Admission) => Promise<void>,
  trustedProxies: readonly string[] = [],
): Promise<void> {
  const server = createServer((_request, reply) => reply.end('served'))
  const admission = new Admission(options, systemClock, createClientAddresses(trustedProxies))
  admission.attach(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await story((server.address() as AddressInfo).port, server, admission)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** A connection that the server has accepted: it has answered on it, and stays. */
async function stay(port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  const [answer] = await once(socket, 'data')
  assert.match(String(answer), /^HTTP\/1\.1 200/)
  return socket
}

/** What a connection that is refused gets to read. */
async function knock(port: number, localAddress = '127.0.0.1'): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {})
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  return await text(socket)
}

async function leave(server: Server, socket: Socket): Promise<void> {
  const count = () => new Promise<number>((resolve) => server.getConnections((_, n) => resolve(n)))
  const before = await count()
  socket.destroy()
  while ((await count()) >= before) await new Promise(setImmediate)
}

test('a connection above the cap of an address is refused; other addresses can still connect', async () => {
  await serving({ maxConnectionsPerAddress: 2 }, async (port, server) => {
    const first = await stay(port)
    await stay(port)
    const refused = await knock(port)
    assert.match(refused, /^HTTP\/1\.1 429 /)
    assert.match(refused, /connection: close/i)
    assert.equal(JSON.parse(refused.split('\r\n\r\n')[1]!).code, 'too_many')
    await stay(port, '127.0.0.2')
    await leave(server, first)
    await stay(port)
  })
})

test('a trusted proxy may have more connections than one address, up to the total cap', async () => {
  const story = async (port: number, server: Server) => {
    const [first] = await Promise.all([stay(port), stay(port), stay(port)])
    await stay(port, '127.0.0.2')
    assert.match(await knock(port), /^HTTP\/1\.1 429 /)
    await leave(server, first)
    assert.match(await knock(port, '127.0.0.2'), /^HTTP\/1\.1 429 /, 'another address is capped as ever')
    await stay(port)
  }
  await serving({ maxConnections: 4, maxConnectionsPerAddress: 1 }, story, ['127.0.0.1'])
})

test('a connection above the total cap is refused, wherever it comes from', async () => {
  await serving({ maxConnections: 2 }, async (port, server) => {
    const first = await stay(port)
    await stay(port, '127.0.0.2')
    assert.match(await knock(port, '127.0.0.3'), /^HTTP\/1\.1 429 /)
    await leave(server, first)
    await stay(port, '127.0.0.3')
  })
})

test('a crowd of refused connections is cut and leaves nothing behind', async () => {
  await serving({ maxConnections: 1 }, async (port, server, admission) => {
    const only = await stay(port)
    const answers = await Promise.all(Array.from({ length: 300 }, () => knock(port)))
    assert.ok(answers.every((answer) => answer === '' || answer.startsWith('HTTP/1.1 429 ')))
    assert.ok(answers.some((answer) => answer !== ''))
    const open = () => new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)))
    while ((await open()) > 1) await new Promise(setImmediate)
    await leave(server, only)
    while (admission.counterCount > 0) await new Promise(setImmediate)
  })
})

test('the default caps are those of the documentation', () => {
  assert.deepEqual(admissionDefaults, {
    maxConnections: 20_000,
    maxConnectionsPerAddress: 12_000,
    maxRequestsPerPrincipal: 2_000,
    maxStreamsPerPrincipal: 1_000,
    maxFailuresPerAddress: 300,
    failureWindowMs: 60_000,
  })
  for (const wrong of [{ maxConnections: 0 }, { maxStreamsPerPrincipal: 1.5 }, { maxConections: 5 }])
    assert.throws(() => new Admission(wrong as AdmissionOptions), { code: 'invalid_argument' })
})

/** A clock whose only timer fires when the test says so, however late. */
function lateClock() {
  let now = 0
  let pending: (() => void) | undefined
  const clock: Clock = {
    now: () => now,
    setTimeout(callback) {
      pending = callback
      return callback
    },
    clearTimeout: () => {
      pending = undefined
    },
  }
  return {
    clock,
    isSet: () => pending !== undefined,
    fire(afterMs: number) {
      now += afterMs
      pending!()
    },
  }
}

test('a loop that is repeatedly late is overloaded until it keeps time', () => {
  const set = lateClock()
  const changes: unknown[] = []
  const lag = createLoopLag({ clock: set.clock, onChange: (...change) => changes.push(change) })
  set.fire(250)
  assert.equal(lag.isOverloaded, false)
  set.fire(2_250)
  assert.equal(lag.isOverloaded, false, 'one stall is no reason')
  set.fire(1_500)
  assert.equal(lag.isOverloaded, true)
  set.fire(1_300)
  assert.equal(lag.isOverloaded, true)
  set.fire(300)
  assert.equal(lag.isOverloaded, false)
  assert.deepEqual(changes, [
    [true, 1_250],
    [false, 50],
  ])
  lag.stop()
  assert.equal(set.isSet(), false)
})

test('a pause of the whole process, or an occasional long turn, is not overload', () => {
  const set = lateClock()
  const lag = createLoopLag({ clock: set.clock })
  for (const afterMs of [60_000, 250, 3_000, 250, 1_200, 1_200]) {
    set.fire(afterMs)
    assert.equal(lag.isOverloaded, false)
  }
})

function clientOf(trusted: readonly string[], address: string, forwardedFor?: string): string {
  const header = (name: string) => (name === 'x-forwarded-for' ? forwardedFor : undefined)
  return createClientAddresses(trusted).of({ address, header })
}

test('without trusted proxies, and from any other peer, the header is ignored', () => {
  assert.equal(clientOf([], '10.0.0.1', '203.0.113.7'), '10.0.0.1')
  assert.equal(clientOf(['10.0.0.1'], '10.0.0.2', '203.0.113.7'), '10.0.0.2')
  assert.equal(clientOf(['10.0.0.0/8'], '11.0.0.1', '203.0.113.7'), '11.0.0.1')
  assert.equal(clientOf(['10.0.0.0/8'], '', '203.0.113.7'), '', 'who the peer is must be known')
})

test('the client is the right-most address that is no trusted proxy', () => {
  const trusted = ['10.0.0.0/8', 'fd00::/8']
  for (const [forwardedFor, client] of [
    ['203.0.113.7', '203.0.113.7'],
    ['6.6.6.6, 203.0.113.7', '203.0.113.7'],
    ['10.9.9.9, 203.0.113.7,10.0.0.2 ,\t10.0.0.3', '203.0.113.7'],
    ['<script>, 203.0.113.7', '203.0.113.7'],
    ['10.0.0.7, 10.0.0.2', '10.0.0.7'],
    ['203.0.113.7, unknown', '10.0.0.1'],
    ['203.0.113.7, unknown, 10.0.0.2', '10.0.0.2'],
    ['', '10.0.0.1'],
    [',', '10.0.0.1'],
    ['203.0.113.7:4711', '203.0.113.7'],
    ['[2001:db8::7]:4711', '2001:db8::7'],
    ['[2001:db8::7]', '2001:db8::7'],
    ['2001:db8::7, fd00::1', '2001:db8::7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['203.0.113.7, ::ffff:10.0.0.2', '203.0.113.7'],
    ['203.0.113.7, ::ffff:a00:2', '203.0.113.7'],
  ] as const)
    assert.equal(clientOf(trusted, '10.0.0.1', forwardedFor), client, forwardedFor)
  assert.equal(clientOf(trusted, '10.0.0.1'), '10.0.0.1')
})

test('a peer is recognised in every form of its address', () => {
  for (const peer of ['::ffff:10.0.0.1', '::FFFF:10.0.0.1', '::ffff:a00:1'])
    assert.equal(clientOf(['10.0.0.1'], peer, '203.0.113.7'), '203.0.113.7', peer)
  assert.equal(clientOf([], '::ffff:10.0.0.1'), '10.0.0.1')
  assert.equal(clientOf(['fe80::/10'], 'fe80::1%eth0', '203.0.113.7'), '203.0.113.7')
  assert.equal(clientOf(['::1'], '::1', '203.0.113.7'), '203.0.113.7')
  assert.equal(clientOf(['0.0.0.0/0'], '::1', '203.0.113.7'), '::1', 'IPv4 ranges hold no IPv6 address')
  assert.equal(clientOf(['::/0'], '10.0.0.1', '203.0.113.7'), '10.0.0.1', 'nor IPv6 ranges an IPv4 one')
})

test('a list of thousands of addresses is read quickly', () => {
  const begunAt = performance.now()
  clientOf(['10.0.0.0/8'], '10.0.0.1', '10.0.0.1,'.repeat(4_000))
  clientOf(['10.0.0.0/8'], '10.0.0.1', `1.1.1.1,${'10.0.0.1,'.repeat(2_000)}10.0.0.2`)
  assert.ok(performance.now() - begunAt < 500)
})

test('an invalid address or range is refused, by its position', () => {
  for (const wrong of [
    '10.0.0.0/33',
    'proxy',
    '',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '::/129',
    '10.0.0',
    7,
    null,
    '::ffff:10.0.0.1',
  ])
    assert.throws(() => createClientAddresses(['10.0.0.1', wrong as string]), {
      code: 'invalid_argument',
      message: /^trustedProxies\[1\] /,
      details: { option: 'trustedProxies[1]' },
    })
  assert.throws(() => createClientAddresses('10.0.0.1' as never), {
    message: /^trustedProxies must be a list/,
  })
})
