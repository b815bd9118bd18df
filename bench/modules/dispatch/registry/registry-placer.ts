/** Registries as placers: one for each server, each with its own nodes, and tasks that each claims in turn. */
import { type Command, Registry } from '../../../../src/dispatch/index.ts'
import { fleet, type Placer } from '../simulation.ts'

interface Server {
  readonly registry: Registry
  wakeAt: number
}

interface Placed {
  readonly task: number
  readonly node: number
}

export class RegistryPlacer implements Placer {
  readonly #servers: Server[]
  readonly #attempts = new Map<number, number>()
  #placed: Placed[] = []

  constructor(serverCount: number) {
    // Accepting takes another message, which this simulation leaves out.
    this.#servers = Array.from({ length: serverCount }, (_, seed) => ({
      registry: new Registry({ acceptMs: 0, seed: seed + 1 }),
      wakeAt: Number.POSITIVE_INFINITY,
    }))
    for (let node = 0; node < fleet.nodes; node++) {
      this.#apply(this.#ownerOf(node), 0, {
        ...{ kind: 'nodeHello', nodeId: `${node}`, instanceId: `${node}-1`, epoch: 1, running: null },
        ...{ services: [{ name: 'asr', slots: fleet.slots, tags: {} }], labels: {} },
      })
    }
  }

  submit(task: number, now: number): void {
    this.#attempts.set(task, 1)
    this.#apply(this.#servers[task % this.#servers.length]!, now, {
      ...{ kind: 'submit' },
      task: {
        ...{ taskId: `${task}`, attempt: 1, maxAttempts: 5, kind: 'asr', service: 'asr', uses: { asr: 1 } },
        ...{ requires: [], prefers: [], priority: 5, tenant: 'bench', session: null, submittedAt: now },
        ...{ deadlineAt: null, idleMs: null, retryable: true },
      },
    })
  }

  ended(task: number, node: number, now: number): void {
    this.#apply(this.#ownerOf(node), now, { kind: 'result', ...this.#about(task, node), output: null })
    this.#attempts.delete(task)
  }

  refused(task: number, node: number, now: number): void {
    const about = this.#about(task, node)
    this.#apply(this.#ownerOf(node), now, { kind: 'reject', ...about, reason: 'busy', retryAfterMs: null })
  }

  beat(node: number, tasks: readonly number[], reached: number, now: number): void {
    const busy = tasks.length / fleet.slots
    this.#apply(this.#ownerOf(node), now, {
      ...{ kind: 'heartbeat', nodeId: `${node}`, epoch: 1, load: { cpu: busy, gpu: null, memory: null } },
      ...{ running: tasks.map(String), countedSeq: reached },
    })
  }

  get wakeAt(): number {
    return Math.min(...this.#servers.map(({ wakeAt }) => wakeAt))
  }

  wake(now: number): void {
    for (const server of this.#servers) {
      if (server.wakeAt > now) continue
      server.wakeAt = Number.POSITIVE_INFINITY
      this.#apply(server, now, { kind: 'tick' })
    }
  }

  takePlaced(): readonly Placed[] {
    const placed = this.#placed
    if (placed.length > 0) this.#placed = []
    return placed
  }

  #about(task: number, node: number) {
    return { nodeId: `${node}`, epoch: 1, taskId: `${task}`, attempt: this.#attempts.get(task) ?? 1 }
  }

  #ownerOf(node: number): Server {
    return this.#servers[node % this.#servers.length]!
  }

  #apply(server: Server, now: number, command: Command): void {
    for (const effect of server.registry.apply(command, Math.floor(now))) {
      switch (effect.kind) {
        case 'assign':
          this.#placed.push({ task: Number(effect.taskId), node: Number(effect.nodeId) })
          break
        case 'armTimer':
          server.wakeAt = Math.min(server.wakeAt, effect.at)
          break
        case 'moreWork':
          this.#apply(server, now, { kind: 'rebuildSlice' })
          break
        case 'requeue':
        case 'unknownTask':
        case 'stale':
          throw new Error(`the registry says ${effect.kind} of a task that ran`)
      }
    }
  }
}
