/**
 * All nodes: by id, and by their line in the pages for readers. A page is made anew as a whole, one at a time. A new node
 * takes the line of a forgotten one.
 */

import { createTimer, type Timer } from '../../core/position-heap.ts'
import type { Labels, NodeLoad, NodeStatus, NodeView, ServiceOffer } from '../node.ts'
import { ForeignTasks } from '../registry/orphan-tasks.ts'
import type { RegistryPolicy } from '../registry/registry-state.ts'
import type { Lease, TaskEntry } from '../registry/task-entry.ts'
import type { Shape } from './demand.ts'
import type { PoolMembership } from './pool.ts'
import { servicesKey, tidyServices } from './requirement.ts'

/** Nodes per page. */
const pageSize = 256

const noServices: ReadonlySet<string> = new Set()

/** The nodes in the registry. */
export class NodeTable {
  readonly #nodes = new Map<string, RegistryNode>()
  readonly #lines: (RegistryNode | null)[] = []
  readonly #freeLines: number[] = []
  readonly #labels = new Map<string, number>()
  /** What an operator closed, by node id, kept while the node is away; '' stands for the whole node. */
  readonly #cordons = new Map<string, Set<string>>()
  readonly #dirty = new Set<number>()
  #pages: readonly (readonly NodeView[])[] = []

  get size(): number {
    return this.#nodes.size
  }

  /** How many lines there are, free ones too. */
  get lineCount(): number {
    return this.#lines.length
  }

  get dirty(): boolean {
    return this.#dirty.size > 0
  }

  find(nodeId: string): RegistryNode | undefined {
    return this.#nodes.get(nodeId)
  }

  line(number: number): RegistryNode | null {
    return this.#lines[number] ?? null
  }

  add(nodeId: string, instanceId: string, epoch: number): RegistryNode {
    const index = this.#freeLines.pop() ?? this.#lines.length
    const node = new RegistryNode(nodeId, index, instanceId, epoch)
    this.#lines[index] = node
    this.#nodes.set(nodeId, node)
    return node
  }

  remove(node: RegistryNode): void {
    this.#nodes.delete(node.nodeId)
    this.#lines[node.index] = null
    this.#freeLines.push(node.index)
    this.touch(node)
  }

  /** Counts a node's labels in or out, to know which labels live nodes have. */
  countLabels(node: RegistryNode, sign: 1 | -1): void {
    for (const label of Object.keys(node.labels)) {
      const count = (this.#labels.get(label) ?? 0) + sign
      if (count > 0) this.#labels.set(label, count)
      else this.#labels.delete(label)
    }
  }

  /** Whether any live node has the label. */
  labelled(label: string): boolean {
    return this.#labels.has(label)
  }

  cordon(nodeId: string, service: string, on: boolean): void {
    const services = this.#cordons.get(nodeId) ?? new Set()
    if (on) services.add(service)
    else services.delete(service)
    if (services.size > 0) this.#cordons.set(nodeId, services)
    else this.#cordons.delete(nodeId)
  }

  cordonsOf(nodeId: string): ReadonlySet<string> {
    return this.#cordons.get(nodeId) ?? noServices
  }

  /** The page of this node must be made anew. */
  touch(node: RegistryNode): void {
    node.shown = null
    this.#dirty.add(Math.floor(node.index / pageSize))
  }

  /** Makes the page anew that has waited longest; false: none has to be. Making all at once would block the process. */
  publish(now: number): boolean {
    for (const number of this.#dirty) {
      this.#dirty.delete(number)
      const pages = [...this.#pages]
      pages[number] = this.#page(number, now)
      this.#pages = pages
      return true
    }
    return false
  }

  /** All nodes as they were published when the walk began. */
  *published(): Generator<NodeView> {
    for (const page of this.#pages) yield* page ?? []
  }

  #page(number: number, now: number): readonly NodeView[] {
    const views: NodeView[] = []
    for (let line = number * pageSize; line < (number + 1) * pageSize; line += 1) {
      const node = this.#lines[line]
      if (!node) continue
      node.shown ??= node.view(this.cordonsOf(node.nodeId), now)
      views.push(node.shown)
    }
    return views
  }
}

/** No figures yet. */
export const noLoad: NodeLoad = { cpu: null, gpu: null, memory: null }

/** A node's own timers. */
export type NodeTimer = Timer<'rest' | 'drain' | 'unsure' | 'forget', RegistryNode>

/**
 * A node in the registry, live or recently dead. Figures per service lie in arrays in the order of its services, so that
 * nodes of one pool agree on indexes. Slots are never a bare count: `used` is the sum over `leases`, and `recount` makes
 * it so from nothing.
 */
export class RegistryNode {
  readonly nodeId: string
  /** Its line in the snapshot pages. */
  readonly index: number
  instanceId: string
  epoch: number
  status: NodeStatus = 'ready'
  services: readonly ServiceOffer[] = []
  servicesKey = ''
  /** Of the services, in their order. */
  names: readonly string[] = []
  labels: Labels = {}

  slots: readonly number[] = []
  /** Taken by leases. */
  used: number[] = []
  /** All of them together. */
  taken = 0
  /** No new work for the service: cordoned, or resting. */
  shut: readonly boolean[] = []
  restsUntil: number[] = []
  totalSlots = 0

  leases: Map<string, Lease> = new Map()
  readonly foreignTasks: ForeignTasks = new ForeignTasks()
  /** Assigns sent on this connection. */
  seq = 0
  countedSeq = 0
  /** Slots of leases that the reported load does not know of yet. */
  uncounted = 0

  load: NodeLoad = noLoad
  /** The reported load as one fraction. */
  reported = 0
  vetoed = false
  draining = false
  cordoned = false
  heldFor: TaskEntry | null = null
  /** May get new work, whatever the service. */
  open = false
  /** Its membership in the two generations of pools: the one in use, and the one being built or swept. */
  readonly memberships: [PoolMembership | null, PoolMembership | null] = [null, null]
  /** Its line in the snapshot as it was last made; null when it has changed since. */
  shown: NodeView | null = null
  joinedAt = 0
  seenAt = 0
  /** They end a rest, a drain, the wait for answers, and the memory of a dead node. */
  readonly restTimer: NodeTimer = createTimer('rest', this)
  readonly drainTimer: NodeTimer = createTimer('drain', this)
  readonly unsureTimer: NodeTimer = createTimer('unsure', this)
  readonly forgetTimer: NodeTimer = createTimer('forget', this)
  /** Instances that were taken over: they may not come back. */
  readonly past: string[] = []

  constructor(nodeId: string, index: number, instanceId: string, epoch: number) {
    this.nodeId = nodeId
    this.index = index
    this.instanceId = instanceId
    this.epoch = epoch
  }

  /** Takes over what it offers now; leases on services that it keeps stay counted. */
  offer(services: readonly ServiceOffer[]): void {
    const rests = new Map(this.services.map(({ name }, index) => [name, this.restsUntil[index]!]))
    this.services = tidyServices(services)
    this.servicesKey = servicesKey(this.services)
    this.names = this.services.map(({ name }) => name)
    this.slots = this.services.map(({ slots }) => slots)
    this.restsUntil = this.services.map(({ name }) => rests.get(name) ?? 0)
    this.shut = this.services.map(() => false)
    this.totalSlots = this.slots.reduce((sum, slots) => sum + slots, 0)
    this.recount()
  }

  /** Counts the slots in use from the leases themselves. */
  recount(): void {
    this.used = this.services.map(() => 0)
    this.taken = 0
    this.uncounted = 0
    for (const lease of this.leases.values()) this.#count(lease, 1)
  }

  /** Puts a lease in. */
  take(lease: Lease): void {
    // Two leases for one attempt cannot be: the older one was left behind, and its slots with it.
    const older = this.leases.get(lease.key)
    if (older !== undefined) this.giveBack(older)
    this.leases.set(lease.key, lease)
    this.#count(lease, 1)
  }

  /** Takes a lease out; false: it was not there. */
  giveBack(lease: Lease): boolean {
    if (this.leases.get(lease.key) !== lease) return false
    this.leases.delete(lease.key)
    this.#count(lease, -1)
    return true
  }

  /** Gives a lease its number among the assigns of this connection. */
  send(lease: Lease): number {
    this.seq += 1
    lease.seq = this.seq
    return this.seq
  }

  /** The node has counted the assigns up to this one in its load: only later ones are added to it. */
  counted(seq: number): void {
    this.countedSeq = Math.min(Math.max(seq, 0), this.seq)
    this.uncounted = 0
    for (const lease of this.leases.values()) {
      if (lease.seq > this.countedSeq) this.uncounted += lease.shape.total
    }
  }

  report(load: NodeLoad, { weights, veto }: RegistryPolicy): void {
    this.load = load
    const { cpu, gpu, memory } = load
    const weight =
      (cpu === null ? 0 : weights.cpu) +
      (gpu === null ? 0 : weights.gpu) +
      (memory === null ? 0 : weights.memory)
    const sum = (cpu ?? 0) * weights.cpu + (gpu ?? 0) * weights.gpu + (memory ?? 0) * weights.memory
    this.reported = weight === 0 ? 0 : Math.min(1, Math.max(0, sum / weight))
    this.vetoed = (cpu ?? 0) >= veto.cpu || (gpu ?? 0) >= veto.gpu || (memory ?? 0) >= veto.memory
  }

  /** It reported too much load, or lists tasks whose slots are not known yet. */
  get isOverloaded(): boolean {
    return this.vetoed || this.foreignTasks.unsure.size > 0
  }

  /** Whether it could take a shape if it were idle: slots, and services that are not shut. */
  couldFit(shape: Shape): boolean {
    return shape.names.every((name, i) => {
      const index = this.serviceIndex(name)
      return index >= 0 && !this.shut[index] && this.slots[index]! >= shape.weights[i]!
    })
  }

  /** Whether it has free slots for a shape now. */
  fits(shape: Shape): boolean {
    return shape.names.every((name, i) => {
      const index = this.serviceIndex(name)
      if (index < 0 || this.shut[index]) return false
      return this.slots[index]! - this.used[index]! >= shape.weights[i]!
    })
  }

  serviceIndex(service: string): number {
    return this.names.indexOf(service)
  }

  view(cordons: ReadonlySet<string> | undefined, now: number): NodeView {
    return {
      nodeId: this.nodeId,
      instanceId: this.instanceId,
      epoch: this.epoch,
      status: this.status,
      via: null,
      draining: this.draining,
      cordoned: this.cordoned,
      overloaded: this.isOverloaded,
      heldFor: this.heldFor?.spec.taskId ?? null,
      services: this.services.map((offer, index) => ({
        ...offer,
        used: this.used[index]!,
        cordoned: cordons?.has(offer.name) === true,
        restsUntil: this.restsUntil[index]! > now ? this.restsUntil[index]! : null,
      })),
      labels: this.labels,
      load: this.load,
      taskIds: [...this.leases.values()].map(({ taskId }) => taskId),
      seenAt: this.seenAt,
      joinedAt: this.joinedAt,
    }
  }

  #count(lease: Lease, sign: 1 | -1): void {
    const { names, weights, total } = lease.shape
    for (let i = 0; i < names.length; i += 1) {
      const index = this.serviceIndex(names[i]!)
      if (index >= 0) this.used[index]! += sign * weights[i]!
    }
    this.taken += sign * total
    if (lease.seq > this.countedSeq) this.uncounted += sign * total
  }
}
