import assert from 'node:assert/strict'
import { test } from 'vitest'
import type {
  NodeFrame,
  NodeLink,
  NodeSession,
  ServerFrame,
} from '../../../src/dispatch/connections/node-connection.ts'
import type { Dispatch } from '../../../src/dispatch/tasks/task.ts'
import { createNumbers } from '../../support/random.ts'
import { startServers } from '../cluster/stage.ts'
import { openStore, until } from '../service/stage.ts'

/**
 * A node that wanders from server to server with what it runs, as one does whose connections break. It counts what it
 * really runs, whichever server assigned it.
 */
class Wanderer {
  readonly nodeId: string
  readonly slots: number
  /** By task: the attempt it works at. */
  readonly working = new Map<string, number>()
  /** Said and not confirmed: sent again on each connection. */
  readonly unsettled = new Map<string, Extract<NodeFrame, { type: 'task.result' }>>()
  most = 0
  #session: NodeSession | null = null
  #connection = 0
  #received = 0
  readonly #workMs: () => number

  constructor(nodeId: string, slots: number, workMs: () => number) {
    this.nodeId = nodeId
    this.slots = slots
    this.#workMs = workMs
  }

  get running(): readonly string[] {
    return [...new Set([...this.working.keys(), ...this.unsettled.keys()])]
  }

  connect({ connections }: Dispatch): void {
    this.#session?.closed('it wanders on')
    this.#connection += 1
    this.#received = 0
    const connection = this.#connection
    const link: NodeLink = {
      send: (frame) => {
        if (connection !== this.#connection) return false
        // As over a wire: later, and in order.
        setImmediate(() => connection === this.#connection && this.#hear(frame))
        return true
      },
      close: () => {
        if (connection === this.#connection) setImmediate(() => this.onClosed())
      },
    }
    const services = [{ name: 'nmt', slots: this.slots, tags: {} }]
    const { nodeId, running } = this
    const hello = { nodeId, instanceId: `i-${nodeId}`, services, labels: {}, running, protocol: 1 } as const
    this.#session = connections.connect({ type: 'hello', ...hello }, link)
    for (const frame of this.unsettled.values()) this.#session.receive(frame)
  }

  onClosed: () => void = () => undefined

  #hear(frame: ServerFrame): void {
    if (frame.type === 'task.assign') {
      this.#received += 1
      this.#begin(frame.taskId, frame.attempt)
    } else if (frame.type === 'task.settled') {
      this.unsettled.delete(frame.taskId)
    } else if (frame.type === 'task.stale' || frame.type === 'task.cancel') {
      this.unsettled.delete(frame.taskId)
      // It takes a moment to stop.
      setTimeout(() => this.#stop(frame.taskId), 5)
    }
  }

  #begin(taskId: string, attempt: number): void {
    this.working.set(taskId, attempt)
    this.most = Math.max(this.most, this.working.size)
    this.#session?.receive({ type: 'task.accept', taskId, attempt })
    setTimeout(() => {
      if (this.working.get(taskId) !== attempt) return
      this.working.delete(taskId)
      const result = { type: 'task.result', taskId, attempt, output: this.nodeId } as const
      this.unsettled.set(taskId, result)
      this.#session?.receive(result)
    }, this.#workMs())
  }

  #stop(taskId: string): void {
    if (!this.working.delete(taskId)) return
    const load = { cpu: null, gpu: null, memory: null }
    this.#session?.receive({ type: 'heartbeat', load, running: this.running, countedSeq: this.#received })
  }
}

test('nodes that move between three servers with their tasks never get more tasks than free slots', async () => {
  const random = createNumbers(7)
  await using store = await openStore('memory')
  await using servers = await startServers(store, 3, { closedGraceMs: 200, maxAttempts: 100 })
  const pick = () => servers.all[Math.floor(random() * servers.all.length)]!.dispatch
  const nodes = Array.from({ length: 6 }, (_, nr) => new Wanderer(`n${nr}`, 2, () => 5 + random() * 40))
  for (const node of nodes) {
    node.onClosed = () => node.connect(pick())
    node.connect(pick())
  }
  let isOver = false
  const wander = (async () => {
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 20))
      nodes[Math.floor(random() * nodes.length)]!.connect(pick())
    }
  })()
  const tasks = await Promise.all(
    Array.from({ length: 200 }, async (_, payload) => pick().submit({ service: 'nmt', payload })),
  )
  const isDone = async ({ taskId }: { taskId: string }) =>
    (await servers.last.task(taskId))?.status === 'completed'
  try {
    for (const task of tasks) await until('it is done', () => isDone(task), 60_000)
  } finally {
    isOver = true
    await wander
  }
  for (const { nodeId, most, slots } of nodes) assert.ok(most <= slots, `${nodeId} had ${most} of ${slots}`)
  await until('every node knows that all is over', () => nodes.every(({ running }) => running.length === 0))
}, 120_000)
