/**
 * A node in the registry. Per-service figures lie in arrays in the order of its services, so that nodes of one pool agree
 * on indexes. Slots are never a bare count: `used` is the sum of `leases`, and `recount` makes it so from nothing.
 */

import type { Labels, NodeLoad, NodeStatus, NodeView, ServiceOffer } from '../node.ts'
import { ForeignTasks } from '../registry/foreign-tasks.ts'
import type { RegistryPolicy } from '../registry/policy.ts'
import type { Lease, TaskEntry } from '../registry/task-entry.ts'
import type { Timer } from '../registry/timers.ts'
import { servicesKey, tidyServices } from './capability.ts'
import type { Shape } from './demand.ts'
import type { PoolMembership } from './pool.ts'

/** No figures yet. */
export const noLoad: NodeLoad = { cpu: null, gpu: null, memory: null }

/** A node's own timers. */
export type NodeTimer = Timer<'rest' | 'drain' | 'unsure' | 'forget', FleetNode>

/** A node, live or lately dead. */
export class FleetNode {
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
  /** Ends a rest, a drain, the wait for answers, or the memory of a dead node; made when first needed. */
  restTimer: NodeTimer | null = null
  drainTimer: NodeTimer | null = null
  unsureTimer: NodeTimer | null = null
  forgetTimer: NodeTimer | null = null
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
    this.shut = noneShut(this.services.length)
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

const listsOfNone: (readonly boolean[])[] = []

/** For a node with so many services, none of them shut: as nearly all are, so that they share the list. */
export function noneShut(count: number): readonly boolean[] {
  listsOfNone[count] ??= Array.from({ length: count }, () => false)
  return listsOfNone[count]
}
