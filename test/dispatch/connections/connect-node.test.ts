import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import type { NodeFrame, ServerFrame } from '../../../src/dispatch/index.ts'
import { type ConnectNodeOptions, connectNode, type NodeTaskContext } from '../../../src/http/client/index.ts'
import { within } from '../../support/deadline.ts'
import { inGrowingLeases } from '../../support/spans.ts'
import { type GatewayStage, gatewayStage, type SeenNode } from './gateway-stage.ts'

const quick = { baseMs: 20, factor: 1.5, jitter: 0.5, maxMs: 200 }

function nodeOptions(more: Partial<ConnectNodeOptions> = {}): ConnectNodeOptions {
  return {
    nodeId: 'n1',
    token: 'default',
    services: [{ name: 'nmt', slots: 2, tags: { pair: ['zh>en'] } }],
    onTask: async ({ payload }) => payload,
    backoff: quick,
    ...more,
  }
}

function assign(taskId: string, attempt = 1, payload: unknown = null): ServerFrame {
  return { type: 'task.assign', taskId, attempt, service: 'nmt', payload, deadlineAt: null }
}

const typesOf = ({ frames }: SeenNode) =>
  frames.map(({ type }) => type).filter((type) => type !== 'heartbeat')

function framesOf<Type extends NodeFrame['type']>({ frames }: SeenNode, type: Type) {
  return frames.filter((frame): frame is Extract<NodeFrame, { type: Type }> => frame.type === type)
}

const nthOf = (stage: GatewayStage, nth: number) =>
  stage.connections
    .until(`connection ${nth}`, () => stage.connections.nodes.length > nth)
    .then(() => stage.connections.nodes[nth]!)

test('a node is welcomed, accepts a task, answers it, and keeps the answer until it is settled', async () => {
  await using stage = await gatewayStage()
  await using node = await connectNode(
    stage.url,
    nodeOptions({ labels: { region: 'eu', gpus: 2 }, onTask: async ({ payload }) => ({ echo: payload }) }),
  )
  assert.equal(node.status, 'connected')
  assert.equal(node.epoch, 1)
  const seen = stage.connections.nodes[0]!
  assert.deepEqual(seen.hello, {
    type: 'hello',
    nodeId: 'n1',
    instanceId: node.instanceId,
    services: [{ name: 'nmt', slots: 2, tags: { pair: ['zh>en'] } }],
    labels: { region: 'eu', gpus: 2 },
    running: [],
    protocol: 1,
  })
  seen.link.send(assign('t1', 1, 'hi'))
  await stage.connections.until('a result', () => framesOf(seen, 'task.result').length === 1)
  assert.deepEqual(typesOf(seen), ['task.accept', 'task.result'])
  assert.deepEqual(framesOf(seen, 'task.result')[0]!.output, { echo: 'hi' })
  assert.deepEqual(node.taskIds, ['t1'])
  const settled = node.events.once('task')
  seen.link.send({ type: 'task.settled', taskId: 't1', attempt: 1 })
  assert.deepEqual(await settled, { taskId: 't1', attempt: 1, status: 'settled' })
  assert.deepEqual(node.taskIds, [])
})

test('an error that a handler throws fails the attempt, with its code and whether a retry helps', async () => {
  await using stage = await gatewayStage()
  const errors: Record<string, unknown> = {
    plain: new Error('no luck'),
    coded: Object.assign(new Error('no model'), { code: 'no_model', retryable: false }),
    text: 'only text',
    nothing: undefined,
    hostile: {
      get message() {
        throw new Error('hostile')
      },
    },
  }
  await using _node = await connectNode(
    stage.url,
    nodeOptions({
      services: [{ name: 'nmt', slots: 9 }],
      onTask({ payload }) {
        throw errors[payload as string]
      },
    }),
  )
  const seen = stage.connections.nodes[0]!
  for (const name of Object.keys(errors)) seen.link.send(assign(name, 1, name))
  await stage.connections.until('all to fail', () => framesOf(seen, 'task.fail').length === 5)
  const fails = Object.fromEntries(framesOf(seen, 'task.fail').map((frame) => [frame.taskId, frame]))
  assert.deepEqual([fails.plain!.error, fails.plain!.retryable], [{ message: 'no luck' }, true])
  assert.deepEqual(
    [fails.coded!.error, fails.coded!.retryable],
    [{ code: 'no_model', message: 'no model' }, false],
  )
  assert.equal(fails.text!.error.message, 'only text')
  assert.equal(fails.nothing!.error.message, 'undefined')
  assert.equal(fails.hostile!.retryable, true)
})

test('a result that cannot be sent fails its task for good, and the connection stays open', async () => {
  await using stage = await gatewayStage()
  const outputs: Record<string, unknown> = {
    large: 'x'.repeat(262_144 - 10),
    wide: 'ü'.repeat(200_000),
    bigint: 7n,
    date: new Date(0),
  }
  await using node = await connectNode(
    stage.url,
    nodeOptions({
      services: [{ name: 'nmt', slots: 9 }],
      onTask: async ({ payload }) => outputs[payload as string],
    }),
  )
  const seen = stage.connections.nodes[0]!
  for (const name of Object.keys(outputs)) seen.link.send(assign(name, 1, name))
  await stage.connections.until('all to fail', () => framesOf(seen, 'task.fail').length === 4)
  const codes = framesOf(seen, 'task.fail').map(({ taskId, error, retryable }) => [
    taskId,
    error.code,
    retryable,
  ])
  assert.deepEqual(codes.sort(), [
    ['bigint', 'invalid_output', false],
    ['date', 'invalid_output', false],
    ['large', 'too_large', false],
    ['wide', 'invalid_output', false],
  ])
  assert.equal(node.status, 'connected')
})

test('a node takes at most as many tasks as it has slots, and only of its own services', async () => {
  await using stage = await gatewayStage()
  const gate = Promise.withResolvers<void>()
  await using _node = await connectNode(stage.url, nodeOptions({ onTask: () => gate.promise }))
  const seen = stage.connections.nodes[0]!
  for (const id of ['t1', 't2', 't3']) seen.link.send(assign(id))
  seen.link.send({ ...assign('t4'), service: 'tts' } as ServerFrame)
  await stage.connections.until('answers', () => typesOf(seen).length === 4)
  assert.deepEqual(
    framesOf(seen, 'task.accept').map(({ taskId }) => taskId),
    ['t1', 't2'],
  )
  assert.deepEqual(
    framesOf(seen, 'task.reject').map(({ taskId, reason }) => [taskId, reason]),
    [
      ['t3', 'busy'],
      ['t4', 'missing'],
    ],
  )
  gate.resolve()
  await stage.connections.until('two results', () => framesOf(seen, 'task.result').length === 2)
  seen.link.send(assign('t3', 1))
  await stage.connections.until('the third', () => framesOf(seen, 'task.result').length === 3)
})

test('cancel aborts the handler and sends its answer; stale aborts the handler and drops its answer', async () => {
  await using stage = await gatewayStage()
  const aborted: string[] = []
  const onTask = ({ taskId }: { taskId: string }, { signal }: NodeTaskContext) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        aborted.push(taskId)
        reject(signal.reason)
      })
    })
  await using node = await connectNode(stage.url, nodeOptions({ onTask }))
  const seen = stage.connections.nodes[0]!
  seen.link.send(assign('t1'))
  seen.link.send(assign('t2'))
  // Another attempt's cancel is none of this one's.
  seen.link.send({ type: 'task.cancel', taskId: 't1', attempt: 9 })
  seen.link.send({ type: 'task.cancel', taskId: 't1', attempt: 1 })
  seen.link.send({ type: 'task.stale', taskId: 't2', attempt: 0 })
  await stage.connections.until('the end of t1', () => framesOf(seen, 'task.fail').length === 1)
  assert.deepEqual(aborted, ['t1', 't2'])
  assert.deepEqual(node.taskIds, ['t1'])
  seen.link.send({ type: 'task.stale', taskId: 't1', attempt: 1 })
  await node.events.once('task')
  assert.deepEqual(node.taskIds, [])
  assert.equal(framesOf(seen, 'task.fail')[0]!.taskId, 't1')
  assert.equal(framesOf(seen, 'task.fail').length, 1)
})

test('progress is sent at a limited rate, and the last progress is always sent', async () => {
  await using stage = await gatewayStage()
  const gate = Promise.withResolvers<void>()
  await using _node = await connectNode(
    stage.url,
    nodeOptions({
      onTask: async (_task, { progress }) => {
        for (let i = 0; i <= 1_000; i++) progress(i / 5, `step ${i}`)
        await gate.promise
      },
    }),
  )
  const seen = stage.connections.nodes[0]!
  seen.link.send(assign('t1'))
  await stage.connections.until('the last', () => framesOf(seen, 'task.progress').length === 2)
  gate.resolve()
  await stage.connections.until('the result', () => framesOf(seen, 'task.result').length === 1)
  const reported = framesOf(seen, 'task.progress').map(({ percent, note }) => [percent, note])
  assert.deepEqual(reported, [
    [0, 'step 0'],
    [100, 'step 1000'],
  ])
})

test('a handler may report progress in the form of the message', async () => {
  await using stage = await gatewayStage()
  await using _node = await connectNode(
    stage.url,
    nodeOptions({ onTask: (_task, { progress }) => progress({ percent: 40, note: 'loading' }) }),
  )
  const seen = stage.connections.nodes[0]!
  seen.link.send(assign('t1'))
  await stage.connections.until('the result', () => framesOf(seen, 'task.result').length === 1)
  const reported = framesOf(seen, 'task.progress').map(({ percent, note }) => [percent, note])
  assert.deepEqual(reported, [[40, 'loading']])
})

test('after a broken connection the node returns as the same instance, with its tasks and unsent results', async () => {
  await using stage = await gatewayStage()
  const gate = Promise.withResolvers<void>()
  await using node = await connectNode(
    stage.url,
    nodeOptions({ onTask: ({ taskId }) => (taskId === 'slow' ? gate.promise : 'quick') }),
  )
  const first = stage.connections.nodes[0]!
  first.link.send(assign('slow'))
  first.link.send(assign('quick'))
  await stage.connections.until('a result', () => framesOf(first, 'task.result').length === 1)
  const lost = node.events.once('disconnected')
  stage.cut()
  assert.equal((await lost).code, 1006)
  const second = await nthOf(stage, 1)
  assert.equal(second.hello.instanceId, first.hello.instanceId)
  assert.deepEqual([...second.hello.running!].sort(), ['quick', 'slow'])
  await stage.connections.until('what is repeated', () => typesOf(second).length === 2)
  assert.deepEqual(typesOf(second).sort(), ['task.accept', 'task.result'])
  second.link.send({ type: 'task.settled', taskId: 'quick', attempt: 1 })
  // Again assigned, a task that runs is not begun twice.
  second.link.send(assign('slow'))
  await stage.connections.until('how it stands', () => framesOf(second, 'task.accept').length === 2)
  gate.resolve()
  await stage.connections.until('the slow one', () => framesOf(second, 'task.result').length === 2)
  assert.deepEqual(node.taskIds, ['slow'])
})

test('a task that ends while no server answers is answered once a server does', async () => {
  const stage = await gatewayStage()
  const gate = Promise.withResolvers<void>()
  await using node = await connectNode(stage.url, nodeOptions({ onTask: () => gate.promise.then(() => 42) }))
  const first = stage.connections.nodes[0]!
  first.link.send(assign('t1', 3))
  await stage.connections.until('accept', () => framesOf(first, 'task.accept').length === 1)
  const lost = node.events.once('disconnected')
  await stage[Symbol.asyncDispose]()
  await lost
  const done = node.events.once('task')
  gate.resolve()
  assert.equal((await done).status, 'completed')
  await using again = await gatewayStage({}, {}, stage.port)
  const seen = await nthOf(again, 0)
  await again.connections.until('the result', () => framesOf(seen, 'task.result').length === 1)
  assert.deepEqual(framesOf(seen, 'task.result')[0], {
    type: 'task.result',
    taskId: 't1',
    attempt: 3,
    output: 42,
  })
})

test('a newer attempt of a task replaces the older one, whose result is not sent', async () => {
  await using stage = await gatewayStage()
  const gates = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
  await using _node = await connectNode(
    stage.url,
    nodeOptions({ onTask: ({ attempt }) => gates[attempt - 1]!.promise }),
  )
  const seen = stage.connections.nodes[0]!
  seen.link.send(assign('t1', 1))
  seen.link.send(assign('t1', 2))
  seen.link.send(assign('t1', 1))
  await stage.connections.until('both', () => framesOf(seen, 'task.accept').length === 2)
  gates[0]!.resolve('old')
  gates[1]!.resolve('new')
  await stage.connections.until('a result', () => framesOf(seen, 'task.result').length > 0)
  assert.deepEqual(
    framesOf(seen, 'task.result').map(({ attempt, output }) => [attempt, output]),
    [[2, 'new']],
  )
})

test('a heartbeat has the load, the running tasks, and the assign count at its measurement', async () => {
  await using stage = await gatewayStage()
  stage.connections.heartbeatMs = 50
  let loads = 0
  await using _node = await connectNode(
    stage.url,
    nodeOptions({
      load: async () => {
        loads++
        if (loads === 2) throw new Error('no meter')
        return { cpu: 1.7, memory: 0.25 }
      },
      onTask: () => new Promise(() => {}),
    }),
  )
  const seen = stage.connections.nodes[0]!
  await stage.connections.until('the first', () => framesOf(seen, 'heartbeat').length === 1)
  seen.link.send(assign('t1'))
  await stage.connections.until('more', () =>
    framesOf(seen, 'heartbeat').some(({ countedSeq }) => countedSeq === 1),
  )
  const [first, second] = framesOf(seen, 'heartbeat')
  assert.deepEqual(first!.load, { cpu: 1, gpu: null, memory: 0.25 })
  assert.deepEqual([first!.countedSeq, first!.running], [0, []])
  assert.deepEqual(second!.load, { cpu: null, gpu: null, memory: null })
  assert.deepEqual(framesOf(seen, 'heartbeat').at(-1)!.running, ['t1'])
})

test('a node that runs more tasks than fit into a frame stays connected, and does not list them', async () => {
  await using stage = await gatewayStage()
  stage.connections.heartbeatMs = 50
  await using node = await connectNode(
    stage.url,
    nodeOptions({ services: [{ name: 'nmt', slots: 3_000 }], onTask: () => new Promise(() => undefined) }),
  )
  const first = stage.connections.nodes[0]!
  const wide = 'ö'.repeat(80)
  for (let nr = 0; nr < 1_700; nr += 1) first.link.send(assign(`${wide}${nr}`))
  await stage.connections.until('it has all', () => framesOf(first, 'task.accept').length === 1_700)
  await stage.connections.until(
    'it goes on speaking',
    () => framesOf(first, 'heartbeat').at(-1)?.running === null,
  )
  first.link.close(1012, 'restarts')
  const second = await nthOf(stage, 1)
  assert.equal(second.hello.running, null)
  await stage.connections.until('it tells them again', () => framesOf(second, 'task.accept').length === 1_700)
  assert.equal(node.taskIds.length, 1_700)
})

test('a load function that never answers stops no heartbeat, and a late answer is still sent', async () => {
  await using stage = await gatewayStage()
  stage.connections.heartbeatMs = 50
  let loads = 0
  await using _node = await connectNode(
    stage.url,
    nodeOptions({ load: () => (++loads === 1 ? new Promise(() => {}) : { cpu: 0.5 }) }),
  )
  const seen = stage.connections.nodes[0]!
  await stage.connections.until('a load', () =>
    framesOf(seen, 'heartbeat').some(({ load }) => load.cpu === 0.5),
  )
  assert.deepEqual(framesOf(seen, 'heartbeat')[0]!.load, { cpu: null, gpu: null, memory: null })
})

test('a revoked task is listed while its handler runs, and its end sends a heartbeat at once', async () => {
  await using stage = await gatewayStage()
  // No other heartbeat comes while this is tested but the first.
  stage.connections.heartbeatMs = 600_000
  const gates = new Map(['t1', 't2'].map((taskId) => [taskId, Promise.withResolvers<void>()]))
  const loads: PromiseWithResolvers<object>[] = []
  await using node = await connectNode(
    stage.url,
    nodeOptions({
      onTask: ({ taskId }) => gates.get(taskId)!.promise,
      load() {
        loads.push(Promise.withResolvers())
        stage.connections.changed.wake()
        return loads.at(-1)!.promise
      },
    }),
  )
  const seen = stage.connections.nodes[0]!
  const beats = () => framesOf(seen, 'heartbeat')
  const listed = async (count: number) => {
    await stage.connections.until(`heartbeat ${count}`, () => beats().length === count)
    return beats().at(-1)!.running
  }
  loads[0]!.resolve({})
  assert.deepEqual(await listed(1), [])
  for (const taskId of gates.keys()) {
    seen.link.send(assign(taskId))
    seen.link.send({ type: 'task.stale', taskId, attempt: 1 })
  }
  seen.link.send(assign('t3'))
  await stage.connections.until('the rejection', () => framesOf(seen, 'task.reject').length === 1)
  assert.deepEqual(node.taskIds, [])
  gates.get('t1')!.resolve()
  await stage.connections.until('a measurement', () => loads.length === 2)
  // The task ends while the load is measured: one more heartbeat reports it.
  gates.get('t2')!.resolve()
  await new Promise(setImmediate)
  loads[1]!.resolve({})
  assert.deepEqual(await listed(2), ['t2'])
  await stage.connections.until('another measurement', () => loads.length === 3)
  loads[2]!.resolve({})
  assert.deepEqual(await listed(3), [])
  assert.equal(framesOf(seen, 'task.result').length, 0)
})

test('a node notices a server that vanished silently, and connects again', async () => {
  await using stage = await gatewayStage()
  stage.connections.heartbeatMs = 50
  const dead: Deaf[] = []
  // The first connection loses every message that comes after the welcome.
  class Deaf extends WebSocket {
    #heard = 0
    constructor(url: string, protocols: string[]) {
      super(url, protocols)
      dead.push(this)
    }
    override set onmessage(listener: ((event: MessageEvent) => void) | null) {
      super.onmessage = listener && ((event) => (dead[0] !== this || this.#heard++ < 1) && listener(event))
    }
  }
  await using node = await connectNode(stage.url, nodeOptions({ WebSocket: Deaf as never }))
  const lost = await within(5_000, 'the loss', node.events.once('disconnected'))
  assert.match(lost.reason, /did not answer/)
  await nthOf(stage, 1)
  // A node that answers pings is kept, though no frames are sent.
  await stage.connections.until(
    'heartbeats',
    () => framesOf(stage.connections.nodes[1]!, 'heartbeat').length > 8,
  )
  assert.equal(stage.connections.nodes.length, 2)
})

test('drain withdraws all offers, rejects later tasks, and resolves when all tasks are settled', async () => {
  await using stage = await gatewayStage()
  const gate = Promise.withResolvers<void>()
  await using node = await connectNode(stage.url, nodeOptions({ onTask: () => gate.promise }))
  const seen = stage.connections.nodes[0]!
  seen.link.send(assign('t1'))
  await stage.connections.until('accept', () => framesOf(seen, 'task.accept').length === 1)
  let isDrained = false
  const drained = node.drain().then(() => {
    isDrained = true
  })
  seen.link.send(assign('t2'))
  await stage.connections.until('the rejection', () => framesOf(seen, 'task.reject').length === 1)
  assert.deepEqual(framesOf(seen, 'update')[0]!.services, [])
  assert.equal(framesOf(seen, 'task.reject')[0]!.reason, 'draining')
  gate.resolve()
  await stage.connections.until('the result', () => framesOf(seen, 'task.result').length === 1)
  assert.equal(isDrained, false)
  seen.link.send({ type: 'task.settled', taskId: 't1', attempt: 1 })
  await within(5_000, 'the drain', drained)
  assert.equal(node.status, 'connected')
})

test('close says bye, aborts running tasks, and ends; aborting the signal does the same', async () => {
  await using stage = await gatewayStage()
  const controller = new AbortController()
  const aborted = Promise.withResolvers<void>()
  const node = await connectNode(
    stage.url,
    nodeOptions({
      signal: controller.signal,
      onTask: (_task, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve())
        return new Promise(() => {})
      },
    }),
  )
  const seen = stage.connections.nodes[0]!
  seen.link.send(assign('t1'))
  await stage.connections.until('accept', () => framesOf(seen, 'task.accept').length === 1)
  controller.abort()
  await aborted.promise
  assert.equal(await node.closed, null)
  assert.equal(node.status, 'closed')
  await stage.connections.until('bye', () => seen.closedFor !== undefined)
  assert.equal(typesOf(seen).at(-1), 'bye')
  await node.close()
})

test('close with a grace time waits for running tasks', async () => {
  await using stage = await gatewayStage()
  const gate = Promise.withResolvers<void>()
  const node = await connectNode(stage.url, nodeOptions({ onTask: () => gate.promise }))
  const seen = stage.connections.nodes[0]!
  stage.connections.onFrame = (from, { type }) => {
    if (type === 'task.result') from.link.send({ type: 'task.settled', taskId: 't1', attempt: 1 })
  }
  seen.link.send(assign('t1'))
  await stage.connections.until('accept', () => framesOf(seen, 'task.accept').length === 1)
  const closed = node.close({ graceMs: 10_000 })
  gate.resolve()
  await within(5_000, 'the close', closed)
  await stage.connections.until('bye', () => seen.closedFor !== undefined)
  assert.deepEqual(typesOf(seen), ['task.accept', 'update', 'task.result', 'bye'])
})

test('a node ends when another instance took over, its token ended, or the server refuses it', async () => {
  for (const [code, error] of [
    [4409, 'conflict'],
    [4401, 'unauthorized'],
    [4400, 'invalid_argument'],
  ] as const) {
    await using stage = await gatewayStage()
    const node = await connectNode(stage.url, nodeOptions())
    stage.connections.nodes[0]!.link.close(code, 'because')
    const end = await within(5_000, `the end by ${code}`, node.closed)
    assert.equal(end?.code, error)
    assert.equal(stage.connections.nodes.length, 1)
  }
})

test('a failed first connection gives the reason: no token, no server, or no welcome in time', async () => {
  await using stage = await gatewayStage()
  await assert.rejects(connectNode(stage.url, nodeOptions({ token: undefined })), (error) =>
    isSignalboxError(error, 'unauthorized'),
  )
  // As a proxy that does not know of WebSockets passes requests on.
  const plain = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"protocol":1,"heartbeatMs":15000}')
  }).listen(0, '127.0.0.1')
  const away = createServer().listen(0, '127.0.0.1')
  await Promise.all([once(plain, 'listening'), once(away, 'listening')])
  const { port } = away.address() as AddressInfo
  away.close()
  await inGrowingLeases(700, async (connectMs) => {
    const refused = (at: number) => connectNode(`ws://127.0.0.1:${at}`, nodeOptions({ connectMs }))
    await Promise.all([
      assert.rejects(refused((plain.address() as AddressInfo).port), {
        code: 'timeout',
        message: /does not open WebSockets.*Upgrade and Connection/,
      }),
      assert.rejects(refused(port), { code: 'timeout', message: /The last problem: .*cannot be reached/ }),
    ])
  })
  plain.close()
  const controller = new AbortController()
  const left = connectNode(`ws://127.0.0.1:${port}`, nodeOptions({ signal: controller.signal }))
  controller.abort(new Error('enough'))
  await assert.rejects(left, /enough/)
})

test('options that no server would accept are refused at once, and secrets are not repeated', async () => {
  const bad: readonly (readonly [string, Partial<Record<keyof ConnectNodeOptions, unknown>>])[] = [
    ['ws://host', { nodeId: '' }],
    ['ws://host', { services: [{ name: 'a', slots: 0 }] }],
    ['ws://host', { services: [{ name: 'a', slots: 1_000_000 }] }],
    ['ws://host', { services: 'a' }],
    ['ws://host', { onTask: 7 }],
    ['ws://host', { labels: { size: 1n } }],
    ['ws://host', { labels: { when: new Date(0) } }],
    ['ws://host', { labels: { much: Number.NaN } }],
    ['ws://host', { labels: { long: 'x'.repeat(192) } }],
    ['ws://host', { labels: ['a'] }],
    ['ws://host', { services: [{ name: 'a', slots: 1, tags: { pair: [1n] } }] }],
    ['ws://host', { services: [{ name: 'a', slots: 1, tags: { pair: 'zh>en' } }] }],
    ['ws://host?token=secret', {}],
    ['ws://me:secret@host', {}],
    ['ftp://secret', {}],
    ['ws://host', { colour: 'red' } as object],
  ]
  for (const [url, more] of bad) {
    const attempt = connectNode(url, { ...nodeOptions(), ...more } as ConnectNodeOptions)
    await assert.rejects(attempt, (error) => {
      assert.ok(isSignalboxError(error, 'invalid_argument'))
      assert.doesNotMatch(error.message, /secret/)
      return true
    })
  }
})

test('an invalid offer is refused before the node connects or changes anything', async () => {
  await using stage = await gatewayStage()
  const bad = { size: 1n } as never
  await assert.rejects(connectNode(stage.url, nodeOptions({ labels: bad })), { code: 'invalid_argument' })
  assert.equal(stage.connections.nodes.length, 0)
  await using node = await connectNode(stage.url, nodeOptions({ labels: { region: 'eu' } }))
  const services = [{ name: 'tts', slots: 1 }]
  assert.throws(() => node.update({ services, labels: bad }), { code: 'invalid_argument' })
  node.update({ labels: { region: 'us' } })
  const seen = stage.connections.nodes[0]!
  await stage.connections.until('the update', () => framesOf(seen, 'update').length > 0)
  const [update] = framesOf(seen, 'update')
  assert.deepEqual([update!.services![0]!.name, update!.labels], ['nmt', { region: 'us' }])
  // And it comes back with what it is.
  stage.cut()
  assert.deepEqual((await nthOf(stage, 1)).hello.labels, { region: 'us' })
})

test('a server whose connections are cut repeatedly loses no result, and no task runs twice', async () => {
  await using stage = await gatewayStage()
  const runs = new Map<string, number>()
  const total = 200
  await using node = await connectNode(
    stage.url,
    nodeOptions({
      services: [{ name: 'nmt', slots: total }],
      onTask: async ({ taskId }) => {
        runs.set(taskId, (runs.get(taskId) ?? 0) + 1)
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 300))
        return taskId
      },
    }),
  )
  const results = new Set<string>()
  let resultCount = 0
  // Every third result is heard and its settlement is lost with the connection.
  stage.connections.onFrame = (from, frame) => {
    if (frame.type !== 'task.result') return
    results.add(frame.taskId)
    if (++resultCount % 30 === 0) stage.cut()
    else from.link.send({ type: 'task.settled', taskId: frame.taskId, attempt: 1 })
  }
  let assigned = 0
  while (assigned < total) {
    const current = stage.connections.nodes.at(-1)!
    if (current.closedFor === undefined && current.link.send(assign(`t${assigned}`))) assigned++
    await new Promise(setImmediate)
  }
  // An assign that was lost with its connection is given again, as a dispatcher would.
  const isOver = () => results.size === total && node.taskIds.length === 0
  for (let round = 0; !isOver() && round < 400; round++) {
    const current = stage.connections.nodes.at(-1)!
    if (current.closedFor === undefined && round % 10 === 9)
      for (let i = 0; i < total; i++) if (!runs.has(`t${i}`)) current.link.send(assign(`t${i}`))
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  assert.equal(results.size, total)
  assert.deepEqual(node.taskIds, [])
  assert.ok([...runs.values()].every((count) => count === 1))
  assert.ok(stage.connections.nodes.length > 3, `${stage.connections.nodes.length} connections`)
})
