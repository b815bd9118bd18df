import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ServerFrame } from '../../../src/dispatch/connections/node-connection.ts'
import type { Dispatch } from '../../../src/dispatch/tasks/task.ts'
import { createNumbers } from '../../support/random.ts'
import { engines, FakeNode, openStore, startDispatch, until } from '../service/stage.ts'

type Assigned = Extract<ServerFrame, { type: 'task.assign' }>

/** A node that breaks off, comes back as itself or as another, fails, refuses and repeats itself. */
class StormyNode {
  readonly #dispatch: Dispatch
  readonly #random: () => number
  readonly #nodeId: string
  #instance = 1
  /** Results that were not settled yet: said again after every reconnect, as nodes do. */
  readonly #kept = new Map<string, { attempt: number; output: unknown }>()
  /** The newest attempt of each task that it works on. */
  readonly #running = new Map<string, number>()
  isCalm = false
  node: FakeNode

  constructor(dispatch: Dispatch, nodeId: string, random: () => number) {
    this.#dispatch = dispatch
    this.#nodeId = nodeId
    this.#random = random
    this.node = this.#connect()
  }

  /** Breaks off and comes back; one time in three as a new process that knows nothing. */
  breakOff(): void {
    this.#hear()
    this.node.die()
    if (this.#random() < 0.3) {
      this.#instance += 1
      this.#kept.clear()
      this.#running.clear()
    }
    this.node = this.#connect()
    for (const [taskId, { attempt, output }] of this.#kept) this.node.finish({ taskId, attempt }, output)
  }

  #connect(): FakeNode {
    this.#hear()
    return new FakeNode(this.#dispatch, {
      nodeId: this.#nodeId,
      instanceId: `${this.#nodeId}-${this.#instance}`,
      services: { nmt: 3 },
      running: [...this.#running.keys(), ...this.#kept.keys()],
      onTask: (task, node) => node === this.node && this.#work(task),
    })
  }

  #work(task: Assigned): void {
    const dice = this.isCalm ? 1 : this.#random()
    const { taskId, attempt } = task
    if (dice < 0.1) this.breakOff()
    else if (dice < 0.2) this.node.fail(task)
    else if (dice < 0.3) {
      this.node.say({ type: 'task.reject', taskId, attempt, reason: 'busy', retryAfterMs: 5 })
    } else this.#run(task)
  }

  #run(task: Assigned): void {
    const { taskId, attempt, payload } = task
    this.#running.set(taskId, attempt)
    this.node.accept(task)
    setTimeout(() => {
      if (this.#running.get(taskId) !== attempt) return
      this.#running.delete(taskId)
      const output = { payload, attempt, by: this.#nodeId }
      this.#kept.set(taskId, { attempt, output })
      this.node.finish(task, output)
      if (!this.isCalm && this.#random() < 0.1) this.breakOff()
    }, this.#random() * 10)
  }

  #hear(): void {
    for (const frame of this.node?.frames ?? []) {
      if (frame.type === 'task.settled' || frame.type === 'task.stale') this.#kept.delete(frame.taskId)
    }
  }
}

for (const engine of engines) {
  test(`${engine}: however nodes disconnect, fail and repeat themselves, every task ends once and no slot is lost`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend, {
      closedGraceMs: 300,
      maxAttempts: 100,
      policy: { acceptMs: 500, cancelGraceMs: 500, retryInMs: 2 },
    })
    const { dispatch, events } = stage
    const random = createNumbers(7)
    const nodes = Array.from({ length: 6 }, (_, index) => new StormyNode(dispatch, `n${index}`, random))
    const submitted = await Promise.all(
      Array.from({ length: 300 }, (_, payload) => dispatch.submit({ service: 'nmt', payload })),
    )
    await until('most are done', () => dispatch.counts().completed >= 250, 30_000)
    for (const node of nodes) node.isCalm = true
    await until('all are done', () => dispatch.counts().completed === 300, 30_000)
    for (const [payload, { taskId }] of submitted.entries()) {
      const task = await dispatch.task(taskId)
      assert.equal(task?.status, 'completed')
      // The one answer that was taken is that of the attempt that it belongs to.
      const by = { payload, attempt: task.attempt, by: task.nodeId }
      assert.deepEqual(task.output, by)
    }
    await until('no slot is taken', () =>
      nodes.every(({ node }) => dispatch.node(node.nodeId)?.services.every(({ used }) => used === 0)),
    )
    const { held, unwritten, tasks, completed, failed, lost, requeued } = dispatch.counts()
    assert.deepEqual(
      { held, unwritten, tasks, completed, failed, lost },
      { held: 0, unwritten: 0, tasks: 0, completed: 300, failed: 0, lost: 0 },
    )
    assert.ok(requeued > 0)
    assert.deepEqual(
      events.filter(({ name }) => name === 'command.failed' || name === 'store.trouble'),
      [],
    )
  })
}
