/** A registry full of nodes that beat and tasks that come and go, as the mailbox would bring them, in the same thread. */
import { type Command, type Effect, Registry } from '../../../../src/dispatch/index.ts'
import type { Latencies } from '../latencies.ts'
import { asks, memberOf, runningIn } from './population.ts'

interface Node {
  readonly nodeId: string
  readonly epoch: number
  readonly running: Set<string>
  assigned: number
}

interface Running {
  readonly taskId: string
  readonly node: Node
}

export class RegistryFleet {
  readonly #registry = new Registry()
  readonly #nodes: Node[] = []
  readonly #byId = new Map<string, Node>()
  readonly #running: Running[] = []
  readonly #most: number
  #tickAt = Number.POSITIVE_INFINITY
  #taskNo = 0
  #beatNo = 0
  #oldest = 0

  constructor(nodeCount: number) {
    this.#most = runningIn(nodeCount)
    for (let number = 0; number < nodeCount; number++) this.#enter(number)
  }

  /** One dispatch, timed; one heartbeat, more than the full rate at any rate of dispatches; and an old task's end. */
  turn(latencies: Latencies | null): void {
    const now = Date.now()
    const ask = asks[this.#taskNo % asks.length]!
    const taskId = `task-${this.#taskNo++}`
    const command: Command = {
      kind: 'submit',
      task: {
        ...{ taskId, attempt: 1, maxAttempts: 5, prefers: [] },
        ...{ kind: ask.kind, service: ask.service, requires: ask.requires },
        ...{ uses: { [ask.service]: 1 }, priority: 5, tenant: 'bench', session: null, submittedAt: now },
        ...{ deadlineAt: null, idleMs: null, retryable: true },
      },
    }
    const begun = performance.now()
    const effects = this.#registry.apply(command, now)
    latencies?.add(performance.now() - begun)
    const assign = effects.find((effect) => effect.kind === 'assign')
    if (assign === undefined) throw new Error(`${taskId} found no node`)
    this.#after(effects, now)
    const node = this.#byId.get(assign.nodeId)!
    node.running.add(taskId)
    node.assigned++
    this.#end(this.#running[this.#oldest], now)
    this.#running[this.#oldest] = { taskId, node }
    this.#oldest = (this.#oldest + 1) % this.#most
    this.#beat(now)
    if (now >= this.#tickAt) {
      this.#tickAt = Number.POSITIVE_INFINITY
      this.#apply({ kind: 'tick' }, now)
    }
  }

  #enter(number: number): void {
    const { nodeId, services, labels } = memberOf(number)
    const effects = this.#apply(
      {
        ...{ kind: 'nodeHello', nodeId, instanceId: `${nodeId}-1`, epoch: 1, services, labels },
        running: null,
      },
      Date.now(),
    )
    const { epoch } = effects.find((effect) => effect.kind === 'welcome')!
    const node = { nodeId, epoch, running: new Set<string>(), assigned: 0 }
    this.#nodes.push(node)
    this.#byId.set(nodeId, node)
  }

  #end(over: Running | undefined, now: number): void {
    if (over === undefined) return
    const { taskId, node } = over
    node.running.delete(taskId)
    this.#apply(
      { kind: 'result', nodeId: node.nodeId, epoch: node.epoch, taskId, attempt: 1, output: null },
      now,
    )
  }

  #beat(now: number): void {
    const { nodeId, epoch, running, assigned } = this.#nodes[this.#beatNo % this.#nodes.length]!
    const load = this.#beatNo++ * 0.618_034
    const share = load - Math.floor(load)
    this.#apply(
      {
        ...{ kind: 'heartbeat', nodeId, epoch, running: [...running], countedSeq: assigned },
        load: { cpu: share, gpu: 1 - share, memory: 0.5 },
      },
      now,
    )
  }

  #apply(command: Command, now: number): readonly Effect[] {
    const effects = this.#registry.apply(command, now)
    this.#after(effects, now)
    return effects
  }

  #after(effects: readonly Effect[], now: number): void {
    for (const effect of effects) {
      if (effect.kind === 'armTimer') this.#tickAt = Math.min(this.#tickAt, effect.at)
      else if (effect.kind === 'moreWork') this.#apply({ kind: 'rebuildSlice' }, now)
    }
  }
}
