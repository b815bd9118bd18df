import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { type ConnectNodeOptions, connectNode, createClient, type WireTaskEvent } from 'signalbox/client'
import { test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { type Stage, serving } from '../../http/server/stage.ts'
import { within } from '../../support/deadline.ts'

const socketUrl = ({ url }: Stage) => `${url.replace('http', 'ws')}/v1/nodes/connect`

function connect(stage: Stage, more: Partial<ConnectNodeOptions> = {}) {
  return connectNode(socketUrl(stage), {
    nodeId: 'n1',
    services: [{ name: 'nmt', slots: 2, tags: { pair: ['zh>en'] } }],
    onTask: async ({ payload }) => ({ done: payload }),
    backoff: { baseMs: 20, factor: 1.5, jitter: 0.5, maxMs: 200 },
    ...more,
  })
}

/** Asks until it is so, where there is no event to wait for. */
async function eventually(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  const wait = async () => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await within(60_000, what, wait())
}

const watch = async (client: ReturnType<typeof createClient>, taskId: string) => {
  const events: WireTaskEvent[] = []
  await within(
    20_000,
    'the end of the task',
    client.dispatch.watch(taskId, (event) => events.push(event)),
  )
  return events
}

test('connected nodes are counted by status, and reading the counts does not start dispatch', async () => {
  await using stage = await serving()
  const counted = async () => {
    const { body } = await stage.ask('GET', '/metrics')
    return (body as string).split('\n').filter((line) => line.startsWith('signalbox_nodes'))
  }
  assert.deepEqual(await counted(), [])
  await using _node = await connect(stage)
  await eventually('the node is counted', async () =>
    (await counted()).includes('signalbox_nodes{namespace="default",state="ready"} 1'),
  )
})

test('waiting tasks, their oldest wait and slots in use are counted by service', async () => {
  await using stage = await serving()
  await using _node = await connect(stage, {
    services: [{ name: 'nmt', slots: 2 }],
    onTask: (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', reject)),
  })
  for (let task = 0; task < 5; task++) await stage.ask('POST', '/v1/tasks', { body: { service: 'nmt' } })
  await stage.ask('POST', '/v1/tasks', { body: { service: 'tts' } })
  const readGauge = async (name: string, service: string) => {
    const { body } = await stage.ask('GET', '/metrics')
    const [, value] =
      new RegExp(`^${name}\\{namespace="default",service="${service}"\\} (.*)$`, 'm').exec(body as string) ??
      []
    return value === undefined ? undefined : Number(value)
  }
  await eventually(
    'both slots are in use',
    async () => (await readGauge('signalbox_slots_used', 'nmt')) === 2,
  )
  await eventually('the rest waits', async () => (await readGauge('signalbox_tasks_waiting', 'nmt')) === 3)
  assert.equal(await readGauge('signalbox_slots', 'nmt'), 2)
  await eventually(
    'one waits for a node',
    async () => (await readGauge('signalbox_tasks_waiting', 'tts')) === 1,
  )
  const oldest = await readGauge('signalbox_tasks_oldest_wait_seconds', 'tts')
  assert.ok(oldest! > 0 && oldest! < 60, `${oldest}`)
  await eventually(
    'it waits on',
    async () => (await readGauge('signalbox_tasks_oldest_wait_seconds', 'tts'))! > oldest!,
  )
})

test("a node over WebSocket runs a task submitted over HTTP, and the task's stream shows each step", async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  await using _node = await connect(stage, {
    onTask: async ({ payload, service }, { progress }) => {
      progress(40, 'under way')
      return { service, got: payload }
    },
  })
  const reply = await stage.ask('POST', '/v1/tasks', { body: { service: 'nmt', payload: { text: 'hi' } } })
  assert.equal(reply.status, 202)
  assert.deepEqual([reply.body.status, reply.body.duplicate], ['waiting', false])
  const { taskId } = reply.body
  const events = await watch(client, taskId)
  const last = events.at(-1)!
  assert.equal(last.type, 'completed')
  assert.deepEqual(last.type === 'completed' && last.output, { service: 'nmt', got: { text: 'hi' } })
  const { body: metrics } = await stage.ask('GET', '/metrics')
  assert.match(metrics, /^signalbox_dispatch_seconds_count\{namespace="default"\} 1$/m)
  assert.match(metrics, /^signalbox_dispatch_seconds_bucket\{le="60",namespace="default"\} 1$/m)
  const task = await client.dispatch.task(taskId)
  assert.deepEqual(
    [task.status, task.attempt, task.nodeId, task.output],
    ['completed', 1, 'n1', { service: 'nmt', got: { text: 'hi' } }],
  )
  // Of a task that is over, the stream has its end alone.
  assert.deepEqual(
    (await watch(client, taskId)).map(({ type }) => type),
    ['completed'],
  )
  const { items } = await client.dispatch.tasks()
  assert.deepEqual(
    items.map((one) => one.taskId),
    [taskId],
  )
})

test('tasks are listed by status, page by page, and one task is shown with its submitted fields', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  const ended = Promise.withResolvers<void>()
  await using _node = await connect(stage, {
    async onTask({ payload }) {
      if (payload === 'long') await ended.promise
      if (payload === 'bad') throw Object.assign(new Error('it is bad'), { retryable: false })
      return payload
    },
  })
  const submit = async (payload: string, service = 'nmt') =>
    (await client.dispatch.submit({ service, payload })).taskId
  const [good, bad] = [await submit('good'), await submit('bad')]
  for (const taskId of [good, bad]) await watch(client, taskId)
  const long = await submit('long')
  const dropped = await submit('dropped', 'tts')
  await client.dispatch.cancel(dropped)
  const waiting = [await submit('a', 'tts'), await submit('b', 'tts'), await submit('c', 'tts')].reverse()
  const list = async (status: 'waiting' | 'assigned' | 'running' | 'completed' | 'failed' | 'cancelled') =>
    (await client.dispatch.tasks({ status })).items.map(({ taskId }) => taskId)
  await eventually('the long one runs', async () => (await client.dispatch.task(long)).status === 'running')
  assert.deepEqual(await list('running'), [long])
  assert.deepEqual(await list('assigned'), [])
  assert.deepEqual(await list('completed'), [good])
  assert.deepEqual(await list('failed'), [bad])
  assert.deepEqual(await list('cancelled'), [dropped])
  assert.deepEqual(await list('waiting'), waiting)
  const first = await client.dispatch.tasks({ status: 'waiting', limit: 2 })
  const second = await client.dispatch.tasks({ status: 'waiting', limit: 2, cursor: first.cursor! })
  assert.deepEqual(
    [...first.items, ...second.items].map(({ taskId }) => taskId),
    waiting,
  )
  ended.resolve()
  await watch(client, long)
  assert.deepEqual(await list('completed'), [long, good])

  const asked = {
    ...{ service: 'tts', uses: { tts: 2 }, requires: [{ label: 'region', in: ['eu'] }], prefers: [] },
    ...{ payload: { text: 'hi' }, priority: 7, tenant: 'acme', session: 's1' },
    ...{ deadlineMs: 60_000, idleMs: 5_000, retryable: false },
  }
  const { taskId } = await client.dispatch.submit(asked)
  // In the store, held by this server, and when it is over.
  assert.partialDeepStrictEqual(await client.dispatch.task(taskId), asked)
  await eventually('it is held', async () => {
    const found = await client.dispatch.task(taskId)
    assert.partialDeepStrictEqual(found, asked)
    return found.attempt === 1
  })
  await client.dispatch.cancel(taskId)
  assert.partialDeepStrictEqual(await client.dispatch.task(taskId), { ...asked, status: 'cancelled' })
  const refused = await stage.ask('GET', '/v1/tasks?status=open')
  assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_argument'])
})

test('a repeated Idempotency-Key, or idempotencyKey, returns the task that it created first', async () => {
  await using stage = await serving()
  const headers = { 'idempotency-key': 'once' }
  const body = { service: 'nmt', payload: 1 }
  const first = await stage.ask('POST', '/v1/tasks', { body, headers })
  const second = await stage.ask('POST', '/v1/tasks', { body, headers })
  assert.deepEqual([first.status, second.status], [202, 200])
  assert.equal(second.body.taskId, first.body.taskId)
  assert.equal(second.body.duplicate, true)
  const other = await stage.ask('POST', '/v1/tasks', { body: { ...body, payload: 2 }, headers })
  assert.equal(other.status, 422)
  const named = { ...body, idempotencyKey: 'mine' }
  const [a, b] = [
    await stage.ask('POST', '/v1/tasks', { body: named }),
    await stage.ask('POST', '/v1/tasks', { body: named }),
  ]
  assert.equal(a.body.taskId, b.body.taskId)
  assert.notEqual(a.body.taskId, first.body.taskId)
})

test('an invalid task is refused with the reason, and nothing is stored', async () => {
  await using stage = await serving()
  for (const body of [
    {},
    { service: '' },
    { service: 'a', colour: 'red' },
    { service: 'a', priority: 10 },
    { service: 'a', uses: { a: 0 } },
    { service: 'a', requires: [{ nonsense: 1 }] },
    { service: 'a', requires: 'all' },
    { service: 'a', deadlineMs: 'soon' },
  ]) {
    const reply = await stage.ask('POST', '/v1/tasks', { body })
    assert.deepEqual([reply.status, reply.body.code], [400, 'invalid_argument'], JSON.stringify(body))
  }
  for (const path of ['', '/events', '/explain']) {
    const reply = await stage.ask('GET', `/v1/tasks/nope${path}`)
    assert.deepEqual([reply.status, reply.body.code], [404, 'not_found'], path)
  }
  assert.equal((await stage.ask('POST', '/v1/tasks/nope/cancel')).status, 404)
  assert.equal((await stage.ask('POST', '/v1/nodes/nope/drain')).status, 404)
  assert.deepEqual((await stage.ask('GET', '/v1/tasks')).body.items, [])
})

test('a waiting task can be explained and cancelled', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  await using _node = await connect(stage)
  const { taskId } = await client.dispatch.submit({
    service: 'nmt',
    requires: [{ service: 'nmt', where: { pair: 'fr>en' } }],
  })
  await eventually('the node to be seen', async () => (await client.dispatch.nodes()).items.length === 1)
  const explanation = await client.dispatch.explain(taskId)
  assert.equal(explanation.nodeCount, 1)
  assert.ok(explanation.requirements.some(({ failingCount }) => failingCount === 1))
  assert.equal(explanation.nearest[0]!.nodeId, 'n1')
  const cancelled = await client.dispatch.cancel(taskId, { reason: 'enough' })
  assert.equal(cancelled.status, 'cancelled')
  assert.deepEqual(
    (await watch(client, taskId)).map(({ type }) => type),
    ['cancelled'],
  )
})

test('cancel reaches the node that runs the task', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  const aborted = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  await using node = await connect(stage, {
    onTask: (_task, { signal }) => {
      begun.resolve()
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          aborted.resolve()
          reject(signal.reason)
        })
      })
    },
  })
  const { taskId } = await client.dispatch.submit({ service: 'nmt' })
  await within(5_000, 'the task to begin', begun.promise)
  assert.equal((await client.dispatch.cancel(taskId)).status, 'cancelled')
  await within(5_000, 'the abort', aborted.promise)
  await eventually('the node to let go of it', () => node.taskIds.length === 0)
})

test('operators list, drain and cordon nodes and define pools, and the audit records it', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  await using node = await connect(stage, { labels: { memoryGb: 48 } })
  await eventually('the node', async () => (await client.dispatch.nodes({ nodeId: 'n1' })).items.length === 1)
  const { items } = await client.dispatch.nodes({ nodeId: 'n1' })
  assert.deepEqual([items[0]!.status, items[0]!.services[0]!.slots], ['ready', 2])

  assert.equal(
    (
      await stage.ask('POST', '/v1/pools', {
        body: { name: 'large', requires: [{ label: 'memoryGb', gte: 40 }] },
      })
    ).status,
    201,
  )
  const pooled = await client.dispatch.submit({
    service: 'nmt',
    requires: [{ label: 'pool', in: ['large'] }],
  })
  assert.equal((await watch(client, pooled.taskId)).at(-1)!.type, 'completed')
  assert.ok((await client.dispatch.pools()).items.some(({ name }) => name === 'large'))

  await client.dispatch.cordon('n1', { service: 'nmt' })
  const held = await client.dispatch.submit({ service: 'nmt' })
  await eventually('it to wait', async () => (await client.dispatch.task(held.taskId)).status === 'waiting')
  await client.dispatch.uncordon('n1', { service: 'nmt' })
  assert.equal((await watch(client, held.taskId)).at(-1)!.type, 'completed')

  const draining = node.events.once('draining')
  assert.equal((await client.dispatch.drain('n1')).draining, true)
  await within(5_000, 'the node to hear of it', draining)
  const { items: acts } = await client.audit.list()
  assert.deepEqual(acts.map(({ action }) => action).sort(), [
    'node.cordon',
    'node.cordon',
    'node.drain',
    'pool.define',
  ])
})

test('a second instance with the same id takes over, and the first ends for good', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  const begun = Promise.withResolvers<void>()
  const first = await connect(stage, {
    onTask: () => {
      begun.resolve()
      return new Promise(() => {})
    },
  })
  const { taskId } = await client.dispatch.submit({ service: 'nmt', payload: 7 })
  await within(5_000, 'the first to begin', begun.promise)
  await using _second = await connect(stage)
  assert.equal((await within(5_000, 'the end of the first', first.closed))?.code, 'conflict')
  const last = (await watch(client, taskId)).at(-1)!
  assert.deepEqual([last.type, last.attempt], ['completed', 2])
})

test('tasks and nodes of one namespace cannot be seen, placed or cancelled from another', async () => {
  await using stage = await serving()
  using red = createClient(stage.url, { namespace: 'red' })
  using blue = createClient(stage.url, { namespace: 'blue' })
  await using _node = await connect(stage, { namespace: 'blue' })
  const { taskId } = await red.dispatch.submit({ service: 'nmt' })
  const mine = await blue.dispatch.submit({ service: 'nmt' })
  assert.equal((await watch(blue, mine.taskId)).at(-1)!.type, 'completed')
  assert.equal((await red.dispatch.task(taskId)).status, 'waiting')
  await assert.rejects(blue.dispatch.task(taskId), (error) => isSignalboxError(error, 'not_found'))
  await assert.rejects(blue.dispatch.cancel(taskId), (error) => isSignalboxError(error, 'not_found'))
  assert.deepEqual((await red.dispatch.nodes()).items, [])
})

test('scopes: work connects and submits, read lists, admin drains', async () => {
  const secret = 'a-bootstrap-secret-of-32-characters-or-more'
  await using stage = await serving({ bootstrap: [secret] })
  const admin = createClient(stage.url, { token: secret })
  const [work, read] = await Promise.all(
    (['work', 'read'] as const).map(async (scope) => {
      const made = await admin.tokens.create({ name: scope, scope })
      return made.secret
    }),
  )
  using worker = createClient(stage.url, { token: work })
  using reader = createClient(stage.url, { token: read })
  const refused = (code: 'forbidden' | 'unauthorized') => (error: unknown) => isSignalboxError(error, code)
  await assert.rejects(connect(stage), refused('unauthorized'))
  await assert.rejects(connect(stage, { token: 'sb_wrong' }), refused('unauthorized'))
  await assert.rejects(connect(stage, { token: read }), refused('forbidden'))
  await assert.rejects(reader.dispatch.submit({ service: 'nmt' }), refused('forbidden'))
  await assert.rejects(worker.dispatch.drain('n1'), refused('forbidden'))
  const node = await connect(stage, { token: work })
  const { taskId } = await worker.dispatch.submit({ service: 'nmt' })
  assert.equal((await watch(reader, taskId)).at(-1)!.type, 'completed')
  // One that is bound to a node is that node and nothing else: it cannot take another's place.
  const { secret: bound } = await admin.tokens.create({ name: 'n7', scope: 'work', nodes: ['n7'] })
  await using seventh = await connect(stage, { nodeId: 'n7', token: bound })
  assert.equal(seventh.nodeId, 'n7')
  await assert.rejects(connect(stage, { nodeId: 'n1', token: bound }), (error) => {
    assert.match((error as Error).message, /may not connect as the node "n1"/)
    return isSignalboxError(error, 'forbidden')
  })
  using n7 = createClient(stage.url, { token: bound })
  await assert.rejects(n7.dispatch.submit({ service: 'nmt' }), refused('forbidden'))
  // A token that is revoked ends its node, for good.
  const { items } = await admin.tokens.list()
  await admin.tokens.revoke(items.find(({ name }) => name === 'work')!.id)
  assert.equal((await within(10_000, 'the end of the node', node.closed))?.code, 'unauthorized')
  admin.close()
})

test('a box on a server has all methods of dispatch', async () => {
  await using stage = await serving()
  await using box = await open(stage.url as `http://${string}`)
  await using _node = await connect(stage)
  const { taskId } = await box.dispatch.submit({ service: 'nmt', payload: 3 })
  const seen: string[] = []
  for await (const event of box.dispatch.watch(taskId)) seen.push(event.status)
  assert.equal(seen.at(-1), 'completed')
  assert.deepEqual((await box.dispatch.task(taskId))?.output, { done: 3 })
  assert.equal(await box.dispatch.task('nope'), undefined)
  await eventually('the node', async () => (await box.dispatch.nodes()).length === 1)
  assert.equal((await box.dispatch.node('n1'))?.nodeId, 'n1')
  assert.equal(await box.dispatch.node('n2'), undefined)
  await assert.rejects(box.dispatch.submit({ service: 'nmt', payload: 1n }), /payload/)
  await assert.rejects(async () => {
    for await (const _ of box.dispatch.watch('nope'));
  }, /nope/)
})

test('killed nodes lose no task: other nodes run them, and each task ends once', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  const done = new Map<string, number>()
  const onTask: ConnectNodeOptions['onTask'] = async ({ taskId }, { signal }) => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 80))
    signal.throwIfAborted()
    return taskId
  }
  const begin = (index: number) =>
    connect(stage, { nodeId: `n${index}`, services: [{ name: 'nmt', slots: 4 }], onTask })
  const nodes = await Promise.all([0, 1, 2].map(begin))
  const tasks = await Promise.all(
    Array.from({ length: 60 }, (_, index) => client.dispatch.submit({ service: 'nmt', payload: index })),
  )
  // Without a goodbye for its tasks, and another life under the same id.
  for (let index = 0; index < 3; index++) {
    await new Promise((resolve) => setTimeout(resolve, 60))
    await nodes[index]!.close()
    nodes[index] = await begin(index)
  }
  await Promise.all(
    tasks.map(async ({ taskId }) => {
      for (const { type } of await watch(client, taskId))
        if (type === 'completed') done.set(taskId, (done.get(taskId) ?? 0) + 1)
    }),
  )
  assert.equal(done.size, 60)
  assert.ok([...done.values()].every((count) => count === 1))
  for (const { taskId } of tasks) assert.equal((await client.dispatch.task(taskId)).output, taskId)
  await Promise.all(nodes.map((node) => node.close()))
})

test('500 nodes connect at once, and each can get a task', async () => {
  await using stage = await serving()
  using client = createClient(stage.url, { timeoutMs: '60s' })
  const nodes = await Promise.all(
    Array.from({ length: 500 }, (_, index) =>
      connect(stage, {
        nodeId: `n${index}`,
        services: [{ name: 'one', slots: 1 }],
        connectMs: '60s',
      }),
    ),
  )
  await Promise.all(Array.from({ length: 500 }, () => client.dispatch.submit({ service: 'one' })))
  await eventually('all tasks', async () => {
    const { items } = await client.dispatch.tasks({ limit: 500 })
    return items.length === 500 && items.every(({ status }) => status === 'completed')
  })
  await eventually(
    'all nodes',
    async () => (await client.dispatch.nodes({ limit: 500 })).items.length === 500,
  )
  const first = await client.dispatch.nodes({ limit: 300 })
  const second = await client.dispatch.nodes({ limit: 300, cursor: first.cursor! })
  assert.equal(second.cursor, null)
  assert.equal(new Set([...first.items, ...second.items].map(({ nodeId }) => nodeId)).size, 500)
  await Promise.all(nodes.map((node) => node.close()))
}, 120_000)

test('a closing server lets nodes finish their tasks, and asks them to reconnect', async () => {
  const stage = await serving()
  using client = createClient(stage.url)
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const settled = Promise.withResolvers<void>()
  const node = await connect(stage, {
    onTask: async () => {
      begun.resolve()
      await gate.promise
    },
  })
  node.events.on('task', ({ status }) => status === 'settled' && settled.resolve())
  await client.dispatch.submit({ service: 'nmt' })
  await within(5_000, 'the task', begun.promise)
  const lost = node.events.once('disconnected')
  const closing = stage[Symbol.asyncDispose]()
  gate.resolve()
  await within(10_000, 'the settlement', settled.promise)
  assert.equal((await within(10_000, 'the goodbye', lost)).code, 1001)
  await closing
  await node.close()
})

test('an ordinary request to the socket route is answered with the protocol to use', async () => {
  await using stage = await serving()
  const reply = await stage.ask('GET', '/v1/nodes/connect')
  assert.deepEqual([reply.status, reply.body], [200, { protocol: 1, heartbeatMs: 15_000 }])
})
