/**
 * The life of a node: it connects, resumes, is taken over, reports, falls silent, leaves. Operators drain and cordon
 * it.
 */

import { noLoad, type RegistryNode } from '../matching/node-table.ts'
import { startRebuild } from '../matching/rebuild.ts'
import type { Labels, ServiceOffer } from '../node.ts'
import { findSender } from './attempts.ts'
import type { CommandOf, Heartbeat, NodeHello } from './command.ts'
import { compareRunning } from './orphan-tasks.ts'
import { releaseHold } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import { endAttempt, linger, reportDrained, voidLeases } from './task-lifecycle.ts'

/** How many former instances the registry remembers per node. */
const maxPast = 8

/** Handles the hello of a node. */
export function hello(state: RegistryState, frame: NodeHello): void {
  const { nodeId, instanceId } = frame
  const node = state.nodes.find(nodeId)
  if (node === undefined) {
    startInstance(state, state.nodes.add(nodeId, instanceId, frame.epoch), frame)
  } else if (node.past.includes(instanceId)) {
    state.emit({ kind: 'superseded', nodeId, epoch: node.epoch, instanceId })
  } else if (node.instanceId === instanceId && node.status !== 'gone') {
    resume(state, node, frame)
  } else {
    takeOver(state, node, frame)
  }
}

function startInstance(state: RegistryState, node: RegistryNode, frame: NodeHello): void {
  const { nodeId, epoch } = node
  node.status = 'ready'
  node.joinedAt = state.now
  node.seenAt = state.now
  node.seq = 0
  node.countedSeq = 0
  node.draining = frame.isDraining === true
  node.vetoed = false
  node.load = noLoad
  node.reported = 0
  node.restsUntil = []
  node.services = []
  node.offer(frame.services)
  node.labels = frame.labels
  state.timers.clear(node.forgetTimer)
  state.timers.clear(node.drainTimer)
  state.emit({ kind: 'welcome', nodeId, epoch, resumed: false })
  state.report({ name: 'node.ready', nodeId, epoch, resumed: false })
  state.join(node)
  if (frame.running !== null) compareRunning(state, node, frame.running, 0)
}

function takeOver(state: RegistryState, node: RegistryNode, frame: NodeHello): void {
  const { nodeId, epoch, instanceId } = node
  if (instanceId !== frame.instanceId) {
    node.past.push(instanceId)
    if (node.past.length > maxPast) node.past.shift()
  }
  if (node.status !== 'gone') {
    state.emit({ kind: 'superseded', nodeId, epoch, instanceId: null })
    state.report({ name: 'node.superseded', nodeId, epoch })
    depart(state, node, 'superseded', `Another instance of node "${nodeId}" took over.`)
  }
  node.instanceId = frame.instanceId
  node.epoch = Math.max(epoch + 1, frame.epoch)
  startInstance(state, node, frame)
}

function resume(state: RegistryState, node: RegistryNode, frame: NodeHello): void {
  const { nodeId, epoch } = node
  node.status = 'ready'
  node.seenAt = state.now
  // A new connection counts its assigns from one. For earlier assigns, the list of the tasks that the node knows
  // decides.
  node.seq = 0
  node.countedSeq = 0
  for (const lease of node.leases.values()) lease.seq = 0
  node.recount()
  state.emit({ kind: 'welcome', nodeId, epoch, resumed: true })
  state.report({ name: 'node.ready', nodeId, epoch, resumed: true })
  if (node.draining) state.emit({ kind: 'drainFrame', nodeId, epoch })
  changeOffer(state, node, frame.services, frame.labels)
  for (const lease of [...node.leases.values()]) {
    if (lease.task !== null || lease.grace === null) continue
    state.timers.clear(lease.grace)
    linger(state, lease)
  }
  if (frame.running === null) return
  // The node may have been at another server meanwhile, and may have got a task there that it had ended here.
  node.foreignTasks.ended.clear()
  compareRunning(state, node, frame.running, 0)
}

/** Changes the offer of a node that stays connected. */
export function update(
  state: RegistryState,
  { nodeId, epoch, services, labels }: CommandOf<'nodeUpdate'>,
): void {
  const node = findSender(state, nodeId, epoch)
  if (node !== null) changeOffer(state, node, services ?? node.services, labels ?? node.labels)
}

function changeOffer(
  state: RegistryState,
  node: RegistryNode,
  services: readonly ServiceOffer[],
  labels: Labels,
): void {
  if (node.heldFor !== null) releaseHold(state, node.heldFor)
  state.leave(node)
  node.offer(services)
  node.labels = labels
  state.join(node)
}

/** Handles a node's report of its load and its tasks. */
export function heartbeat(state: RegistryState, frame: Heartbeat): void {
  const node = findSender(state, frame.nodeId, frame.epoch)
  if (node === null) return
  const wasVetoed = node.vetoed
  if (frame.load !== null) node.report(frame.load, state.policy)
  if (frame.countedSeq !== null) node.counted(frame.countedSeq)
  if (frame.running !== null && frame.countedSeq !== null) {
    compareRunning(state, node, frame.running, node.countedSeq)
  }
  state.refresh(node)
  if (wasVetoed && !node.vetoed) state.freedNodes.add(node)
}

/** Gives a node no new work until it sends a frame: its socket closed, or it fell silent. */
export function suspect(state: RegistryState, { nodeId, epoch, reason }: CommandOf<'nodeSuspect'>): void {
  const node = state.nodes.findLive(nodeId, epoch)
  if (node?.status !== 'ready') return
  node.status = 'suspect'
  if (node.heldFor !== null) releaseHold(state, node.heldFor)
  state.refresh(node)
  state.report({ name: 'node.suspect', nodeId, epoch, reason })
}

/**
 * Ends a dead node: its tasks continue on other nodes. It is remembered for `keepMs`, so that late frames are
 * recognised.
 */
export function gone(state: RegistryState, { nodeId, epoch, reason }: CommandOf<'nodeGone'>): void {
  const node = state.nodes.findLive(nodeId, epoch)
  if (node === undefined) return
  depart(state, node, 'node_lost', `Node "${nodeId}" was lost: ${reason}`)
  state.report({ name: 'node.gone', nodeId, epoch, reason })
  state.timers.set(node.forgetTimer, state.now + state.policy.keepMs)
}

const leaveReasons = {
  node_lost: ['bye', 'said goodbye'],
  moved: ['connected to another server', 'connected to another server'],
  superseded: ['taken over at another server', 'was taken over by another instance at another server'],
} as const

/** Ends a node that left, or that connected to another server. */
export function bye(state: RegistryState, { nodeId, epoch, elsewhere }: CommandOf<'nodeBye'>): void {
  const node = state.nodes.findLive(nodeId, epoch)
  if (node === undefined) return
  const [reason, message] = leaveReasons[elsewhere ?? 'node_lost']
  depart(state, node, elsewhere ?? 'node_lost', `Node "${nodeId}" ${message}.`)
  state.report({ name: 'node.gone', nodeId, epoch, reason })
  forgetNode(state, node)
}

/** Takes a node out of the registry. */
export function forgetNode(state: RegistryState, node: RegistryNode): void {
  stopTimers(state, node)
  state.timers.clear(node.forgetTimer)
  state.nodes.remove(node)
  state.emit({ kind: 'nodeForgotten', nodeId: node.nodeId, epoch: node.epoch })
}

function depart(
  state: RegistryState,
  node: RegistryNode,
  code: 'node_lost' | 'superseded' | 'moved',
  message: string,
): void {
  node.status = 'gone'
  if (node.heldFor !== null) releaseHold(state, node.heldFor)
  stopTimers(state, node)
  node.foreignTasks.clear()
  node.open = false
  state.leave(node)
  voidLeases(state, node, code, message)
}

function stopTimers({ timers }: RegistryState, { restTimer, drainTimer, lookupTimer }: RegistryNode): void {
  for (const timer of [restTimer, drainTimer, lookupTimer]) timers.clear(timer)
}

/** Gives a node no new work. Its tasks may run until the deadline, if there is one. */
export function drain(
  state: RegistryState,
  { nodeId, on, deadlineAt, epoch: only }: CommandOf<'drain'>,
): void {
  const node = state.nodes.find(nodeId)
  if (node === undefined || node.status === 'gone') return
  const { epoch } = node
  if (only !== undefined && only !== epoch) return
  state.timers.clear(node.drainTimer)
  node.draining = on
  if (!on) {
    state.reopen(node)
    return
  }
  if (node.heldFor !== null) releaseHold(state, node.heldFor)
  state.refresh(node)
  state.emit({ kind: 'drainFrame', nodeId, epoch })
  reportDrained(state, node)
  if (node.leases.size > 0 && deadlineAt !== null) state.timers.set(node.drainTimer, deadlineAt)
}

/** The drain's deadline passed: running tasks that have an attempt left continue on other nodes. */
export function drainDue(state: RegistryState, node: RegistryNode): void {
  const message = `Node "${node.nodeId}" was drained before the task ended.`
  for (const { task } of [...node.leases.values()]) {
    if (task === null || !task.spec.retryable || task.spec.attempt >= task.spec.maxAttempts) continue
    endAttempt(state, task, 'drained', { code: 'drained', message })
  }
}

/** Closes or opens a node, or one service of it, for new work. A cordon lasts while the node is away. */
export function cordon(state: RegistryState, { nodeId, service, on }: CommandOf<'cordon'>): void {
  state.nodes.cordon(nodeId, service ?? '', on)
  const node = state.nodes.find(nodeId)
  if (node === undefined || node.status === 'gone') return
  state.reopen(node)
  const held = node.heldFor
  if (held !== null && (node.cordoned || !node.couldFit(held.demand.shape))) releaseHold(state, held)
}

/** Gives a pool its rule. The same rule again changes nothing. */
export function definePool(state: RegistryState, { name, requires }: CommandOf<'definePool'>): void {
  const known = state.rules.get(name)
  if (known !== undefined && JSON.stringify(known) === JSON.stringify(requires)) return
  state.rules.set(name, requires)
  startRebuild(state)
}

/** Removes a pool, if it is defined. */
export function removePool(state: RegistryState, { name }: CommandOf<'removePool'>): void {
  if (state.rules.delete(name)) startRebuild(state)
}
