/**
 * The registry: which nodes there are, which tasks, and which task is on which node. One synchronous `apply` changes it.
 * It never waits, and has no clock and no randomness but its seed: time comes with the command. So it needs no lock, and
 * a run can be replayed from its commands.
 *
 *   frames, claims, timers ─▶ mailbox ─▶ apply(command, now) ─▶ effects ─▶ frames, acks, timers
 */

import type { Asked } from '../matching/demand.ts'
import { continueRebuild, startRebuild } from '../matching/rebuild.ts'
import type { NodeView, PoolView, TaskView, Term } from '../node.ts'
import { heardAttempt, rested } from './attempts.ts'
import type { Command, CommandKind, CommandOf, Effect } from './command.ts'
import {
  bye,
  cordon,
  definePool,
  drain,
  drainDue,
  forgetNode,
  gone,
  heartbeat,
  hello,
  removePool,
  suspect,
  update,
} from './membership.ts'
import { heardOrphan, unsureDue } from './orphan-tasks.ts'
import { admission } from './placing.ts'
import { type RegistryPolicy, RegistryState, type RegistryTimer, registryDefaults } from './registry-state.ts'
import {
  continueYields,
  serveFreedNodes,
  type WaitingKind,
  waitingByKind,
  wake,
  yieldWaiting,
} from './serve-waiting.ts'
import { cancel, endAttempt, forceRelease, forget, submit, taskDue } from './task-lifecycle.ts'

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
    const handle = handlers[command.kind] as (state: RegistryState, command: Command) => void
    handle(state, command)
    if (command.kind !== 'rebuildSlice') {
      const steps = endLost(state, state.policy.sliceSteps)
      serveFreedNodes(state, Math.max(1, steps))
    }
    const next = state.timers.first
    if (next !== undefined && next.at < state.armedAt) {
      state.armedAt = next.at
      state.emit({ kind: 'armTimer', at: next.at })
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

  // The rest only reads, and may be called between any two commands.

  /** In how many milliseconds to try again when no further task of this tenant may wait now; null: one may. */
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
  *heldKinds(): Generator<Asked & { readonly kind: string }> {
    for (const { kind, asked, taskCount } of this.#state.demands.values())
      if (taskCount > 0) yield { kind, ...asked }
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
    const { nodes, now } = this.#state
    return nodes.find(nodeId)?.view(nodes.cordonsOf(nodeId), now)
  }

  /** All nodes as they were published when the walk began: at most a little old. */
  nodes(): Generator<NodeView> {
    return this.#state.nodes.published()
  }

  /** Rises when nodes are published. */
  get version(): number {
    return this.#state.version
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
    const { nodes, tasks, waitingCount, generation, demands, sessions, tenants, timers, rebuild } =
      this.#state
    return {
      nodes: nodes.size,
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

/** What each command does. */
const handlers: { readonly [Kind in CommandKind]: (state: RegistryState, command: CommandOf<Kind>) => void } =
  {
    accept: heardAttempt,
    reject: heardAttempt,
    progress: heardAttempt,
    result: heardAttempt,
    fail: heardAttempt,
    orphan: heardOrphan,
    submit,
    cancel,
    forget,
    yield: yieldWaiting,
    heartbeat,
    nodeHello: hello,
    nodeUpdate: update,
    nodeSuspect: suspect,
    nodeGone: gone,
    nodeBye: bye,
    drain,
    cordon,
    definePool,
    removePool,
    rebuild: startRebuild,
    rebuildSlice: slice,
    tick,
  }

/** Whether background work is left. */
function workLeft(state: RegistryState): boolean {
  const { lost, freedNodes, toWake, yields, rebuild, generation } = state
  const isServing = freedNodes.size > 0 || toWake.size > 0 || yields.size > 0
  return isServing || lost.length > 0 || rebuild !== null || generation.hasWork
}

/** One slice: attempts of lost nodes first, then waiting tasks, then matching, then the rebuild. */
function slice(state: RegistryState): void {
  state.workAnnounced = false
  const { policy, generation } = state
  let steps = endLost(state, policy.sliceSteps)
  if (steps > 0) steps = serveFreedNodes(state, steps)
  if (steps > 0) steps = wake(state, steps)
  if (steps > 0) steps = continueYields(state, steps)
  if (steps > 0 && generation.hasWork) steps = state.match(steps)
  if (generation.worn && state.rebuild === null) startRebuild(state)
  if (steps > 0 && state.rebuild !== null) continueRebuild(state, state.rebuild, steps)
}

/** Ends up to `steps` attempts whose leases went with their node. Returns the steps that are left. */
function endLost(state: RegistryState, steps: number): number {
  if (state.lost.length === 0) return steps
  const pieces = state.lost.splice(0, Math.ceil(steps))
  state.work.done += pieces.length
  for (const { lease, code, message } of pieces) {
    const { task, epoch, node } = lease
    if (lease.grace !== null) state.timers.clear(lease.grace)
    lease.task = null
    if (task === null || task.lease !== lease) continue
    task.lease = null
    endAttempt(state, task, code, { code, message }, { by: { nodeId: node.nodeId, epoch } })
  }
  return Math.max(0, steps - pieces.length)
}

/** Handles due timers, as many as keep the turn short. */
function tick(state: RegistryState): void {
  state.armedAt = Number.POSITIVE_INFINITY
  for (let left = state.policy.sliceSteps; left > 0; left -= 1) {
    const timer = state.timers.first
    if (timer === undefined || timer.at > state.now) return
    state.timers.clear(timer)
    state.work.done += 1
    const handle = timerHandlers[timer.kind] as (state: RegistryState, subject: unknown) => void
    handle(state, timer.subject)
  }
}

/** What happens when a timer is due. */
const timerHandlers: {
  readonly [Kind in RegistryTimer['kind']]: (
    state: RegistryState,
    subject: Extract<RegistryTimer, { kind: Kind }>['subject'],
  ) => void
} = {
  task: taskDue,
  grace: forceRelease,
  rest: rested,
  drain: drainDue,
  unsure: unsureDue,
  forget: forgetNode,
  publish: (state) => {
    state.tenants.sweep(state.policy.sliceSteps)
    state.publish()
  },
}
