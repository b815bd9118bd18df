/**
 * Handles frames of nodes about attempts. Only the node instance that holds the attempt may report on it; others get
 * `stale`.
 */

import type { RegistryNode } from '../matching/node-table.ts'
import type { AttemptFrame, CommandOf, OfAttempt } from './command.ts'
import { releaseOrphan } from './orphan-tasks.ts'
import { enterQueue, place } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease, setTaskTimer, type TaskEntry } from './task-entry.ts'
import { endAttempt, releaseLease, settle } from './task-lifecycle.ts'

/** A rejection for one of these reasons fails no attempt: the node is full, is leaving, or lacks something for now. */
const temporaryReasons: ReadonlySet<string> = new Set(['busy', 'draining', 'missing'])

/**
 * Finds the node that sent a frame; null: the frame is ignored. A suspect node that sends a frame becomes ready
 * again.
 */
export function findSender(state: RegistryState, nodeId: string, epoch: number): RegistryNode | null {
  const node = state.nodes.find(nodeId)
  if (node === undefined || epoch > node.epoch || (epoch === node.epoch && node.status === 'gone')) {
    state.emit({ kind: 'unknownNode', nodeId, epoch })
    return null
  }
  if (epoch < node.epoch) {
    state.emit({ kind: 'superseded', nodeId, epoch, instanceId: null })
    return null
  }
  node.seenAt = state.now
  if (node.status === 'suspect') {
    node.status = 'ready'
    state.reopen(node)
    state.report({ name: 'node.ready', nodeId, epoch, resumed: true })
  }
  return node
}

/** Handles a frame about an attempt. */
export function handleAttemptFrame(state: RegistryState, frame: AttemptFrame): void {
  const { nodeId, epoch, taskId, attempt } = frame
  const node = findSender(state, nodeId, epoch)
  const lease = node?.leases.get(attemptKey(taskId, attempt))
  const stopped = frame.kind === 'result' || frame.kind === 'fail' || frame.kind === 'reject'
  if (node !== null && stopped) releaseOrphan(state, node, taskId, lease)
  const task = lease?.task ?? null
  if (lease === undefined || task === null) {
    if (lease !== undefined && stopped) releaseLease(state, lease)
    answerStale(state, frame, lease)
    return
  }
  switch (frame.kind) {
    case 'accept':
      markRunning(state, task, lease)
      return
    case 'progress':
      markRunning(state, task, lease)
      state.emit({ kind: 'progress', taskId, attempt, percent: frame.percent, note: frame.note })
      return
    case 'reject':
      handleReject(state, task, lease, frame)
      return
    case 'result':
      takeBack(state, task, lease)
      settle(state, task, 'completed', { output: frame.output, by: { nodeId, epoch } })
      return
    case 'fail':
      handleFail(state, task, lease, frame)
  }
}

/** Answers a frame about an attempt that the node does not hold. */
function answerStale(state: RegistryState, frame: AttemptFrame, lease: Lease | undefined): void {
  const { nodeId, epoch, taskId, attempt } = frame
  if (lease !== undefined || state.tasks.has(taskId)) {
    state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt })
  } else {
    state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt, said: frame.kind })
  }
}

function markRunning(state: RegistryState, task: TaskEntry, { node, taskId, attempt }: Lease): void {
  const { idleMs } = task.spec
  task.answerBy = idleMs === null ? Number.POSITIVE_INFINITY : state.now + idleMs
  setTaskTimer(state, task)
  if (task.status === 'running') return
  task.status = 'running'
  task.since = state.now
  state.emit({ kind: 'taskChanged', status: 'running', taskId, attempt, nodeId: node.nodeId })
}

function handleReject(state: RegistryState, task: TaskEntry, lease: Lease, frame: CommandOf<'reject'>): void {
  const { node } = lease
  const { nodeId, epoch, reason } = frame
  task.rejects += 1
  if (!temporaryReasons.has(reason) || task.rejects > state.policy.maxRejects) {
    takeBack(state, task, lease)
    const error = { code: 'rejected', message: `Node "${nodeId}" rejected the task: ${reason}` }
    endAttempt(state, task, 'rejected', error, { by: { nodeId, epoch }, afterMs: retryDelayMs(state, frame) })
    return
  }
  // The node gets no task for this service for a while, because it would reject the next one too. No attempt is spent.
  restService(state, node, task.spec.service, frame.retryAfterMs ?? state.policy.restMs)
  takeBack(state, task, lease)
  if (!place(state, task)) enterQueue(state, task)
}

function handleFail(state: RegistryState, task: TaskEntry, lease: Lease, frame: CommandOf<'fail'>): void {
  const by = { nodeId: frame.nodeId, epoch: frame.epoch }
  takeBack(state, task, lease)
  if (!frame.retryable) settle(state, task, 'failed', { error: frame.error, by })
  else endAttempt(state, task, 'failed', frame.error, { by, afterMs: retryDelayMs(state, frame) })
}

/** Frees the slots of an attempt that its node has ended. */
function takeBack(state: RegistryState, task: TaskEntry, lease: Lease): void {
  releaseLease(state, lease)
  task.lease = null
}

function retryDelayMs({ policy }: RegistryState, { attempt }: OfAttempt): number {
  return Math.min(60_000, policy.retryInMs * 2 ** Math.min(attempt - 1, 20))
}

/** The longest rest that a node may ask for. */
const longestRestMs = 3_600_000

/** Rests a service on a node that rejected a task: the node gets no task for the service until the rest ends. */
export function restService(state: RegistryState, node: RegistryNode, service: string, forMs: number): void {
  const at = node.serviceIndex(service)
  if (at < 0) return
  node.restsUntil[at] = state.now + Math.min(Math.max(forMs, 1), longestRestMs)
  if (node.restTimer.position < 0 || node.restTimer.at > node.restsUntil[at]) {
    state.timers.set(node.restTimer, node.restsUntil[at])
  }
  state.reopen(node)
}

/** Handles the end of a rest. Sets the timer for the node's next one. */
export function handleRestEnd(state: RegistryState, node: RegistryNode): void {
  state.reopen(node)
  const next = Math.min(...node.restsUntil.filter((at) => at > state.now))
  if (next !== Number.POSITIVE_INFINITY) state.timers.set(node.restTimer, next)
}
