/**
 * All state of the registry, and the few moves that every command shares. Nothing here waits or looks at a
 * clock: `now` is the command's, and what is to be done outside is written down as effects.
 */
import { type Demand, Demands } from '../matching/demand.ts'
import { Fleet } from '../matching/fleet.ts'
import { type FleetNode, type NodeTimer, noneShut } from '../matching/fleet-node.ts'
import { Generation } from '../matching/generation.ts'
import type { Finder } from '../matching/matching.ts'
import type { View } from '../matching/pool.ts'
import type { Rebuild } from '../matching/rebuild.ts'
import { Sessions } from '../matching/sessions.ts'
import type { FaultCode, Term } from '../node.ts'
import { Tenants } from '../waiting/tenants.ts'
import type { Effect, RegistryEvent } from './effect.ts'
import type { RegistryPolicy } from './policy.ts'
import { Dice } from './seeded-random.ts'
import type { Lease, LeaseTimer, TaskEntry } from './task-entry.ts'
import { createTimer, type Timer, Timers } from './timers.ts'
import { Work } from './work-counter.ts'

/** Every timer of the registry. */
export type RegistryTimer = TaskEntry['timer'] | LeaseTimer | NodeTimer | Timer<'publish', null>

/** Changed pages are published so many times faster than a page that has just been. */
const pagesPerPublish = 20

/** A lease whose node was lost, and why: its attempt is still to be ended. */
export interface LostLease {
  readonly lease: Lease
  readonly code: FaultCode
  readonly message: string
}

/** All state of the registry. */
export class RegistryState {
  readonly policy: RegistryPolicy
  readonly work: Work = new Work()
  readonly fleet: Fleet = new Fleet()
  readonly tasks: Map<string, TaskEntry> = new Map()
  readonly demands: Demands
  readonly tenants: Tenants = new Tenants()
  readonly sessions: Sessions
  readonly timers: Timers<RegistryTimer> = new Timers()
  readonly dice: Dice
  readonly rules: Map<string, readonly Term[]> = new Map()
  generation: Generation
  rebuild: Rebuild | null = null
  /** Another rebuild was asked for while one is under way. */
  rebuildAgain = false

  readonly lost: LostLease[] = []
  /** Nodes that have more free slots than before: who waits for them is looked for at the end of the command, or soon after. */
  readonly freedNodes: Set<FleetNode> = new Set()
  /** Demands that someone waits with, by `TaskSpec.kind`. */
  readonly waitingKinds: Map<string, Set<Demand>> = new Map()
  /** Demands whose wait queue is to be tried with all pools, not only with a node that has free slots. */
  readonly toWake: Set<Demand> = new Set()
  /** How many of those who wait are still to be given up, by `TaskSpec.kind`. */
  readonly yields: Map<string, number> = new Map()
  waitingCount = 0
  holdCount = 0
  /** How long it takes for one waiting task to be served, on average. */
  msPerWake = 100
  lastWakeAt = 0

  now = 0
  effects: Effect[] = []
  armedAt: number = Number.POSITIVE_INFINITY
  workAnnounced = false
  version = 0
  readonly #finder: Finder = {
    hasCapacity: (node) => this.freedNodes.add(node),
    hasPool: (demand) => this.toWake.add(demand),
  }
  readonly #publishTimer: Timer<'publish', null> = createTimer('publish', null)

  constructor(policy: RegistryPolicy) {
    this.policy = policy
    this.dice = new Dice(policy.seed)
    this.sessions = new Sessions(policy.sessionMs, policy.maxSessions)
    const made = (demand: Demand) => this.rebuild?.demands.push(demand)
    this.demands = new Demands(policy.maxDemands, made, (demand) => {
      this.generation.drop(demand)
      this.shadow?.drop(demand)
    })
    this.generation = new Generation(0, new Map(), policy.weights.used, this.work)
  }

  /** The pools being built beside the ones in use; null: none are, or they are in use already. */
  get shadow(): Generation | null {
    const { rebuild } = this
    return rebuild?.phase === 'join' || rebuild?.phase === 'match' ? rebuild.shadow : null
  }

  emit(effect: Effect): void {
    // Most commands have one effect: a list made with it is a tenth of one that was made to grow.
    if (this.effects.length === 0) this.effects = [effect]
    else this.effects.push(effect)
  }

  tell(event: RegistryEvent): void {
    this.emit({ kind: 'event', event })
  }

  /** A demand as the pools in use see it. */
  view(demand: Demand): View {
    return this.generation.view(demand, (label) => this.fleet.labelled(label))
  }

  /** Brings a node's pool memberships up to date after anything about it changed. */
  refresh(node: FleetNode): void {
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

  /** Works out anew which services get no work, and refreshes. */
  reopen(node: FleetNode): void {
    const cordons = this.fleet.cordonsOf(node.nodeId)
    node.cordoned = cordons.has('')
    const shut = node.names.map((name, index) => cordons.has(name) || node.restsUntil[index]! > this.now)
    node.shut = shut.includes(true) ? shut : noneShut(shut.length)
    this.refresh(node)
    this.freedNodes.add(node)
  }

  touch(node: FleetNode): void {
    this.fleet.touch(node)
    if (this.#publishTimer.position < 0) this.timers.set(this.#publishTimer, this.now + this.policy.publishMs)
  }

  /** Names a page that changed. One at a time: making all pages of a large fleet at once would block the process. */
  publish(): void {
    const page = this.fleet.takeDirty()
    if (page === undefined) return
    this.version += 1
    this.emit({ kind: 'publish', pages: [page], version: this.version })
    if (this.fleet.dirty)
      this.timers.set(this.#publishTimer, this.now + this.policy.publishMs / pagesPerPublish)
  }

  /** Continues matching. Tasks that it finds nodes for are served at the end of the command, or in the next slices. */
  match(steps: number, first: View | null = null): number {
    return this.generation.advance(steps, this.#finder, first)
  }

  /** Puts a node into the pools of both generations. */
  join(node: FleetNode): void {
    this.fleet.countLabels(node, 1)
    this.generation.join(node)
    this.shadow?.join(node)
    this.reopen(node)
  }

  leave(node: FleetNode): void {
    if (this.generation.membershipOf(node) === null) return
    this.fleet.countLabels(node, -1)
    this.generation.leave(node)
    this.shadow?.leave(node)
    this.touch(node)
  }
}
