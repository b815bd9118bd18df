/**
 * The registry: which nodes there are, which tasks, and which task is on which node. An actor without a lock: one
 * synchronous `apply`, never a wait inside, no clock and no dice of its own; time comes with the command. So there is
 * nothing to contend for, and a run can be told again from its commands.
 *
 *   frames, claims, timers ─▶ mailbox ─▶ apply(command, now) ─▶ effects ─▶ frames, acks, timers
 */

import type { Asked } from '../matching/demand.ts'
import { startRebuild } from '../matching/rebuild.ts'
import type { NodeView, PoolView, TaskView, Term } from '../node.ts'
import { serveFreedNodes } from '../waiting/serve-waiting.ts'
import { admission } from '../waiting/waiting.ts'
import { askedByKind, type WaitingKind, waitingByKind, yieldWaiting } from '../waiting/yield-waiting.ts'
import { cordon, definePool, drain } from './administration.ts'
import { heardAttempt } from './attempts.ts'
import { endLost, slice, tick, workLeft } from './background.ts'
import type { Command } from './command.ts'
import type { Effect } from './effect.ts'
import { bye, gone, heartbeat, hello, suspect, update } from './membership.ts'
import { heardOrphan } from './orphan-tasks.ts'
import { type RegistryPolicy, registryDefaults } from './policy.ts'
import { RegistryState } from './registry-state.ts'
import { cancel, forget, submit } from './submitting.ts'

/** How much there is of everything. */
export interface RegistryCounts {
  readonly nodes: number
  readonly tasks: number
  readonly waiting: number
  readonly pools: number
  readonly demands: number
  readonly sessions: number
  readonly tenants: number
  readonly timers: number
  readonly generation: number
  readonly rebuilding: boolean
}

/** The registry of nodes and tasks. */
export class Registry {
  readonly #state: RegistryState
  #lastSteps = 0

  constructor(policy: Partial<RegistryPolicy> = {}) {
    this.#state = new RegistryState({ ...registryDefaults, ...policy })
  }

  /** The only way to change anything. Time never goes back: an earlier `now` counts as the latest one seen. */
  apply(command: Command, now: number): readonly Effect[] {
    const state = this.#state
    state.now = Math.max(state.now, now)
    state.effects = []
    const before = state.work.done
    act(state, command)
    if (command.kind !== 'rebuildSlice') {
      const steps = endLost(state, state.policy.sliceSteps)
      serveFreedNodes(state, Math.max(1, steps))
    }
    const { nextAt } = state.timers
    if (nextAt < state.armedAt) {
      state.armedAt = nextAt
      state.emit({ kind: 'armTimer', at: nextAt })
    }
    if (!state.workAnnounced && workLeft(state)) {
      state.workAnnounced = true
      state.emit({ kind: 'moreWork' })
    }
    this.#lastSteps = state.work.done - before
    return state.effects
  }

  /** How much work the last command was, in the steps that bound a slice. */
  get lastSteps(): number {
    return this.#lastSteps
  }

  // What follows only reads. It may be called between any two commands and changes nothing.

  /** When to come again, if one more task of this tenant may not wait now; null: it may. */
  admission(tenant: string): number | null {
    return admission(this.#state, tenant)
  }

  /** How many tasks wait. */
  get waitingCount(): number {
    return this.#state.waitingCount
  }

  /** What waits, by `TaskSpec.kind`: a look at each kind, not at each task. */
  waitingKinds(): Generator<WaitingKind> {
    return waitingByKind(this.#state)
  }

  /** What the tasks in the registry ask for, by `TaskSpec.kind`; a kind may come more than once. */
  heldKinds(): Generator<Asked & { readonly kind: string }> {
    return askedByKind(this.#state)
  }

  /** Whether a task is in the registry. */
  has(taskId: string): boolean {
    return this.#state.tasks.has(taskId)
  }

  task(taskId: string): TaskView | undefined {
    return this.#state.tasks.get(taskId)?.view()
  }

  *tasks(): Generator<TaskView> {
    for (const task of this.#state.tasks.values()) yield task.view()
  }

  node(nodeId: string): NodeView | undefined {
    const { fleet, now } = this.#state
    return fleet.find(nodeId)?.view(fleet.cordonsOf(nodeId), now)
  }

  /** A page of the snapshot, made now: ask for it when `publish` names it. */
  page(number: number): readonly NodeView[] {
    return this.#state.fleet.page(number, this.#state.now)
  }

  get pageCount(): number {
    return this.#state.fleet.pageCount
  }

  /** What the pools defined by name ask for. */
  get rules(): ReadonlyMap<string, readonly Term[]> {
    return this.#state.rules
  }

  /** The pools with nodes in them, and those defined by name. */
  pools(): readonly PoolView[] {
    const { generation } = this.#state
    const defined = [...generation.rules].map(([name, requires]) => ({
      name,
      signature: null,
      requires,
      nodeCount: generation.count(requires),
    }))
    const automatic = generation.pools
      .filter(({ members }) => members.length > 0)
      .map(({ key, members }) => ({ name: null, signature: key, requires: [], nodeCount: members.length }))
    return [...defined, ...automatic]
  }

  counts(): RegistryCounts {
    const { fleet, tasks, waitingCount, generation, demands, sessions, tenants, timers, rebuild } =
      this.#state
    return {
      nodes: fleet.size,
      tasks: tasks.size,
      waiting: waitingCount,
      pools: generation.pools.length,
      demands: demands.size,
      sessions: sessions.size,
      tenants: tenants.size,
      timers: timers.size,
      generation: generation.number,
      rebuilding: rebuild !== null,
    }
  }
}

function act(state: RegistryState, command: Command): void {
  switch (command.kind) {
    case 'accept':
    case 'reject':
    case 'progress':
    case 'result':
    case 'fail':
      heardAttempt(state, command)
      return
    case 'submit':
      submit(state, command.task, command.admitted)
      return
    case 'cancel':
      cancel(state, command.taskId, command.reason)
      return
    case 'forget':
      forget(state, command.taskId, command.attempt)
      return
    case 'yield':
      yieldWaiting(state, command.demand, command.count)
      return
    case 'orphan':
      heardOrphan(state, command)
      return
    case 'heartbeat':
      heartbeat(state, command)
      return
    case 'tick':
      tick(state)
      return
    case 'rebuildSlice':
      state.workAnnounced = false
      slice(state)
      return
    case 'nodeHello':
      hello(state, command)
      return
    case 'nodeUpdate':
      update(state, command)
      return
    case 'nodeSuspect':
      suspect(state, command)
      return
    case 'nodeGone':
      gone(state, command)
      return
    case 'nodeBye':
      bye(state, command)
      return
    case 'drain':
      drain(state, command)
      return
    case 'cordon':
      cordon(state, command)
      return
    case 'definePool':
      definePool(state, command.name, command.requires)
      return
    case 'removePool':
      if (state.rules.delete(command.name)) startRebuild(state)
      return
    case 'rebuild':
      startRebuild(state)
  }
}
