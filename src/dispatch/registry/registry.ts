/**
 * The registry knows all nodes, all tasks, and which node has which task. Only the synchronous `apply` changes it. It
 * never waits, time comes with the command, and its random numbers come from a seed. So it needs no lock, and its
 * commands replay a run.
 *
 *   frames, claims, timers ─▶ mailbox ─▶ apply(command, now) ─▶ effects ─▶ frames, acks, timers
 */

import type { Asked } from '../matching/demand.ts'
import { continueRebuild, startRebuild } from '../matching/rebuild.ts'
import type { NodeView, PoolView, TaskView, Term } from '../node.ts'
import { handleAttemptFrame, handleRestEnd } from './attempts.ts'
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
} from './node-membership.ts'
import { handleLookupTimeout, handleOrphan } from './orphan-tasks.ts'
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

/** The sizes of the registry's parts. */
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

  /**
   * Applies a command, the only way to change the registry. Time never goes back: an earlier `now` counts as the
   * latest.
   */
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

  /** The work of the last command, in steps as `Work` counts them. */
  get lastSteps(): number {
    return this.#lastSteps
  }

  // The members below only read, and may be called between any two commands.

  /** Whether one more task of this tenant may wait: null, or the milliseconds after which to try again. */
  admission(tenant: string): number | null {
    return admission(this.#state, tenant)
  }

  /** How many tasks wait. */
  get waitingCount(): number {
    return this.#state.waitingCount
  }

  /** The waiting tasks by `TaskSpec.kind`. The cost grows with the kinds, not with the tasks. */
  waitingKinds(): Generator<WaitingKind> {
    return waitingByKind(this.#state)
  }

  /** The requirements of all tasks in the registry, by `TaskSpec.kind`. A kind may appear more than once. */
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

  /** All nodes as they were published when the caller began to iterate. */
  nodes(): Generator<NodeView> {
    return this.#state.nodes.published()
  }

  /** Rises when nodes are published. */
  get version(): number {
    return this.#state.version
  }

  /** The rules of the pools that are defined by name. */
  get rules(): ReadonlyMap<string, readonly Term[]> {
    return this.#state.rules
  }

  /** The pools that have nodes, and the pools that are defined by name. */
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

/** The handler of each command. */
const handlers: { readonly [Kind in CommandKind]: (state: RegistryState, command: CommandOf<Kind>) => void } =
  {
    accept: handleAttemptFrame,
    reject: handleAttemptFrame,
    progress: handleAttemptFrame,
    result: handleAttemptFrame,
    fail: handleAttemptFrame,
    orphan: handleOrphan,
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
  if (generation.hasManyEmptyPools && state.rebuild === null) startRebuild(state)
  if (steps > 0 && state.rebuild !== null) continueRebuild(state, state.rebuild, steps)
}

/** Ends up to `steps` attempts whose node was lost. Returns the steps that are left. */
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

/** Handles due timers, up to a limit that keeps the turn short. */
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

/** The handler of each timer. */
const timerHandlers: {
  readonly [Kind in RegistryTimer['kind']]: (
    state: RegistryState,
    subject: Extract<RegistryTimer, { kind: Kind }>['subject'],
  ) => void
} = {
  task: taskDue,
  grace: forceRelease,
  rest: handleRestEnd,
  drain: drainDue,
  lookup: handleLookupTimeout,
  forget: forgetNode,
  publish: (state) => {
    state.tenants.sweep(state.policy.sliceSteps)
    state.publish()
  },
}
