/**
 * All nodes, by id and by their index. Readers see the nodes in pages, ordered by index; one page at a time is rebuilt
 * as a whole. A new node takes the index of a forgotten one.
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
  readonly #byIndex: (RegistryNode | null)[] = []
  readonly #freeIndexes: number[] = []
  readonly #labels = new Map<string, number>()
  /**
   * The services that operators closed, by node id. '' stands for the whole node. Cordons stay while the node is
   * away.
   */
  readonly #cordons = new Map<string, Set<string>>()
  readonly #dirty = new Set<number>()
  #pages: readonly (readonly NodeView[])[] = []

  get size(): number {
    return this.#nodes.size
  }

  /** The number of indexes, including free ones. */
  get indexCount(): number {
    return this.#byIndex.length
  }

  get dirty(): boolean {
    return this.#dirty.size > 0
  }

  find(nodeId: string): RegistryNode | undefined {
    return this.#nodes.get(nodeId)
  }

  /** The node, if it has this epoch and is not dead. */
  findLive(nodeId: string, epoch: number): RegistryNode | undefined {
    const node = this.#nodes.get(nodeId)
    return node?.epoch === epoch && node.status !== 'gone' ? node : undefined
  }

  at(index: number): RegistryNode | null {
    return this.#byIndex[index] ?? null
  }

  add(nodeId: string, instanceId: string, epoch: number): RegistryNode {
    const index = this.#freeIndexes.pop() ?? this.#byIndex.length
    const node = new RegistryNode(nodeId, index, instanceId, epoch)
    this.#byIndex[index] = node
    this.#nodes.set(nodeId, node)
    return node
  }

  remove(node: RegistryNode): void {
    this.#nodes.delete(node.nodeId)
    this.#byIndex[node.index] = null
    this.#freeIndexes.push(node.index)
    this.touch(node)
  }

  /** Counts the labels of a node that joins or leaves. */
  countLabels(node: RegistryNode, sign: 1 | -1): void {
    for (const label of Object.keys(node.labels)) {
      const count = (this.#labels.get(label) ?? 0) + sign
      if (count > 0) this.#labels.set(label, count)
      else this.#labels.delete(label)
    }
  }

  /** Whether any live node has the label. */
  hasLabel(label: string): boolean {
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

  /** Marks the page of this node as changed. */
  touch(node: RegistryNode): void {
    node.cachedView = null
    this.#dirty.add(Math.floor(node.index / pageSize))
  }

  /**
   * Rebuilds the page that changed first; false: none changed. Rebuilding all pages at once would block the process.
   */
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

  /** All nodes as they were published when the caller began to iterate. */
  *published(): Generator<NodeView> {
    for (const page of this.#pages) yield* page ?? []
  }

  #page(number: number, now: number): readonly NodeView[] {
    const views: NodeView[] = []
    for (let index = number * pageSize; index < (number + 1) * pageSize; index += 1) {
      const node = this.#byIndex[index]
      if (!node) continue
      node.cachedView ??= node.view(this.cordonsOf(node.nodeId), now)
      views.push(node.cachedView)
    }
    return views
  }
}

/** The load of a node that has not reported one. */
export const noLoad: NodeLoad = { cpu: null, gpu: null, memory: null }

/** A timer of a node. */
export type NodeTimer = Timer<'rest' | 'drain' | 'lookup' | 'forget', RegistryNode>

/**
 * A node in the registry, live or recently dead. Values per service are arrays in the order of its services, so that
 * the nodes of one pool share indexes. `used` is always the sum of the slots of `leases`; `recount` computes it from
 * them.
 */
export class RegistryNode {
  readonly nodeId: string
  /** Its index in the node table and its pages. */
  readonly index: number
  instanceId: string
  epoch: number
  status: NodeStatus = 'ready'
  services: readonly ServiceOffer[] = []
  servicesKey = ''
  /** The names of the services, in their order. */
  names: readonly string[] = []
  labels: Labels = {}

  slots: readonly number[] = []
  /** Slots that leases take, by service. */
  used: number[] = []
  /** Slots that leases take, over all services. */
  taken = 0
  /** Whether a service gets no new work, because it is cordoned or rests. */
  shut: readonly boolean[] = []
  restsUntil: number[] = []
  totalSlots = 0

  leases: Map<string, Lease> = new Map()
  readonly foreignTasks: ForeignTasks = new ForeignTasks()
  /** How many assigns were sent on this connection. */
  seq = 0
  countedSeq = 0
  /** Slots of leases that the reported load does not include yet. */
  uncounted = 0

  load: NodeLoad = noLoad
  /** The reported load as one fraction from 0 to 1. */
  reported = 0
  vetoed = false
  draining = false
  cordoned = false
  heldFor: TaskEntry | null = null
  /** The node itself may get new work; `shut` closes single services. */
  open = false
  /** Its memberships in the pools of two generations: the one in use, and the one that is built or swept. */
  readonly memberships: [PoolMembership | null, PoolMembership | null] = [null, null]
  /** The latest view for readers; null if the node has changed since. */
  cachedView: NodeView | null = null
  joinedAt = 0
  seenAt = 0
  /** The timers end a rest, a drain, the wait for lookups, and the memory of a dead node. */
  readonly restTimer: NodeTimer = createTimer('rest', this)
  readonly drainTimer: NodeTimer = createTimer('drain', this)
  readonly lookupTimer: NodeTimer = createTimer('lookup', this)
  readonly forgetTimer: NodeTimer = createTimer('forget', this)
  /** Former instances. They are refused. */
  readonly past: string[] = []

  constructor(nodeId: string, index: number, instanceId: string, epoch: number) {
    this.nodeId = nodeId
    this.index = index
    this.instanceId = instanceId
    this.epoch = epoch
  }

  /** Changes the offered services. Leases stay and are counted again. */
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

  /** Adds a lease. */
  take(lease: Lease): void {
    // An attempt has one lease: an older one was left behind, so its slots are freed.
    const older = this.leases.get(lease.key)
    if (older !== undefined) this.giveBack(older)
    this.leases.set(lease.key, lease)
    this.#count(lease, 1)
  }

  /** Removes a lease; false: it was not there. */
  giveBack(lease: Lease): boolean {
    if (this.leases.get(lease.key) !== lease) return false
    this.leases.delete(lease.key)
    this.#count(lease, -1)
    return true
  }

  /** Numbers the lease's assign on this connection. */
  send(lease: Lease): number {
    this.seq += 1
    lease.seq = this.seq
    return this.seq
  }

  /** The node's reported load includes the assigns up to `seq`; only later ones are added to it. */
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

  /** The node reported too much load, or the lookup of a foreign task is pending. */
  get isOverloaded(): boolean {
    return this.vetoed || this.foreignTasks.pending.size > 0
  }

  /** Whether the node could take a shape if it were idle. */
  couldFit(shape: Shape): boolean {
    return shape.names.every((name, i) => {
      const index = this.serviceIndex(name)
      return index >= 0 && !this.shut[index] && this.slots[index]! >= shape.weights[i]!
    })
  }

  /** Whether the node has free slots for a shape now. */
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
