import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { type ConnectNodeOptions, connectNode } from '../../../src/http/client/index.ts'
import { within } from '../../support/deadline.ts'
import { type GatewayStage, gatewayStage } from './gateway-stage.ts'

/** A node that knows several servers. */

function nodeOptions(more: Partial<ConnectNodeOptions> = {}): ConnectNodeOptions {
  return {
    nodeId: 'n1',
    token: 'default',
    services: [{ name: 'nmt', slots: 2 }],
    onTask: () => new Promise(() => {}),
    backoff: { baseMs: 20, factor: 1.5, jitter: 0.5, maxMs: 200 },
    ...more,
  }
}

/** An address where no server listens. */
async function emptyUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return `ws://127.0.0.1:${port}`
}

test('a node skips a server that does not answer', async () => {
  await using stage = await gatewayStage()
  const empty = await emptyUrl()
  for (let time = 0; time < 6; time++) {
    await using node = await connectNode([empty, stage.url, empty], nodeOptions())
    assert.equal(node.status, 'connected')
  }
  assert.equal(stage.connections.nodes.length, 6)
})

test('whatever close code a server uses, the node connects to the other one with its instance and tasks', async () => {
  await using first = await gatewayStage()
  await using second = await gatewayStage()
  const stages = [first, second]
  await using node = await connectNode(
    stages.map(({ url }) => url),
    nodeOptions(),
  )
  const where = () =>
    stages.find(
      ({ connections }) => connections.nodes.at(-1)?.closedFor === undefined && connections.nodes[0],
    )!
  let stage: GatewayStage = where()
  stage.connections.nodes[0]!.link.send({
    type: 'task.assign',
    ...{ taskId: 't1', attempt: 1, service: 'nmt', payload: null, deadlineAt: null },
  })
  await stage.connections.until('accept', () =>
    stage.connections.nodes[0]!.frames.some(({ type }) => type === 'task.accept'),
  )
  const { instanceId } = stage.connections.nodes[0]!.hello
  for (const code of [1001, 1006, 1012, 1013, 4408, 4429]) {
    const other = stages.find((each) => each !== stage)!
    const before = other.connections.nodes.length
    const ended = within(10_000, `the end by ${code}`, node.events.once('disconnected'))
    const came = node.events.once('connected')
    if (code === 1006) stage.cut()
    else stage.connections.nodes.at(-1)!.link.close(code, 'elsewhere, please')
    const { url, ...end } = await ended
    assert.deepEqual([end.code, url], [code, stage.url])
    await other.connections.until('the node', () => other.connections.nodes.length > before)
    assert.equal((await within(10_000, 'the welcome', came)).url, other.url)
    const { hello } = other.connections.nodes.at(-1)!
    assert.deepEqual([hello.instanceId, hello.running], [instanceId, ['t1']])
    stage = other
  }
})

test('the node says hello again to a server that does not know its connection, though another server exists', async () => {
  await using first = await gatewayStage()
  await using second = await gatewayStage()
  await using _node = await connectNode([first.url, second.url], nodeOptions())
  const [here, elsewhere] = first.connections.nodes.length > 0 ? [first, second] : [second, first]
  for (let time = 0; time < 3; time++) {
    here.connections.nodes[time]!.link.close(4404, 'say hello again')
    await here.connections.until('hello', () => here.connections.nodes.length > time + 1)
  }
  assert.equal(elsewhere.connections.nodes.length, 0)
})

test('a final close by one server is final for all servers', async () => {
  await using first = await gatewayStage()
  await using second = await gatewayStage()
  const node = await connectNode([first.url, second.url], nodeOptions())
  ;[...first.connections.nodes, ...second.connections.nodes][0]!.link.close(4409, 'another one came')
  const end = await within(10_000, 'the end', node.closed)
  assert.equal(end?.code, 'conflict')
  assert.equal(first.connections.nodes.length + second.connections.nodes.length, 1)
})

test('invalid address lists are refused, and their secrets are not repeated', async () => {
  for (const urls of [[], ['ws://host', 'ws://me:secret@host'], ['ws://host', 7], [['ws://secret']], {}]) {
    const attempt = connectNode(urls as string[], nodeOptions())
    await assert.rejects(attempt, (error) => {
      assert.ok(isSignalboxError(error, 'invalid_argument'))
      assert.doesNotMatch(error.message, /secret/)
      return true
    })
  }
  const lost = connectNode([await emptyUrl(), await emptyUrl()], nodeOptions({ connectMs: 200 }))
  await assert.rejects(
    lost,
    (error) => isSignalboxError(error, 'timeout') && /127.*, ws:.*127/.test(error.message),
  )
})
