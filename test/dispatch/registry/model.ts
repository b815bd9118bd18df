/**
 * A fleet that is obviously right: nodes as plain objects, every lease in a map, every term read word by word. It
 * follows a registry's commands and effects and complains at the first one that a careful clerk would not have made.
 */
import assert from 'node:assert/strict'
import type {
  Command,
  Effect,
  Labels,
  Registry,
  ServiceOffer,
  TaskSpec,
  Term,
} from '../../../src/dispatch/index.ts'

export interface ModelLease {
  readonly taskId: string
  readonly attempt: number
  readonly uses: Readonly<Record<string, number>>
  /** Its number among the assigns of the connection; Infinity until it is sent. */
  seq: number
}

export interface ModelNode {
  readonly nodeId: string
  instanceId: string
  epoch: number
  status: 'ready' | 'suspect' | 'gone'
  draining: boolean
  services: readonly ServiceOffer[]
  labels: Labels
  seq: number
  leases: Map<string, ModelLease>
  rests: Map<string, number>
  /** Listed by it and not looked up yet: no task may be sent to it. */
  unsure: Set<string>
  /** Not looked up in time: no longer held against it. */
  unanswered: Set<string>
  /** Maybe listed, but no longer run: the latest last. */
  over: string[]
  /** Where the node itself is: what it runs, as it received it. */
  received: number
  running: Map<string, number>
}

export interface ModelTask {
  spec: TaskSpec
  /** Handed back: any server may claim its next attempt. */
  state: 'open' | 'handedBack' | 'ended'
  live: { nodeId: string; epoch: number } | null
}

export const keyOf = (taskId: string, attempt: number): string => `${taskId}#${attempt}`

export function holds(
  term: Term,
  services: readonly ServiceOffer[],
  labels: Labels,
  rules: ReadonlyMap<string, readonly Term[]>,
): boolean {
  if ('any' in term) return term.any.some((each) => holds(each, services, labels, rules))
  if ('not' in term) return !holds(term.not, services, labels, rules)
  if ('service' in term) {
    for (const service of services) {
      if (service.name !== term.service) continue
      return Object.entries(term.where ?? {}).every(([tag, value]) =>
        (service.tags[tag] ?? []).includes(value),
      )
    }
    return false
  }
  if (term.label === 'pool') {
    return (term.in ?? []).some((name) => {
      const rule = rules.get(name)
      return rule?.every((each) => holds(each, services, labels, new Map()))
    })
  }
  const value = labels[term.label]
  if (value === undefined) return false
  if (term.in !== undefined && !term.in.includes(String(value))) return false
  if (term.gte !== undefined && !(typeof value === 'number' && value >= term.gte)) return false
  return term.lte === undefined || (typeof value === 'number' && value <= term.lte)
}

export class Model {
  readonly nodes: Map<string, ModelNode> = new Map()
  readonly tasks: Map<string, ModelTask> = new Map()
  readonly cordons: Set<string> = new Set()
  /** The rules of the pools in use, and those asked for since: they count from the swap on. */
  rules: ReadonlyMap<string, readonly Term[]> = new Map()
  readonly counts: Record<string, number> = {}
  leasesMade = 0
  leasesEnded = 0
  orphansMade = 0
  now = 0

  /** The direct meaning of a command, before its effects. */
  heed(command: Command, now: number): void {
    this.now = Math.max(this.now, now)
    switch (command.kind) {
      case 'submit': {
        const { task: spec } = command
        const task = this.tasks.get(spec.taskId)
        if (task === undefined) this.tasks.set(spec.taskId, { spec, state: 'open', live: null })
        else if (task.state === 'handedBack') Object.assign(task, { spec, state: 'open', live: null })
        return
      }
      case 'result':
      case 'fail':
      case 'reject': {
        const node = this.speaker(command)
        if (node === undefined) return
        if (command.kind === 'reject' && command.reason === 'busy') {
          const task = this.tasks.get(command.taskId)
          if (task?.live?.nodeId === node.nodeId && task.spec.attempt === command.attempt) {
            const { service } = task.spec
            const offered = node.services.some(({ name }) => name === service)
            if (offered) node.rests.set(service, this.now + (command.retryAfterMs ?? 1_000))
            task.live = null
          }
        }
        const key = keyOf(command.taskId, command.attempt)
        this.release(node, node.leases.has(key) ? key : keyOf(command.taskId, 0))
        this.end(node, command.taskId)
        return
      }
      case 'orphan': {
        const { nodeId, epoch, taskId, uses } = command
        const node = this.nodes.get(nodeId)
        if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
        const isAsked = node.unsure.delete(taskId) || node.unanswered.delete(taskId)
        if (!isAsked) return
        if (uses === null) this.end(node, taskId)
        else this.holdOrphan(node, taskId, uses)
        return
      }
      case 'heartbeat': {
        const node = this.speaker(command)
        if (node === undefined || command.running === null || command.countedSeq === null) return
        this.forget(node, command.running, Math.min(command.countedSeq, node.seq))
        this.list(node, command.running)
        return
      }
      case 'nodeSuspect': {
        const node = this.nodes.get(command.nodeId)
        if (node?.epoch === command.epoch && node.status === 'ready') node.status = 'suspect'
        return
      }
      case 'nodeGone':
      case 'nodeBye': {
        const node = this.nodes.get(command.nodeId)
        if (node === undefined || node.epoch !== command.epoch || node.status === 'gone') return
        this.lose(node)
        if (command.kind === 'nodeBye') this.nodes.delete(node.nodeId)
        return
      }
      case 'nodeUpdate': {
        const node = this.speaker(command)
        if (node !== undefined)
          this.offer(node, command.services ?? node.services, command.labels ?? node.labels)
        return
      }
      case 'drain': {
        const node = this.nodes.get(command.nodeId)
        if (node !== undefined && node.status !== 'gone') node.draining = command.on
        return
      }
      case 'cordon': {
        const key = `${command.nodeId}/${command.service ?? ''}`
        if (command.on) this.cordons.add(key)
        else this.cordons.delete(key)
        return
      }
      default:
    }
  }

  /** A hello takes effect after its welcome sent the epoch, but before its consequences. */
  welcome(command: Extract<Command, { kind: 'nodeHello' }>, epoch: number, resumed: boolean): void {
    const { nodeId, instanceId, services, labels, running } = command
    const node = this.nodes.get(nodeId)
    if (resumed) {
      assert.ok(node !== undefined && node.instanceId === instanceId && node.epoch === epoch)
      node.status = 'ready'
      node.seq = 0
      node.received = 0
      for (const lease of node.leases.values()) lease.seq = 0
      this.offer(node, services, labels)
      if (running === null) return
      // It may have been given elsewhere what it had ended here.
      node.over = []
      this.forget(node, running, 0)
      this.list(node, running)
      return
    }
    if (node !== undefined) {
      assert.ok(epoch > node.epoch, 'a new instance has a higher epoch')
      if (node.status !== 'gone') this.lose(node)
    }
    const fresh: ModelNode = {
      nodeId,
      instanceId,
      epoch,
      status: 'ready',
      draining: false,
      services,
      labels,
      seq: 0,
      leases: new Map(),
      rests: new Map(),
      unsure: new Set(),
      unanswered: new Set(),
      over: [],
      received: 0,
      // What it ran when it was last seen, it still runs: only the registry has forgotten.
      running: new Map((running ?? []).map((taskId) => [taskId, node?.running.get(taskId) ?? 1])),
    }
    this.nodes.set(nodeId, fresh)
    this.list(fresh, running ?? [])
  }

  see(effect: Effect, command: Command): void {
    this.counts[effect.kind] = (this.counts[effect.kind] ?? 0) + 1
    switch (effect.kind) {
      case 'welcome':
        if (command.kind === 'nodeHello') this.welcome(command, effect.epoch, effect.resumed)
        return
      case 'assign': {
        const node = this.nodes.get(effect.nodeId)!
        const key = keyOf(effect.taskId, effect.attempt)
        this.place(effect.nodeId, effect.epoch, effect.taskId, effect.attempt)
        const task = this.tasks.get(effect.taskId)!
        assert.equal(task.live, null, `task ${effect.taskId} is live once only`)
        task.live = { nodeId: effect.nodeId, epoch: effect.epoch }
        node.seq += 1
        assert.equal(effect.seq, node.seq, 'assigns are counted per connection')
        node.leases.get(key)!.seq = effect.seq
        return
      }
      case 'settled': {
        const task = this.tasks.get(effect.taskId)!
        assert.equal(task.state, 'open', `task ${effect.taskId} ends once`)
        assert.equal(effect.attempt, task.spec.attempt)
        if (effect.end === 'completed') {
          assert.ok(command.kind === 'result' && command.attempt === task.spec.attempt)
          assert.deepEqual(
            { nodeId: command.nodeId, epoch: command.epoch },
            task.live,
            'only the holder ends it',
          )
        }
        task.state = 'ended'
        task.live = null
        return
      }
      case 'requeue': {
        const task = this.tasks.get(effect.taskId)!
        assert.equal(task.state, 'open')
        assert.equal(effect.attempt, task.spec.attempt)
        assert.ok(task.spec.retryable && task.spec.attempt < task.spec.maxAttempts)
        task.state = 'handedBack'
        task.live = null
        return
      }
      case 'handBack': {
        const task = this.tasks.get(effect.taskId)!
        assert.equal(task.state, 'open')
        assert.equal(effect.attempt, task.spec.attempt)
        assert.equal(task.live, null, 'only who waits is given up')
        task.state = 'handedBack'
        return
      }
      case 'event': {
        const { event } = effect
        if (event.name === 'node.ready') {
          const node = this.nodes.get(event.nodeId)
          if (node?.epoch === event.epoch) node.status = 'ready'
        } else if (event.name === 'slot.forced') {
          const node = this.nodes.get(event.nodeId)!
          this.release(node, keyOf(event.taskId, event.attempt))
          this.end(node, event.taskId)
        } else if (event.name === 'node.unanswered') {
          const { unsure, unanswered } = this.nodes.get(event.nodeId)!
          assert.equal(event.taskCount, unsure.size)
          for (const taskId of unsure) unanswered.add(taskId)
          unsure.clear()
        }
        return
      }
      default:
    }
  }

  /** Slots of a task on a node: it must be allowed at this instant. */
  place(nodeId: string, epoch: number, taskId: string, attempt: number): void {
    const node = this.nodes.get(nodeId)
    const task = this.tasks.get(taskId)
    assert.ok(node !== undefined && task !== undefined)
    assert.equal(node.epoch, epoch)
    assert.equal(task.state, 'open')
    assert.equal(task.spec.attempt, attempt)
    const reason = this.refuse(node, task.spec)
    assert.equal(reason, null, `task ${taskId} was placed on ${nodeId}: ${reason}`)
    node.leases.set(keyOf(taskId, attempt), {
      taskId,
      attempt,
      uses: task.spec.uses,
      seq: Number.POSITIVE_INFINITY,
    })
    this.leasesMade += 1
  }

  /** Why a task may not go to a node now; null: it may. */
  refuse(node: ModelNode, spec: TaskSpec): string | null {
    if (node.status !== 'ready') return `it is ${node.status}`
    if (node.draining) return 'it drains'
    if (node.unsure.size > 0) return 'it is unknown how many of its slots are taken'
    if (this.cordons.has(`${node.nodeId}/`)) return 'it is cordoned'
    for (const term of spec.requires) {
      if (!holds(term, node.services, node.labels, this.rules)) return `${JSON.stringify(term)} does not hold`
    }
    for (const [service, weight] of Object.entries(spec.uses)) {
      const offer = node.services.find(({ name }) => name === service)
      if (offer === undefined) return `it has no ${service}`
      if (this.cordons.has(`${node.nodeId}/${service}`)) return `${service} is cordoned`
      if ((node.rests.get(service) ?? 0) > this.now) return `${service} rests`
      if (this.used(node, service) + weight > offer.slots) return `${service} is full`
    }
    return null
  }

  used(node: ModelNode, service: string): number {
    let sum = 0
    for (const lease of node.leases.values()) sum += lease.uses[service] ?? 0
    return sum
  }

  /** The registry's count of every slot is the model's. */
  compare(registry: Registry): void {
    for (const node of this.nodes.values()) {
      const view = registry.node(node.nodeId)
      if (node.status === 'gone' && view === undefined) continue
      assert.ok(view !== undefined, node.nodeId)
      assert.equal(view.status, node.status, node.nodeId)
      for (const { name, used } of view.services) {
        assert.equal(used, this.used(node, name), `${node.nodeId} ${name}`)
      }
      assert.equal(view.taskIds.length, node.leases.size)
    }
  }

  speaker({ nodeId, epoch }: { readonly nodeId: string; readonly epoch: number }): ModelNode | undefined {
    const node = this.nodes.get(nodeId)
    if (node === undefined || node.epoch !== epoch || node.status === 'gone') return undefined
    node.status = 'ready'
    return node
  }

  release(node: ModelNode, key: string): void {
    if (node.leases.delete(key)) this.leasesEnded += 1
  }

  forget(node: ModelNode, running: readonly string[], upTo: number): void {
    for (const [key, lease] of node.leases) {
      if (lease.seq <= upTo && !running.includes(lease.taskId)) this.release(node, key)
    }
  }

  /** What a node lists and does not hold: an orphan task if the task is known, something to look up otherwise. */
  list(node: ModelNode, running: readonly string[]): void {
    for (const set of [node.unsure, node.unanswered])
      for (const taskId of set) if (!running.includes(taskId)) set.delete(taskId)
    node.over = node.over.filter((taskId) => running.includes(taskId))
    for (const taskId of running) {
      const holds = [...node.leases.values()].some((lease) => lease.taskId === taskId)
      if (holds || node.over.includes(taskId)) continue
      const task = this.tasks.get(taskId)
      if (task?.state === 'open') {
        // Whatever was asked about it: it is known now.
        for (const set of [node.unsure, node.unanswered]) set.delete(taskId)
        this.holdOrphan(node, taskId, task.spec.uses)
      } else if (!node.unanswered.has(taskId)) {
        node.unsure.add(taskId)
      }
    }
  }

  holdOrphan(node: ModelNode, taskId: string, uses: Readonly<Record<string, number>>): void {
    node.leases.set(keyOf(taskId, 0), { taskId, attempt: 0, uses, seq: 0 })
    this.leasesMade += 1
    this.orphansMade += 1
  }

  /** The server accepts nothing of the node any more, whatever the node lists. */
  end(node: ModelNode, taskId: string): void {
    node.unsure.delete(taskId)
    node.unanswered.delete(taskId)
    const totalSlots = node.services.reduce((sum, { slots }) => sum + slots, 0)
    const over = [...node.over.filter((each) => each !== taskId), taskId]
    node.over = over.slice(-Math.min(256, 16 + totalSlots))
  }

  lose(node: ModelNode): void {
    for (const key of node.leases.keys()) this.release(node, key)
    node.status = 'gone'
    node.unsure.clear()
    node.unanswered.clear()
    node.over = []
  }

  offer(node: ModelNode, services: readonly ServiceOffer[], labels: Labels): void {
    node.services = services
    node.labels = labels
    for (const service of node.rests.keys()) {
      if (!services.some(({ name }) => name === service)) node.rests.delete(service)
    }
  }
}
