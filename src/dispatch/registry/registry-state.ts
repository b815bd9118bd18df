/**
 * All state of the registry, and the steps that many commands share. This code never waits and reads no clock: `now`
 * comes with the command, and work outside the registry is recorded as effects.
 */

import { createTimer, PositionHeap, type Timer } from '../../core/position-heap.ts'
import { SeededRandom, Sessions } from '../matching/choose-node.ts'
import { type Demand, Demands } from '../matching/demand.ts'
import { Generation } from '../matching/generation.ts'
import { type Finder, Work } from '../matching/matching.ts'
import { NodeTable, type NodeTimer, type RegistryNode } from '../matching/node-table.ts'
import type { View } from '../matching/pool.ts'
import type { Rebuild } from '../matching/rebuild.ts'
import type { FaultCode, Term } from '../node.ts'
import type { Effect, RegistryEvent } from './command.ts'
import type { Lease, LeaseTimer, TaskEntry } from './task-entry.ts'
import { Tenants } from './wait-queue.ts'

/** Any timer of the registry. */
export type RegistryTimer = TaskEntry['timer'] | LeaseTimer | NodeTimer | Timer<'publish', null>

/** Further changed pages are published this many times faster than the first. */
const pagesPerPublish = 20

/** A lease whose node was lost, and why. A later step ends its attempt. */
export interface LostLease {
  readonly lease: Lease
  readonly code: FaultCode
  readonly message: string
}

/** All state of the registry. */
export class RegistryState {
  readonly policy: RegistryPolicy
  readonly work: Work = new Work()
  readonly nodes: NodeTable = new NodeTable()
  readonly tasks: Map<string, TaskEntry> = new Map()
  readonly demands: Demands
  readonly tenants: Tenants = new Tenants()
  readonly sessions: Sessions
  readonly timers: PositionHeap<RegistryTimer> = new PositionHeap()
  readonly random: SeededRandom
  readonly rules: Map<string, readonly Term[]> = new Map()
  generation: Generation
  rebuild: Rebuild | null = null
  /** Another rebuild follows the present one. */
  rebuildAgain = false

  readonly lost: LostLease[] = []
  /** Nodes with newly free slots. Waiting tasks are served at the end of the command, or in the next slices. */
  readonly freedNodes: Set<RegistryNode> = new Set()
  /** Demands with waiting tasks, by `TaskSpec.kind`. */
  readonly waitingKinds: Map<string, Set<Demand>> = new Map()
  /** Demands whose waiting tasks must be tried with all pools, not only with one node that has free slots. */
  readonly toWake: Set<Demand> = new Set()
  /** How many waiting tasks must still be handed back, by `TaskSpec.kind`. */
  readonly yields: Map<string, number> = new Map()
  waitingCount = 0
  holdCount = 0
  /** The average time between two waiting tasks that are served. */
  msPerWake = 100
  lastWakeAt = 0

  now = 0
  effects: Effect[] = []
  armedAt: number = Number.POSITIVE_INFINITY
  workAnnounced = false
  /** Rises with each page that is published. */
  version = 0
  readonly #finder: Finder = {
    hasCapacity: (node) => this.freedNodes.add(node),
    hasPool: (demand) => this.toWake.add(demand),
  }
  readonly #publishTimer: Timer<'publish', null> = createTimer('publish', null)

  constructor(policy: RegistryPolicy) {
    this.policy = policy
    this.random = new SeededRandom(policy.seed)
    this.sessions = new Sessions(policy.sessionMs, policy.maxSessions)
    const onAdd = (demand: Demand) => this.rebuild?.demands.push(demand)
    this.demands = new Demands(policy.maxDemands, onAdd, (demand) => {
      this.generation.drop(demand)
      this.shadow?.drop(demand)
    })
    this.generation = new Generation(0, new Map(), policy.weights.used, this.work)
  }

  /** The pools that are built beside the ones in use; null: no rebuild is at that phase. */
  get shadow(): Generation | null {
    const { rebuild } = this
    return rebuild?.phase === 'join' || rebuild?.phase === 'match' ? rebuild.shadow : null
  }

  emit(effect: Effect): void {
    this.effects.push(effect)
  }

  report(event: RegistryEvent): void {
    this.emit({ kind: 'event', event })
  }

  /** The view of a demand on the pools in use. */
  view(demand: Demand): View {
    return this.generation.view(demand, (label) => this.nodes.hasLabel(label))
  }

  /** Updates a node's pool memberships after a change of the node. */
  refresh(node: RegistryNode): void {
    node.open =
      node.status === 'ready' &&
      !node.draining &&
      !node.cordoned &&
      !node.isOverloaded &&
      node.heldFor === null
    this.generation.refresh(node)
    this.shadow?.refresh(node)
    this.touch(node)
  }

  /** Updates a node that has newly free slots, so that waiting tasks are served there. */
  freed(node: RegistryNode): void {
    this.refresh(node)
    this.freedNodes.add(node)
  }

  /** Decides again which services get no work, and refreshes the node. */
  reopen(node: RegistryNode): void {
    const cordons = this.nodes.cordonsOf(node.nodeId)
    node.cordoned = cordons.has('')
    node.shut = node.names.map((name, index) => cordons.has(name) || node.restsUntil[index]! > this.now)
    this.freed(node)
  }

  touch(node: RegistryNode): void {
    this.nodes.touch(node)
    if (this.#publishTimer.position < 0) this.timers.set(this.#publishTimer, this.now + this.policy.publishMs)
  }

  /** Publishes one changed page for readers. */
  publish(): void {
    if (!this.nodes.publish(this.now)) return
    this.version += 1
    if (this.nodes.dirty)
      this.timers.set(this.#publishTimer, this.now + this.policy.publishMs / pagesPerPublish)
  }

  /** Continues matching. Tasks that it finds nodes for are served at the end of the command, or in the next slices. */
  match(steps: number, first: View | null = null): number {
    return this.generation.advance(steps, this.#finder, first)
  }

  /** Puts a node into the pools of both generations. */
  join(node: RegistryNode): void {
    this.nodes.countLabels(node, 1)
    this.generation.join(node)
    this.shadow?.join(node)
    this.reopen(node)
  }

  leave(node: RegistryNode): void {
    if (this.generation.membershipOf(node) === null) return
    this.nodes.countLabels(node, -1)
    this.generation.leave(node)
    this.shadow?.leave(node)
    this.touch(node)
  }
}

/** How the registry decides. All servers of a fleet should use the same values. */
export interface RegistryPolicy {
  /** The seed of the registry's random numbers: the same seed and commands give the same effects. @default 1 */
  readonly seed: number
  /** A node must accept a task within this time, or the attempt is over. 0: no limit. @default 10_000 */
  readonly acceptMs: number
  /** After a cancel, how long a slot waits for the node's answer before it counts as free. @default 30_000 */
  readonly cancelGraceMs: number
  /** How long a service rests on a node that was busy and named no time. @default 1_000 */
  readonly restMs: number
  /** The wait before the second attempt after a failure, doubled for each further one. @default 500 */
  readonly retryInMs: number
  /** How many times nodes may reject a task as busy before the attempt counts as failed. @default 100 */
  readonly maxRejects: number
  /** A waiting task rises by one priority in this time. @default 10_000 */
  readonly ageMs: number
  /** A node is kept free for a task that has waited this long and fits on no node. @default 5_000 */
  readonly holdAfterMs: number
  /** How many tasks may wait; further submits are refused. @default 10_000 */
  readonly maxWaiting: number
  /** The same for one tenant. @default 10_000 */
  readonly maxWaitingPerTenant: number
  /** How long a session is remembered after its last task. @default 1_800_000 */
  readonly sessionMs: number
  /** @default 100_000 */
  readonly maxSessions: number
  /** A session leaves its node if the node's load exceeds the best node's by more than this many 32nds. @default 4 */
  readonly escapeBuckets: number
  /** A preferred node is chosen until its load exceeds the best node's by this many 32nds. @default 4 */
  readonly preferBuckets: number
  /** The weights of the load score: `used` weighs taken slots against reported load; the others weigh its parts. */
  readonly weights: {
    readonly used: number
    readonly cpu: number
    readonly gpu: number
    readonly memory: number
  }
  /** A node that reports this much load gets no new work; above 1: no limit. @default cpu 2, gpu 2, memory 0.98 */
  readonly veto: { readonly cpu: number; readonly gpu: number; readonly memory: number }
  /** How many pools one choice checks; the next choice continues with the others. @default 64 */
  readonly maxPoolsScanned: number
  /** How many demands are remembered while no task has them. @default 512 */
  readonly maxDemands: number
  /** The steps of a slice, as `Work` counts them: nodes joined, pools matched, attempts ended. @default 64 */
  readonly sliceSteps: number
  /** How long a changed page of nodes waits to be published; further pages follow 20 times faster. @default 100 */
  readonly publishMs: number
  /** How long a dead node is remembered. @default 600_000 */
  readonly keepMs: number
}

export const registryDefaults: RegistryPolicy = {
  seed: 1,
  acceptMs: 10_000,
  cancelGraceMs: 30_000,
  restMs: 1_000,
  retryInMs: 500,
  maxRejects: 100,
  ageMs: 10_000,
  holdAfterMs: 5_000,
  maxWaiting: 10_000,
  maxWaitingPerTenant: 10_000,
  sessionMs: 1_800_000,
  maxSessions: 100_000,
  escapeBuckets: 4,
  preferBuckets: 4,
  weights: { used: 0.6, cpu: 1, gpu: 1, memory: 0.5 },
  veto: { cpu: 2, gpu: 2, memory: 0.98 },
  maxPoolsScanned: 64,
  maxDemands: 512,
  sliceSteps: 64,
  publishMs: 100,
  keepMs: 600_000,
}
