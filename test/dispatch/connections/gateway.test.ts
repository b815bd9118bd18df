import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'vitest'
import type { ServerFrame } from '../../../src/dispatch/index.ts'
import { nodesPath } from '../../../src/http/contract/node-frames.ts'
import { within } from '../../support/deadline.ts'
import { inGrowingLeases } from '../../support/spans.ts'
import { gatewayStage, type Peer, service } from './gateway-stage.ts'

const codeOf = (frame: ServerFrame) => (frame.type === 'error' ? frame.code : frame.type)

test('a node says hello and is welcomed, and the server fills in missing fields', async () => {
  await using stage = await gatewayStage()
  const peer = await stage.open()
  peer.say({ type: 'hello', nodeId: 'n1', instanceId: 'i1', services: [{ name: 'asr', slots: 4 }], later: 1 })
  assert.deepEqual(await peer.next(), { type: 'welcome', epoch: 1, heartbeatMs: 15_000 })
  assert.deepEqual(stage.connections.nodes[0]!.hello, {
    type: 'hello',
    nodeId: 'n1',
    instanceId: 'i1',
    services: [{ name: 'asr', slots: 4, tags: {} }],
    labels: {},
    running: null,
    protocol: 1,
  })
  for (const said of [
    { type: 'heartbeat', load: { cpu: 0.5 } },
    { type: 'task.reject', taskId: 't', attempt: 1, reason: 'busy' },
    { type: 'task.progress', taskId: 't', attempt: 1, percent: 50, colour: 'red' },
    { type: 'task.result', taskId: 't', attempt: 1 },
    { type: 'task.fail', taskId: 't', attempt: 1, error: { message: 'no' } },
    { type: 'task.fail', taskId: 't', attempt: 1, error: 'no', retryable: false },
    { type: 'update', services: [] },
    { type: 'bye' },
  ])
    peer.say(said)
  const { frames } = stage.connections.nodes[0]!
  await stage.connections.until('eight frames', () => frames.length === 8)
  const of = { taskId: 't', attempt: 1 }
  assert.deepEqual(frames, [
    {
      type: 'heartbeat',
      load: { cpu: 0.5, gpu: null, memory: null },
      running: null,
      countedSeq: null,
    },
    { type: 'task.reject', ...of, reason: 'busy', retryAfterMs: null },
    { type: 'task.progress', ...of, percent: 50, note: null },
    { type: 'task.result', ...of, output: null },
    { type: 'task.fail', ...of, error: { message: 'no' }, retryable: true },
    { type: 'task.fail', ...of, error: { message: 'no' }, retryable: false },
    { type: 'update', services: [], labels: null },
    { type: 'bye' },
  ])
})

test('an invalid first frame is answered with the reason, and the socket is closed', async () => {
  await using stage = await gatewayStage()
  const hello = { type: 'hello', nodeId: 'n1', instanceId: 'i1', services: [service] }
  const cases: readonly (readonly [what: string, said: object | string, code: string])[] = [
    ['a heartbeat', { type: 'heartbeat', load: {} }, 'hello_expected'],
    ['a result', { type: 'task.result', taskId: 't', attempt: 1, output: 1 }, 'hello_expected'],
    ['no JSON', 'hello', 'invalid_frame'],
    ['a list', '[]', 'invalid_frame'],
    ['null', 'null', 'invalid_frame'],
    ['no type', '{}', 'invalid_frame'],
    ['a type that is a number', '{"type":7}', 'invalid_frame'],
    ['version 2', { ...hello, protocol: 2 }, 'unsupported_protocol'],
    ['version "1"', { ...hello, protocol: '1' }, 'invalid_frame'],
    ['no slots', { ...hello, services: [{ name: 'a', slots: 0 }] }, 'invalid_frame'],
    ['a million slots', { ...hello, services: [{ name: 'a', slots: 1_000_000 }] }, 'invalid_frame'],
    ['half a slot', { ...hello, services: [{ name: 'a', slots: 0.5 }] }, 'invalid_frame'],
    ['a service twice', { ...hello, services: [service, service] }, 'invalid_frame'],
    ['no services', { type: 'hello', nodeId: 'n', instanceId: 'i' }, 'invalid_frame'],
    ['no name', { ...hello, nodeId: '' }, 'invalid_frame'],
    ['a name with a line break', { ...hello, nodeId: 'a\nb' }, 'invalid_frame'],
    ['a name of 192 characters', { ...hello, nodeId: 'x'.repeat(192) }, 'invalid_frame'],
    [
      'half a surrogate',
      '{"type":"hello","nodeId":"\\ud800","instanceId":"i","services":[]}',
      'invalid_frame',
    ],
    ['a label that is a list', { ...hello, labels: { a: [] } }, 'invalid_frame'],
    [
      'a label __proto__',
      '{"type":"hello","nodeId":"n","instanceId":"i","services":[],"labels":{"__proto__":"x"}}',
      'invalid_frame',
    ],
    [
      'too many services',
      { ...hello, services: Array.from({ length: 300 }, (_, i) => ({ name: `s${i}`, slots: 1 })) },
      'invalid_frame',
    ],
  ]
  for (const [what, said, code] of cases) {
    const peer = await stage.open()
    peer.say(said)
    assert.equal(codeOf(await peer.next()), code, what)
    assert.equal((await peer.closed).code, 4400, what)
  }
  assert.equal(stage.connections.nodes.length, 0)
  await stage.connections.until('all to have left', () => stage.entered() === 0)
  assert.deepEqual(stage.errors, [])
})

test('a socket that sends no valid hello is closed after a time-out', async () => {
  await inGrowingLeases(150, async (helloMs) => {
    await using stage = await gatewayStage({ helloMs })
    const silent = await stage.open()
    const strange = await stage.open()
    strange.say({ type: 'greetings' })
    assert.equal(codeOf(await strange.next()), 'unknown_type')
    for (const peer of [silent, strange]) {
      assert.equal(codeOf(await peer.next()), 'hello_expected')
      assert.equal((await peer.closed).code, 4400)
    }
  })
}, 60_000)

test('unknown frames get an error and reach no handler, and the socket stays open', async () => {
  await using stage = await gatewayStage()
  const peer = await stage.open()
  peer.hello()
  await peer.next()
  const { frames } = stage.connections.nodes[0]!
  const cases: readonly (readonly [said: object | string, code: string])[] = [
    [{ type: 'dance' }, 'unknown_type'],
    [{ type: 'toString' }, 'unknown_type'],
    [{ type: '__proto__' }, 'unknown_type'],
    [{ type: 'welcome', epoch: 9 }, 'unknown_type'],
    [{ type: 'task.result' }, 'invalid_frame'],
    [{ type: 'task.result', taskId: 7, attempt: 1 }, 'invalid_frame'],
    [{ type: 'task.result', taskId: 't', attempt: -1 }, 'invalid_frame'],
    [{ type: 'task.progress', taskId: 't', attempt: 1, percent: 101 }, 'invalid_frame'],
    [{ type: 'task.progress', taskId: 't', attempt: 1, note: 'x'.repeat(2_000) }, 'invalid_frame'],
    [{ type: 'heartbeat', load: { cpu: 1.5 } }, 'invalid_frame'],
    [{ type: 'heartbeat', load: { cpu: 'high' } }, 'invalid_frame'],
    [{ type: 'heartbeat', load: {}, countedSeq: -1 }, 'invalid_frame'],
    [{ type: 'heartbeat', load: {}, running: [1] }, 'invalid_frame'],
    [{ type: 'update', services: [{ name: 'a', slots: 0 }] }, 'invalid_frame'],
    [{ type: 'hello', nodeId: 'n2', instanceId: 'i', services: [] }, 'hello_twice'],
  ]
  for (const [said, code] of cases) {
    peer.say(said)
    assert.equal(codeOf(await peer.next()), code, JSON.stringify(said).slice(0, 80))
  }
  peer.say({ type: 'ping' })
  assert.deepEqual(await peer.next(), { type: 'pong' })
  assert.deepEqual(frames, [])
  // Each showed that the node lives.
  assert.equal(stage.connections.nodes[0]!.aliveCount, cases.length + 1)
  assert.equal(stage.connections.nodes.length, 1)
})

test('a text that is not JSON, or a binary message, closes the socket after hello', async () => {
  await using stage = await gatewayStage()
  for (const [said, code] of [
    ['{"type":', 4400],
    [Buffer.from('{}'), 1003],
  ] as const) {
    const peer = await stage.open()
    peer.hello()
    await peer.next()
    peer.ws.send(said)
    assert.equal((await peer.closed).code, code)
  }
  await stage.connections.until('both to be told', () =>
    stage.connections.nodes.every(({ closedFor }) => closedFor),
  )
  await stage.connections.until('both to have left', () => stage.entered() === 0)
})

test('a result that no store could keep fails its task, for good', async () => {
  await using stage = await gatewayStage()
  const peer = await stage.open()
  peer.hello()
  const deep = `${'['.repeat(1_000)}${']'.repeat(1_000)}`
  const bad = [deep, '"\\u0000"', '"\\ud800"', '{"__proto__":1}']
  for (const output of bad) peer.say(`{"type":"task.result","taskId":"t","attempt":1,"output":${output}}`)
  await stage.connections.until('all', () => stage.connections.nodes[0]?.frames.length === bad.length)
  for (const frame of stage.connections.nodes[0]!.frames) {
    assert.equal(frame.type, 'task.fail')
    if (frame.type === 'task.fail')
      assert.deepEqual([frame.error.code, frame.retryable], ['invalid_output', false])
  }
})

test('a node that sends mostly malformed frames is closed', async () => {
  await using stage = await gatewayStage()
  const peer = await stage.open()
  peer.hello()
  for (let i = 0; i < 200; i++) peer.say({ type: 'nonsense' })
  assert.equal((await peer.closed).code, 1008)
  assert.equal(codeOf(peer.heard.at(-1)!), 'too_many')
  assert.ok(peer.heard.length < 80)
})

test('frames above the rate limit are read more slowly, and none is lost', async () => {
  await using stage = await gatewayStage({ framesPerSecond: 2_000, frameBurst: 100 })
  const [fast, other] = [await stage.open(), await stage.open()] as [Peer, Peer]
  fast.hello('fast')
  other.hello('other')
  await other.next()
  const begunAt = performance.now()
  for (let i = 0; i < 1_500; i++) fast.say({ type: 'task.accept', taskId: 't', attempt: i })
  other.say({ type: 'ping' })
  assert.deepEqual(await other.next(), { type: 'pong' })
  const pongMs = performance.now() - begunAt
  const frames = () => stage.connections.nodes.find(({ hello }) => hello.nodeId === 'fast')?.frames ?? []
  // What is left in the socket's own buffer comes after the first hold, so it ends late or a ping shows that it does.
  await stage.connections.until('all frames', () => frames().length === 1_500)
  fast.say({ type: 'ping' })
  await fast.next()
  await fast.next()
  const tookMs = performance.now() - begunAt
  assert.ok(tookMs > 500, `it took ${tookMs} ms`)
  assert.ok(pongMs < tookMs, `the other waited ${pongMs} ms`)
  assert.deepEqual(
    frames().map((frame) => (frame as { attempt: number }).attempt),
    Array.from({ length: 1_500 }, (_, i) => i),
  )
})

test('a full connection gets no more frames until it is ready again', async () => {
  await using stage = await gatewayStage()
  const peer = await stage.open()
  peer.hello()
  await peer.next()
  const node = stage.connections.nodes[0]!
  node.isFull = true
  const big = 'x'.repeat(60_000)
  for (let i = 0; i < 200; i++) peer.say({ type: 'task.result', taskId: `t${i}`, attempt: 1, output: big })
  await stage.connections.until('the first', () => node.frames.length > 0)
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.ok(node.frames.length < 100, `${node.frames.length} came while it was full`)
  node.isFull = false
  node.ready.resolve()
  await stage.connections.until('the rest', () => node.frames.length === 200)
})

test('a node that does not read its frames is closed, and others are not disturbed', async () => {
  await using stage = await gatewayStage({}, { maxBufferedBytes: 200_000 })
  const [slow, other] = [await stage.open(), await stage.open()] as [Peer, Peer]
  slow.hello('slow')
  other.hello('other')
  await slow.next()
  slow.ws.pause()
  const node = stage.connections.nodes.find(({ hello }) => hello.nodeId === 'slow')!
  const assign = {
    type: 'task.assign',
    taskId: 't',
    attempt: 1,
    service: 'nmt',
    payload: 'x'.repeat(50_000),
    deadlineAt: null,
  } as const
  let sentCount = 0
  while (node.link.send(assign) && sentCount < 10_000) {
    sentCount++
    if (sentCount % 50 === 0) await new Promise(setImmediate)
  }
  assert.ok(sentCount < 10_000)
  assert.equal(node.link.send(assign), false)
  await other.next()
  other.say({ type: 'ping' })
  assert.deepEqual(await other.next(), { type: 'pong' })
  await stage.connections.until('its end', () => node.closedFor !== undefined)
})

test('a pong is a sign of life, and a node that answers no ping is disconnected', async () => {
  await inGrowingLeases(100, async (pingMs) => {
    await using stage = await gatewayStage({}, { pingMs })
    const [alive, dead] = [await stage.open(), await stage.open({ autoPong: false })] as [Peer, Peer]
    alive.hello('alive')
    dead.hello('dead')
    const find = (id: string) => stage.connections.nodes.find(({ hello }) => hello.nodeId === id)
    await stage.connections.until('the end of the dead one', () => find('dead')?.closedFor !== undefined)
    await stage.connections.until('pongs', () => (find('alive')?.aliveCount ?? 0) > 2)
    assert.equal(find('alive')!.closedFor, undefined)
  })
}, 60_000)

test('a node belongs to the namespace of its token', async () => {
  await using stage = await gatewayStage()
  const [red, blue] = [await stage.open({ token: 'red-1' }), await stage.open({ token: 'blue-1' })]
  red.hello('same')
  blue.hello('same', { services: [] })
  await red.next()
  await blue.next()
  assert.equal(stage.connectionsOf('red').nodes.length, 1)
  assert.equal(stage.connectionsOf('blue').nodes.length, 1)
  assert.equal(stage.connectionsOf('red').nodes[0]!.hello.services.length, 1)
  assert.equal(stage.connections.nodes.length, 0)
})

test('a token bound to nodes accepts only their names, and a wrong name gets the reason', async () => {
  await using stage = await gatewayStage()
  for (const nodeId of ['gpu-7', 'gpu-8']) {
    const peer = await stage.open({ token: 'default-1@gpu-7+gpu-8' })
    peer.hello(nodeId)
    assert.equal((await peer.next()).type, 'welcome')
  }
  for (const nodeId of ['gpu-9', 'GPU-7', 'gpu-7 ', 'gpu-7+gpu-8']) {
    const peer = await stage.open({ token: 'default-1@gpu-7+gpu-8' })
    peer.hello(nodeId)
    // The second try comes too late: the socket is closed already.
    peer.hello('gpu-7')
    const refusal = await peer.next()
    assert.equal(codeOf(refusal), 'forbidden', nodeId)
    assert.match('message' in refusal ? refusal.message : '', /may not connect as the node/)
    assert.equal((await peer.closed).code, 4400)
  }
  assert.deepEqual(
    stage.connections.nodes.map(({ hello }) => hello.nodeId),
    ['gpu-7', 'gpu-8'],
  )
})

test('frames of a node go to the session of its hello, whatever ids they contain', async () => {
  await using stage = await gatewayStage()
  const [one, two] = [await stage.open(), await stage.open()] as [Peer, Peer]
  one.hello('one')
  await one.next()
  two.hello('two')
  await two.next()
  two.say({
    type: 'task.result',
    nodeId: 'one',
    instanceId: 'one-1',
    taskId: 'of-one',
    attempt: 1,
    output: 1,
  })
  await stage.connections.until('it', () => stage.connections.nodes[1]!.frames.length === 1)
  assert.deepEqual(stage.connections.nodes[0]!.frames, [])
  assert.equal('nodeId' in stage.connections.nodes[1]!.frames[0]!, false)
})

test('the dispatcher may close a node with its own close code', async () => {
  await using stage = await gatewayStage()
  const peer = await stage.open()
  peer.hello()
  await peer.next()
  stage.connections.nodes[0]!.link.send({ type: 'error', code: 'superseded', message: 'Another came.' })
  stage.connections.nodes[0]!.link.close(4409, 'superseded')
  assert.equal(codeOf(await peer.next()), 'superseded')
  assert.deepEqual(await peer.closed, { code: 4409, reason: 'superseded' })
})

test('a frame handler that throws closes only the connection of its node', async () => {
  await using stage = await gatewayStage()
  stage.connections.onFrame = (node) => {
    if (node.hello.nodeId === 'one') throw new Error('planted')
  }
  const [one, two] = [await stage.open(), await stage.open()] as [Peer, Peer]
  one.hello('one')
  two.hello('two')
  one.say({ type: 'bye' })
  assert.equal((await one.closed).code, 1011)
  two.say({ type: 'bye' })
  await stage.connections.until('the other', () =>
    stage.connections.nodes.some(({ hello, frames }) => hello.nodeId === 'two' && frames.length === 1),
  )
  assert.match(String(stage.errors[0]), /planted/)
})

test('500 nodes that connect at once are all welcomed, and leave no session behind', async () => {
  await using stage = await gatewayStage()
  const peers = await Promise.all(Array.from({ length: 500 }, () => stage.open()))
  for (const [index, peer] of peers.entries()) peer.hello(`n${index}`)
  const welcomes = await Promise.all(peers.map((peer) => peer.next()))
  assert.ok(welcomes.every(({ type }) => type === 'welcome'))
  assert.equal(new Set(stage.connections.nodes.map(({ hello }) => hello.nodeId)).size, 500)
  for (const { ws } of peers) ws.terminate()
  await stage.connections.until('all ends', () => stage.connections.nodes.every(({ closedFor }) => closedFor))
  await stage.connections.until('all to have left', () => stage.entered() === 0)
})

/** A node without a library in between, so that frames can be broken. */
async function rawNode(port: number) {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  const bytes = () => Buffer.concat(chunks)
  const lines = [
    `GET ${nodesPath} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    'Authorization: Bearer default',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  while (!bytes().includes('\r\n\r\n')) await once(socket, 'data')
  assert.match(bytes().toString('latin1'), /^HTTP\/1\.1 101 /)
  socket.write(
    frame(1, JSON.stringify({ type: 'hello', nodeId: 'raw', instanceId: 'i', services: [service] })),
  )
  // Not `once`, which an error ends: a server that closes on what it has not read resets the connection.
  const closed = new Promise((resolve) => socket.once('close', resolve))
  return {
    socket,
    async closeCode() {
      await within(10_000, 'the end of the raw node', closed)
      const all = bytes()
      return all.readUInt16BE(all.lastIndexOf(0x88) + 2)
    },
  }
}

function frame(opcode: number, payload: string, isFinal = true): Buffer {
  const data = Buffer.from(payload)
  const first = (isFinal ? 0x80 : 0) | opcode
  const head =
    data.length < 126
      ? Buffer.from([first, 0x80 | data.length])
      : Buffer.from([first, 0x80 | 126, data.length >> 8, data.length & 255])
  return Buffer.concat([head, Buffer.alloc(4), data])
}

test('endless fragments, oversized messages and unfinished messages close only their own socket', async () => {
  await inGrowingLeases(100, async (pingMs) => {
    await using stage = await gatewayStage({}, { pingMs })
    const other = await stage.open()
    other.hello('other')
    await other.next()

    const flood = await rawNode(stage.port)
    // In one piece: a write that comes after the reset would take away what was said before it.
    const fragments = Array.from({ length: 200 }, () => frame(0, ' ', false))
    flood.socket.write(Buffer.concat([frame(1, '{', false), ...fragments]))
    assert.equal(await flood.closeCode(), 1008)

    const oversize = await rawNode(stage.port)
    // The head announces the size; the server does not wait for the rest.
    oversize.socket.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0]))
    assert.equal(await oversize.closeCode(), 1009)

    const unfinished = await rawNode(stage.port)
    unfinished.socket.write(frame(1, '{"type":', false))
    const answering = setInterval(() => unfinished.socket.write(frame(10, '')), pingMs / 4)
    assert.equal(await unfinished.closeCode(), 1008)
    clearInterval(answering)

    other.say({ type: 'ping' })
    assert.deepEqual(await other.next(), { type: 'pong' })
    assert.deepEqual(stage.errors, [])
  })
}, 60_000)

test('a token may come as a subprotocol, for clients that cannot send headers', async () => {
  await using stage = await gatewayStage()
  const token = `signalbox.bearer.${Buffer.from('red-2').toString('base64url')}`
  const ws = new WebSocket(stage.url, ['signalbox.v1', token])
  await within(
    5_000,
    'the platform to connect',
    new Promise((resolve) => ws.addEventListener('open', resolve)),
  )
  assert.equal(ws.protocol, 'signalbox.v1')
  ws.send(JSON.stringify({ type: 'hello', nodeId: 'n', instanceId: 'i', services: [] }))
  await stage.connectionsOf('red').until('hello', () => stage.connectionsOf('red').nodes.length === 1)
  ws.close()

  const without = new WebSocket(stage.url, ['signalbox.v1'])
  await within(5_000, 'the refusal', new Promise((resolve) => without.addEventListener('error', resolve)))
})
