/**
 * Compares the tasks that a node runs with the tasks that the registry gave it. An orphan task is one that the node
 * runs and this server does not hold. The registry keeps a lease without a task for it: the lease takes slots until
 * the node stops it.
 *
 *   unknown task listed ─▶ node closed, task looked up ─▶ orphan ─▶ not listed, ended, or timed out ─▶ slots free
 */

import { type Shape, shapeOf } from '../matching/demand.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import type { CommandOf } from './command.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease } from './task-entry.ts'
import { endAttempt, linger, orphanAttempt, releaseLease, reportDrained } from './task-lifecycle.ts'

/** How many foreign tasks are handled per list of a node; the others follow with its next list. */
const maxPerList = 64

/**
 * Corrects the registry by a node's list. Assigns after `upTo` are skipped, because the node had not received them when
 * it made the list: a heartbeat never ends an attempt that began after it.
 */
export function compareRunning(
  state: RegistryState,
  node: RegistryNode,
  running: readonly string[],
  upTo: number,
): void {
  const { foreignTasks } = node
  if (running.length === 0 && node.leases.size === 0 && foreignTasks.pending.size === 0) {
    foreignTasks.clear()
    return
  }
  const listed = new Set(running)
  const own = forgetUnlisted(state, node, listed, upTo)
  foreignTasks.keep(listed)
  let left = maxPerList
  for (const taskId of listed) {
    if (own.has(taskId)) continue
    const isKnown = foreignTasks.ended.has(taskId) || node.leases.has(attemptKey(taskId, orphanAttempt))
    const task = isKnown ? undefined : state.tasks.get(taskId)
    if (task !== undefined) {
      // This server got the task after the lookup began. The answer would make a second orphan and leak the first
      // one's timer.
      foreignTasks.resolve(taskId)
      holdOrphan(state, node, taskId, task.demand.shape)
    } else if (!isKnown) {
      foreignTasks.add(taskId)
    }
    if (left > 0) startLookup(state, node, taskId)
    left -= 1
  }
  updateLookupTimer(state, node)
}

/** Ends the attempts that the node should list and does not. Returns the tasks of this server that the node holds. */
function forgetUnlisted(
  state: RegistryState,
  node: RegistryNode,
  listed: ReadonlySet<string>,
  upTo: number,
): ReadonlySet<string> {
  const { nodeId, epoch } = node
  const own = new Set<string>()
  for (const lease of [...node.leases.values()]) {
    const { task, taskId } = lease
    if (lease.seq > upTo || listed.has(taskId)) {
      if (lease.attempt !== orphanAttempt) own.add(taskId)
      continue
    }
    releaseLease(state, lease)
    if (task === null) continue
    task.lease = null
    const message = `Node "${nodeId}" no longer knows the task.`
    endAttempt(state, task, 'forgotten', { code: 'forgotten', message }, { by: { nodeId, epoch } })
  }
  return own
}

/** Starts the lookup of a foreign task; its answer goes to the node. */
function startLookup(state: RegistryState, node: RegistryNode, taskId: string): void {
  const { nodeId, epoch } = node
  node.foreignTasks.notStarted.delete(taskId)
  if (state.tasks.has(taskId)) state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt: orphanAttempt })
  else state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt: orphanAttempt, said: 'running' })
}

/** Holds slots of a node for a task that it should not run, and that it was just asked to stop. */
function holdOrphan(state: RegistryState, node: RegistryNode, taskId: string, shape: Shape): void {
  const lease: Lease = {
    key: attemptKey(taskId, orphanAttempt),
    taskId,
    attempt: orphanAttempt,
    node,
    epoch: node.epoch,
    shape,
    // The node lists the task, so its reported load includes it.
    seq: 0,
    task: null,
    grace: null,
  }
  node.take(lease)
  linger(state, lease)
  state.refresh(node)
}

/** Handles the answer to the lookup of a task that a node lists. */
export function handleOrphan(state: RegistryState, answer: CommandOf<'orphan'>): void {
  const { nodeId, epoch, taskId, uses } = answer
  const node = state.nodes.findLive(nodeId, epoch)
  if (node === undefined) return
  const { foreignTasks } = node
  // The node has sent a frame since: it no longer lists the task, or reported how the task ended.
  if (!foreignTasks.resolve(taskId)) return
  if (uses === null) foreignTasks.end(taskId, node.totalSlots)
  else holdOrphan(state, node, taskId, shapeOf(uses))
  for (const next of foreignTasks.notStarted) {
    startLookup(state, node, next)
    break
  }
  updateLookupTimer(state, node)
}

/** Frees the slots of an orphan task that the node has stopped. */
export function releaseOrphan(
  state: RegistryState,
  node: RegistryNode,
  taskId: string,
  lease: Lease | undefined,
): void {
  const { foreignTasks } = node
  const wasPending = foreignTasks.pending.size > 0
  foreignTasks.end(taskId, node.totalSlots)
  const orphan = lease === undefined ? node.leases.get(attemptKey(taskId, orphanAttempt)) : undefined
  if (orphan !== undefined) releaseLease(state, orphan)
  if (wasPending) updateLookupTimer(state, node)
}

/**
 * Closes a node while lookups of its foreign tasks are pending, and opens it after the last one. A timer limits that.
 */
function updateLookupTimer(state: RegistryState, node: RegistryNode): void {
  const isPending = node.foreignTasks.pending.size > 0
  const wasPending = node.lookupTimer.position >= 0
  if (isPending === wasPending) return
  if (isPending) {
    state.timers.set(node.lookupTimer, state.now + state.policy.cancelGraceMs)
    state.refresh(node)
    return
  }
  state.timers.clear(node.lookupTimer)
  state.freed(node)
  reportDrained(state, node)
}

/** The lookup of a node's foreign tasks timed out: opens the node for work again. */
export function handleLookupTimeout(state: RegistryState, node: RegistryNode): void {
  const { nodeId, epoch, foreignTasks } = node
  state.report({ name: 'node.unanswered', nodeId, epoch, taskCount: foreignTasks.pending.size })
  foreignTasks.giveUp()
  state.freed(node)
  reportDrained(state, node)
}

/** The most pending lookups of a node. Otherwise only the size of a frame limits a node's list. */
const maxPending = 4_096
const maxEnded = 256

/** Most nodes never have a foreign task: they share this empty set. */
const none: Set<string> = new Set()

/**
 * Tasks that a node lists and that hold no slots of it in the registry. The node ran them for another server, or for
 * this one before a restart. It gets no new work until the lookup tells how many slots they take. Tasks that take none
 * are remembered, because the node lists them until it gets an answer.
 */
export class ForeignTasks {
  /** Tasks whose lookup has no answer yet. While there are any, the node is closed for new work. */
  pending: Set<string> = none
  /** The tasks of `pending` whose lookup has not begun. */
  notStarted: Set<string> = none
  /** Tasks whose lookup timed out, so that the node was opened. A late answer still counts. */
  timedOut: Set<string> = none
  /** Tasks that take no slots: the node reported their end, or the time to stop them is over. */
  readonly ended: LatestIds = new LatestIds()

  /** The node lists an unknown task. */
  add(taskId: string): void {
    if (this.timedOut.has(taskId) || this.pending.has(taskId) || this.pending.size >= maxPending) return
    this.pending = withOne(this.pending, taskId)
    this.notStarted = withOne(this.notStarted, taskId)
  }

  /** Removes a task from the pending lookups. False: its lookup was not pending. */
  resolve(taskId: string): boolean {
    if (this.pending.size === 0 && this.timedOut.size === 0) return false
    this.notStarted.delete(taskId)
    return this.pending.delete(taskId) || this.timedOut.delete(taskId)
  }

  /** The task takes no slots of the node, listed or not. Only the latest such tasks are remembered. */
  end(taskId: string, totalSlots: number): void {
    this.resolve(taskId)
    // The node lists about as many ended tasks as it has slots until their answers arrive.
    this.ended.add(taskId, Math.min(maxEnded, 16 + totalSlots))
  }

  /** Forgets all tasks that the node does not list. */
  keep(listed: ReadonlySet<string>): void {
    for (const set of [this.pending, this.notStarted, this.timedOut]) {
      for (const taskId of set) if (!listed.has(taskId)) set.delete(taskId)
    }
    this.ended.keep(listed)
  }

  /** The lookups timed out: they no longer close the node. */
  giveUp(): void {
    for (const taskId of this.pending) this.timedOut = withOne(this.timedOut, taskId)
    this.pending.clear()
    this.notStarted.clear()
  }

  clear(): void {
    for (const set of [this.pending, this.notStarted, this.timedOut, this.ended]) set.clear()
  }
}

function withOne(set: Set<string>, taskId: string): Set<string> {
  return (set === none ? new Set<string>() : set).add(taskId)
}

/**
 * The latest ids of many. Every task that ends adds one, so this is a list that is cut now and then. A set would be
 * slow: to delete its oldest entry, it walks past the remains of all deleted ones.
 */
class LatestIds {
  #ids: string[] = []
  #limit = 0

  /** Remembers an id, and forgets all but the latest `limit`. */
  add(id: string, limit: number): void {
    if (this.#ids.at(-1) === id) return
    this.#limit = limit
    this.#ids.push(id)
    if (this.#ids.length >= 2 * limit) this.#ids.splice(0, this.#ids.length - limit)
  }

  has(id: string): boolean {
    const index = this.#ids.lastIndexOf(id)
    return index >= 0 && index >= this.#ids.length - this.#limit
  }

  /** Forgets all but these. */
  keep(ids: ReadonlySet<string>): void {
    if (this.#ids.length > 0) this.#ids = this.#ids.slice(-this.#limit).filter((id) => ids.has(id))
  }

  clear(): void {
    if (this.#ids.length > 0) this.#ids = []
  }
}
