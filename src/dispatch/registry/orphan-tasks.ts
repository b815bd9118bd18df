/**
 * Compares what a node runs with what the registry knows of it. An orphan task found that way is a lease without a task:
 * work that is not this server's, and that takes the node's slots until it has stopped.
 *
 *   listed, unknown ─▶ closed for new work, looked up ─▶ orphan ─▶ not listed, ended, or out of time ─▶ free
 */

import { type Shape, shapeOf } from '../matching/demand.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import type { CommandOf } from './command.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease } from './task-entry.ts'
import { endAttempt, linger, orphanAttempt, releaseLease, reportDrained } from './task-lifecycle.ts'

/** Tasks that are not the node's own, spoken of per list of it; the others have their turn with the next. */
const maxTold = 64

/**
 * Mends the difference between the registry and the node. Assigns that the node had not received are not judged: a
 * heartbeat never takes back what was reserved after it.
 */
export function compareRunning(
  state: RegistryState,
  node: RegistryNode,
  running: readonly string[],
  upTo: number,
): void {
  const { foreignTasks } = node
  if (running.length === 0 && node.leases.size === 0 && foreignTasks.unsure.size === 0) {
    foreignTasks.clear()
    return
  }
  const listed = new Set(running)
  const own = forgetUnlisted(state, node, listed, upTo)
  foreignTasks.keep(listed)
  let left = maxTold
  for (const taskId of listed) {
    if (own.has(taskId)) continue
    const isKnown = foreignTasks.over.has(taskId) || node.leases.has(attemptKey(taskId, orphanAttempt))
    const task = isKnown ? undefined : state.tasks.get(taskId)
    if (task !== undefined) {
      // It has come here since it was asked about: the answer would make a second orphan, and leave the first one's timer behind.
      foreignTasks.resolve(taskId)
      holdOrphan(state, node, taskId, task.demand.shape)
    } else if (!isKnown) {
      foreignTasks.add(taskId)
    }
    if (left > 0) tell(state, node, taskId)
    left -= 1
  }
  settleUnsure(state, node)
}

/** Ends the attempts that the node should know of and does not; answers the tasks that it holds of this server. */
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
    const message = `Node "${nodeId}" does not know the task any more.`
    endAttempt(state, task, 'forgotten', { code: 'forgotten', message }, { by: { nodeId, epoch } })
  }
  return own
}

/** Starts the lookup of a foreign task; the answer goes to the node. */
function tell(state: RegistryState, node: RegistryNode, taskId: string): void {
  const { nodeId, epoch } = node
  node.foreignTasks.unasked.delete(taskId)
  if (state.tasks.has(taskId)) state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt: orphanAttempt })
  else state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt: orphanAttempt, said: 'running' })
}

/** Holds slots of a node for a task that it should not run. It was just asked to stop. */
function holdOrphan(state: RegistryState, node: RegistryNode, taskId: string, shape: Shape): void {
  const lease: Lease = {
    key: attemptKey(taskId, orphanAttempt),
    taskId,
    attempt: orphanAttempt,
    node,
    epoch: node.epoch,
    shape,
    // The node lists it, so it counts in the node's own figures.
    seq: 0,
    task: null,
    grace: null,
  }
  node.take(lease)
  linger(state, lease)
  state.refresh(node)
}

/** A task that a node lists was looked up. */
export function heardOrphan(state: RegistryState, said: CommandOf<'orphan'>): void {
  const { nodeId, epoch, taskId, uses } = said
  const node = state.nodes.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  const { foreignTasks } = node
  // The node has spoken since: it does not list the task any more, or said how it ended.
  if (!foreignTasks.resolve(taskId)) return
  if (uses === null) foreignTasks.end(taskId, node.totalSlots)
  else holdOrphan(state, node, taskId, shapeOf(uses))
  for (const next of foreignTasks.unasked) {
    tell(state, node, next)
    break
  }
  settleUnsure(state, node)
}

/** The node said that it has stopped working on a task, whatever the registry assumed. */
export function releaseOrphan(
  state: RegistryState,
  node: RegistryNode,
  taskId: string,
  lease: Lease | undefined,
): void {
  const { foreignTasks } = node
  const wasUnsure = foreignTasks.unsure.size > 0
  foreignTasks.end(taskId, node.totalSlots)
  const orphan = lease === undefined ? node.leases.get(attemptKey(taskId, orphanAttempt)) : undefined
  if (orphan !== undefined) releaseLease(state, orphan)
  if (wasUnsure) settleUnsure(state, node)
}

/** Closes a node while it is unknown how many of its slots are taken; opens it when that is known, or after a while. */
function settleUnsure(state: RegistryState, node: RegistryNode): void {
  const isUnsure = node.foreignTasks.unsure.size > 0
  const wasUnsure = node.unsureTimer.position >= 0
  if (isUnsure === wasUnsure) return
  if (isUnsure) {
    state.timers.set(node.unsureTimer, state.now + state.policy.cancelGraceMs)
    state.refresh(node)
    return
  }
  state.timers.clear(node.unsureTimer)
  state.refresh(node)
  state.freedNodes.add(node)
  reportDrained(state, node)
}

/** The lookup of a node's foreign tasks timed out: it gets work again. */
export function unsureDue(state: RegistryState, node: RegistryNode): void {
  const { nodeId, epoch, foreignTasks } = node
  state.report({ name: 'node.unanswered', nodeId, epoch, taskCount: foreignTasks.unsure.size })
  foreignTasks.giveUp()
  state.refresh(node)
  state.freedNodes.add(node)
  reportDrained(state, node)
}

/** More than this are not looked up: the size of a frame alone bounds the list of a node. */
const maxUnsure = 4_096
const maxOver = 256

/** Most nodes never have a foreign task: they share this empty set. */
const none: Set<string> = new Set()

/**
 * Tasks that a node lists and that hold no slots of it in the registry: it ran them for another server, or for this one
 * before a restart. The node gets no new work until the lookup says how many slots they take. Tasks that take none are
 * remembered, because the node lists them until it gets an answer.
 */
export class ForeignTasks {
  /** Looked up, no answer yet: the node is closed for new work. */
  unsure: Set<string> = none
  /** Those of `unsure` that were not asked about yet. */
  unasked: Set<string> = none
  /** The lookup timed out and the node was opened; an answer still counts. */
  unanswered: Set<string> = none
  /** They take no slots: the node reported their end, or their time to stop is over. */
  readonly over: LatestIds = new LatestIds()

  /** The node lists an unknown task. */
  add(taskId: string): void {
    if (this.unanswered.has(taskId) || this.unsure.has(taskId) || this.unsure.size >= maxUnsure) return
    this.unsure = withOne(this.unsure, taskId)
    this.unasked = withOne(this.unasked, taskId)
  }

  /** The answer came, or is no longer needed; false: it was not expected. */
  resolve(taskId: string): boolean {
    if (this.unsure.size === 0 && this.unanswered.size === 0) return false
    this.unasked.delete(taskId)
    return this.unsure.delete(taskId) || this.unanswered.delete(taskId)
  }

  /** It takes nothing of the node, whether listed or not; only the latest of them are remembered. */
  end(taskId: string, totalSlots: number): void {
    this.resolve(taskId)
    // As many as it may have ended just now without an answer yet.
    this.over.add(taskId, Math.min(maxOver, 16 + totalSlots))
  }

  /** The node lists these and no others. */
  keep(listed: ReadonlySet<string>): void {
    for (const set of [this.unsure, this.unasked, this.unanswered]) {
      for (const taskId of set) if (!listed.has(taskId)) set.delete(taskId)
    }
    this.over.keep(listed)
  }

  /** No answer came in time: nothing is held against the node any more. */
  giveUp(): void {
    for (const taskId of this.unsure) this.unanswered = withOne(this.unanswered, taskId)
    this.unsure.clear()
    this.unasked.clear()
  }

  clear(): void {
    for (const set of [this.unsure, this.unasked, this.unanswered, this.over]) set.clear()
  }
}

function withOne(set: Set<string>, taskId: string): Set<string> {
  return (set === none ? new Set<string>() : set).add(taskId)
}

/**
 * The latest of many ids. One is added with every task that ends, so it is a list that is cut now and then: a set from
 * which the eldest is deleted each time walks past the remains of those before it.
 */
class LatestIds {
  #ids: string[] = []
  #most = 0

  /** Remembers it, and forgets all but the `most` latest. */
  add(id: string, most: number): void {
    if (this.#ids.at(-1) === id) return
    this.#most = most
    this.#ids.push(id)
    if (this.#ids.length >= 2 * most) this.#ids.splice(0, this.#ids.length - most)
  }

  has(id: string): boolean {
    const index = this.#ids.lastIndexOf(id)
    return index >= 0 && index >= this.#ids.length - this.#most
  }

  /** Forgets all but these. */
  keep(ids: ReadonlySet<string>): void {
    if (this.#ids.length > 0) this.#ids = this.#ids.slice(-this.#most).filter((id) => ids.has(id))
  }

  clear(): void {
    if (this.#ids.length > 0) this.#ids = []
  }
}
