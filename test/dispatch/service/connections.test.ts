import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { NodeLink } from '../../../src/dispatch/connections/node-connection.ts'
import {
  NodeConnections,
  type NodeConnectionsEvent,
  type NodeConnectionsParts,
} from '../../../src/dispatch/connections/node-connections.ts'
import type { Command } from '../../../src/dispatch/registry/command.ts'

const link: NodeLink = { send: () => true, close: () => undefined }

function helloOf(nodeId: string) {
  return { nodeId, instanceId: 'i', services: [], labels: {}, running: null, protocol: 1 } as const
}

/** Node connections with `count` welcomed nodes, on a clock that the test moves. */
function createStage(
  nodeCount: number,
  others: Partial<NodeConnectionsParts['ownNodes']> = {},
  enterAgain?: NodeConnectionsParts['ownNodes']['enter'],
  drainOf: NodeConnectionsParts['settings']['drainOf'] = () => undefined,
) {
  let at = 0
  const posted: Command[] = []
  const events: NodeConnectionsEvent[] = []
  const connections = new NodeConnections({
    post: (command) => {
      posted.push(command)
      return true
    },
    monotonicMs: () => at,
    now: () => at,
    heartbeatMs: 1_000,
    isFull: () => false,
    // The cluster state accepts every node at once.
    ownNodes: {
      enter: (caller, reported) => {
        const { instanceId, services, labels, epoch } = caller
        if (caller.isWelcomed) enterAgain?.(caller, reported)
        else
          reported({
            kind: 'entered',
            doc: { instanceId, services, labels, epoch, past: [], owner: 'me', joinedAt: at },
          })
      },
      has: () => true,
      resume: () => null,
      abandon: () => undefined,
      refresh: () => undefined,
      welcomed: () => undefined,
      gone: () => undefined,
      leave: () => undefined,
      ...others,
    },
    settings: { drainOf },
    policy: { suspectAfterMs: 2_000, goneAfterMs: 3_000, closedGraceMs: 500 },
    log: (event) => events.push(event),
  })
  connections.open()
  const sessions = Array.from({ length: nodeCount }, (_, index) => {
    const nodeId = `n${index}`
    const session = connections.connect({ type: 'hello', ...helloOf(nodeId) }, link)
    connections.welcome(posted.at(-1)!, nodeId, index + 1)
    return session
  })
  const pass = (ms: number) => {
    for (const until = at + ms; at < until; ) {
      at += 250
      connections.sweep()
    }
  }
  const count = (kind: Command['kind']) => posted.filter((command) => command.kind === kind).length
  connections.sweep()
  const stall = (ms: number) => {
    at += ms
  }
  return { connections, sessions, posted, events, pass, count, stall }
}

test('a closed socket makes a node suspect at once, and dead after the grace', () => {
  const { sessions, pass, count } = createStage(1)
  sessions[0]!.closed('reset')
  assert.equal(count('nodeSuspect'), 1)
  pass(250)
  assert.equal(count('nodeGone'), 0)
  pass(250)
  assert.equal(count('nodeGone'), 1)
  pass(5_000)
  assert.equal(count('nodeGone'), 1)
})

test('a silent node is suspect after two heartbeats and dead after three', () => {
  const { pass, count } = createStage(1)
  pass(1_750)
  assert.equal(count('nodeSuspect'), 0)
  pass(250)
  assert.deepEqual([count('nodeSuspect'), count('nodeGone')], [1, 0])
  pass(1_000)
  assert.deepEqual([count('nodeSuspect'), count('nodeGone')], [1, 1])
})

test('after this process froze, no node counts as silent because of it', () => {
  const { sessions, events, pass, count, stall } = createStage(3)
  sessions[0]!.closed('reset')
  stall(60_000)
  pass(250)
  assert.deepEqual([count('nodeSuspect'), count('nodeGone')], [1, 0])
  assert.deepEqual(
    events.map(({ name }) => name),
    ['loop.stalled'],
  )
  pass(500)
  assert.equal(count('nodeGone'), 1)
})

test('when very many nodes seem to die at once, at most a fifth is declared dead within five seconds', () => {
  const { sessions, events, pass, count } = createStage(100)
  for (const session of sessions) session.closed('reset')
  assert.equal(count('nodeSuspect'), 100)
  pass(4_000)
  assert.equal(count('nodeGone'), 20)
  assert.equal(events.filter(({ name }) => name === 'fleet.braked').length, 1)
  pass(60_000)
  assert.equal(count('nodeGone'), 100)
})

test('a node that returns within the grace time is not declared dead', () => {
  const { connections, sessions, posted, pass, count } = createStage(1)
  sessions[0]!.closed('reset')
  pass(250)
  const hello = {
    nodeId: 'n0',
    instanceId: 'i',
    services: [],
    labels: {},
    running: null,
    protocol: 1,
  } as const
  connections.connect({ type: 'hello', ...hello }, link)
  connections.welcome(posted.at(-1)!, 'n0', 1)
  pass(1_000)
  assert.equal(count('nodeGone'), 0)
  // The old connection has no effect any more.
  sessions[0]!.closed('again')
  pass(500)
  assert.equal(count('nodeGone'), 0)
})

test('a node that was refused at its hello is no longer connected', () => {
  const reported: ((entered: null) => void)[] = []
  const waiting: (() => boolean)[] = []
  const { connections } = createStage(0, {
    enter: ({ isThere }, answer) => {
      waiting.push(isThere)
      reported.push(answer)
    },
  })
  connections.connect({ type: 'hello', ...helloOf('n') }, link)
  assert.equal(waiting[0]!(), true)
  reported[0]!(null)
  assert.equal(waiting[0]!(), false)
})

test('a connected node that the registry lacks is entered again, or closed if another server has it', () => {
  const asked: { readonly epoch: number; readonly isWelcomed?: boolean }[] = []
  let isHeld = true
  const { connections, posted } = createStage(1, { has: () => isHeld }, (caller, answer) => {
    asked.push(caller)
    answer({ kind: 'elsewhere' })
  })
  connections.registerMissing()
  assert.equal(asked.length, 0)
  isHeld = false
  connections.registerMissing()
  assert.deepEqual(
    asked.map(({ epoch, isWelcomed }) => [epoch, isWelcomed]),
    [[1, true]],
  )
  assert.deepEqual(posted.at(-1), { kind: 'nodeBye', nodeId: 'n0', epoch: 1, elsewhere: 'moved' })
  assert.equal(connections.size, 0)
})

test('the server does not read messages of a node before it is welcomed', async () => {
  const { connections, posted } = createStage(0)
  const session = connections.connect({ type: 'hello', ...helloOf('n') }, link)
  const word = { type: 'task.result', taskId: 't', attempt: 1, output: 'much' } as const
  for (let said = 0; said < 16; said += 1) {
    assert.equal(session.isFull, false)
    session.receive(word)
  }
  assert.equal(session.isFull, true)
  const ready = session.whenReady()
  connections.welcome(posted[0]!, 'n', 1)
  await ready
  assert.equal(session.isFull, false)
  assert.equal(posted.filter(({ kind }) => kind === 'result').length, 16)
})

test('a drain that starts or ends while a hello waits for the registry takes effect', () => {
  let drain: { readonly deadlineAt: number | null } | undefined
  const { connections, posted } = createStage(0, {}, undefined, () => drain)
  const drains = () =>
    posted.flatMap((command) => (command.kind === 'drain' ? [[command.nodeId, command.on]] : []))
  connections.connect({ type: 'hello', ...helloOf('drained') }, link)
  drain = { deadlineAt: 5_000 }
  connections.welcome(posted[0]!, 'drained', 1)
  assert.deepEqual(drains(), [['drained', true]])
  connections.connect({ type: 'hello', ...helloOf('lifted') }, link)
  const hello = posted.at(-1)!
  assert.ok(hello.kind === 'nodeHello' && hello.isDraining)
  assert.equal(drains().length, 1, 'it is told when it is there')
  drain = undefined
  connections.welcome(hello, 'lifted', 1)
  assert.deepEqual(drains(), [
    ['drained', true],
    ['lifted', false],
  ])
})
