/**
 * Serves waiting tasks: chooses the next task for a node with free slots, and keeps nodes free for tasks that need
 * many.
 */

import { choose } from '../matching/choose-node.ts'
import type { Asked, Demand } from '../matching/demand.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import type { CommandOf } from './command.ts'
import { assign, releaseHold } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import type { TaskEntry } from './task-entry.ts'
import { drop } from './task-lifecycle.ts'
import type { WaitEntry } from './wait-queue.ts'

const noPreferences = { sticky: undefined, shunned: null }

/** Assigns waiting tasks to this node, one after the other, until the step `until`. Later slices assign the rest. */
export function serve(state: RegistryState, node: RegistryNode, until: number): void {
  while (state.waitingCount > 0 && node.foreignTasks.pending.size === 0) {
    if (state.work.done >= until) {
      state.freedNodes.add(node)
      return
    }
    const held = node.heldFor
    if (held !== null) {
      if (!meets(state, node, held.demand)) {
        releaseHold(state, held)
        return
      }
      if (!node.fits(held.demand.shape)) return
      serveEntry(state, held.entry!, node)
      continue
    }
    if (!node.open) return
    const entry = nextEntryFor(state, node)
    if (entry === null) return
    if (!node.fits(entry.task.demand.shape)) {
      holdNode(state, entry.task, node)
      return
    }
    serveEntry(state, entry, node)
  }
}

/** Whether a node still meets a demand: pool rules may have changed. */
function meets(state: RegistryState, node: RegistryNode, demand: Demand): boolean {
  const membership = state.generation.membershipOf(node)
  const view = state.view(demand)
  return membership !== null && !view.needsRebuild && view.check(membership.pool.profile)
}

function serveEntry(state: RegistryState, entry: WaitEntry, node: RegistryNode): void {
  const { tenants, now } = state
  state.work.done += 1
  tenants.serve(entry.tenant, entry.task.demand.shape.total)
  state.msPerWake += (Math.min(10_000, now - state.lastWakeAt) - state.msPerWake) / 16
  state.lastWakeAt = now
  assign(state, entry.task, node)
}

/**
 * The next entry of all wait queues that match the node's pool. It fits, or it waited so long that the node is kept
 * free.
 */
function nextEntryFor(state: RegistryState, node: RegistryNode): WaitEntry | null {
  const { generation, policy, now } = state
  const membership = generation.membershipOf(node)
  if (membership === null) return null
  let best: WaitEntry | null = null
  for (const row of membership.pool.rows) {
    state.work.small(1 + row.matches.length)
    const hasCapacity = (membership.bucket[row.number] ?? -1) >= 0
    for (const { view } of row.matches) {
      const { waitQueue, shape } = view.demand
      if (waitQueue.size === 0) continue
      state.work.small(1)
      const entry = waitQueue.peek(now, policy.ageMs)!
      if (!hasCapacity && !mayHold(state, entry, node, shape)) continue
      if (best === null || isBefore(entry, best)) best = entry
    }
  }
  return best
}

function mayHold(
  state: RegistryState,
  entry: WaitEntry,
  node: RegistryNode,
  shape: Demand['shape'],
): boolean {
  const { policy, now, holdCount, nodes } = state
  if (now - entry.since < policy.holdAfterMs || entry.task.heldNode !== null) return false
  return holdCount < Math.max(1, nodes.size >> 3) && node.couldFit(shape)
}

function isBefore(a: WaitEntry, b: WaitEntry): boolean {
  if (a.level !== b.level) return a.level > b.level
  if (a.tenant.pass !== b.tenant.pass) return a.tenant.pass < b.tenant.pass
  return a.since < b.since
}

/**
 * Keeps a node free for a task that needs many slots. Otherwise other tasks would take each slot as it becomes free.
 */
function holdNode(state: RegistryState, task: TaskEntry, node: RegistryNode): void {
  task.heldNode = node
  node.heldFor = task
  state.holdCount += 1
  state.refresh(node)
  state.report({ name: 'node.held', nodeId: node.nodeId, taskId: task.spec.taskId })
}

/**
 * Serves waiting tasks on the nodes with newly free slots, for up to `steps` steps. Returns the steps that are left.
 */
export function serveFreedNodes(state: RegistryState, steps: number): number {
  const until = state.work.done + steps
  for (const node of state.freedNodes) {
    if (state.work.done >= until) break
    state.freedNodes.delete(node)
    state.work.small(1)
    serve(state, node, until)
  }
  return Math.max(0, until - state.work.done)
}

/** Tries waiting tasks with all pools after a rebuild, for up to `steps` steps. Returns the steps that are left. */
export function wake(state: RegistryState, steps: number): number {
  const { work, toWake } = state
  const until = work.done + steps
  for (const demand of toWake) {
    for (;;) {
      if (work.done >= until) return 0
      work.done += 1
      const node = demand.waitQueue.size === 0 ? null : chooseNodeFor(state, demand)
      if (node === null) break
      serve(state, node, until)
    }
    toWake.delete(demand)
  }
  return Math.max(0, until - work.done)
}

function chooseNodeFor(state: RegistryState, demand: Demand): RegistryNode | null {
  return choose(state.generation, state.view(demand), noPreferences, state.random, state.policy)
}

/** The waiting tasks of one `TaskSpec.kind`. */
export interface WaitingKind {
  readonly kind: string
  readonly waiting: number
  /** The approximate time at which the oldest was submitted. */
  readonly oldestAt: number
  /** A node of this server has free slots for one, or matching has not finished. */
  readonly hasCapacity: boolean
  /** The requirements of each of these tasks. */
  readonly asked: Asked
}

/** Begins to hand tasks of a kind back. Replaces an earlier unfinished request. */
export function yieldWaiting(state: RegistryState, { demand: kind, count }: CommandOf<'yield'>): void {
  if (count > 0) state.yields.set(kind, count)
  else state.yields.delete(kind)
  continueYields(state, state.policy.sliceSteps)
}

/** Continues to hand tasks back, for up to `steps` steps. Returns the steps that are left. */
export function continueYields(state: RegistryState, steps: number): number {
  let left = steps
  for (const [kind, count] of state.yields) {
    let wanted = count
    while (wanted > 0 && left > 0) {
      const entry = lastEntryOf(state, kind)
      if (entry === null) break
      const { taskId, attempt } = entry.task.spec
      drop(state, entry.task)
      state.emit({ kind: 'handBack', taskId, attempt })
      wanted -= 1
      left -= 1
      state.work.done += 1
    }
    if (left > 0 || wanted === 0) state.yields.delete(kind)
    else state.yields.set(kind, wanted)
    if (left === 0) break
  }
  return left
}

/** The entry of a kind that would be served last. */
function lastEntryOf({ waitingKinds, now, policy }: RegistryState, kind: string): WaitEntry | null {
  let last: WaitEntry | null = null
  let left = policy.maxPoolsScanned
  for (const { waitQueue } of waitingKinds.get(kind) ?? noDemands) {
    const entry = waitQueue.peekLast(now, policy.ageMs)
    if (entry !== null && (last === null || isAfter(entry, last))) last = entry
    left -= 1
    if (left === 0) break
  }
  return last
}

const noDemands: ReadonlySet<Demand> = new Set()

function isAfter(a: WaitEntry, b: WaitEntry): boolean {
  return a.level === b.level ? a.levelSince > b.levelSince : a.level < b.level
}

/** The waiting tasks by kind. */
export function* waitingByKind({ waitingKinds, generation }: RegistryState): Generator<WaitingKind> {
  for (const [kind, demands] of waitingKinds) {
    let waiting = 0
    let oldestAt = Number.POSITIVE_INFINITY
    let hasCapacity = false
    let asked: Asked | undefined
    for (const demand of demands) {
      waiting += demand.waitQueue.size
      oldestAt = Math.min(oldestAt, demand.waitQueue.oldestAt)
      hasCapacity ||= generation.mayHaveCapacity(demand)
      asked ??= demand.asked
    }
    if (asked !== undefined) yield { kind, waiting, oldestAt, hasCapacity, asked }
  }
}
