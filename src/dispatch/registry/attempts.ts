/** Frames of nodes about attempts. Only the node instance that holds the attempt counts; others get `stale`. */

import type { RegistryNode } from '../matching/node-table.ts'
import type { AttemptFrame, CommandOf, OfAttempt } from './command.ts'
import { releaseOrphan } from './orphan-tasks.ts'
import { enterQueue, place } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease, setTaskTimer, type TaskEntry } from './task-entry.ts'
import { endAttempt, releaseLease, settle } from './task-lifecycle.ts'

/** Reasons for which a node rejects a task without a failed attempt: it is full, it leaves, it lacks something just now. */
const excuses: ReadonlySet<string> = new Set(['busy', 'draining', 'missing'])

/** Finds the node of that connection; null: its frames do not count. A suspect node that sends a frame is ready again. */
export function hear(state: RegistryState, nodeId: string, epoch: number): RegistryNode | null {
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

/** A node sent a frame about an attempt. */
export function heardAttempt(state: RegistryState, frame: AttemptFrame): void {
  const { nodeId, epoch, taskId, attempt } = frame
  const node = hear(state, nodeId, epoch)
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
      began(state, task, lease)
      return
    case 'progress':
      began(state, task, lease)
      state.emit({ kind: 'progress', taskId, attempt, percent: frame.percent, note: frame.note })
      return
    case 'reject':
      rejected(state, task, lease, frame)
      return
    case 'result':
      releaseLease(state, lease)
      task.lease = null
      settle(state, task, 'completed', { output: frame.output, by: { nodeId, epoch } })
      return
    case 'fail':
      failed(state, task, lease, frame)
  }
}

/** The frame is about an attempt that is not, or no longer, the node's. */
function answerStale(state: RegistryState, frame: AttemptFrame, lease: Lease | undefined): void {
  const { nodeId, epoch, taskId, attempt } = frame
  if (lease !== undefined || state.tasks.has(taskId)) {
    state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt })
  } else {
    state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt, said: frame.kind })
  }
}

function began(state: RegistryState, task: TaskEntry, { node, taskId, attempt }: Lease): void {
  const { idleMs } = task.spec
  task.answerBy = idleMs === null ? Number.POSITIVE_INFINITY : state.now + idleMs
  setTaskTimer(state, task)
  if (task.status === 'running') return
  task.status = 'running'
  task.since = state.now
  state.emit({ kind: 'taskChanged', status: 'running', taskId, attempt, nodeId: node.nodeId })
}

function rejected(state: RegistryState, task: TaskEntry, lease: Lease, frame: CommandOf<'reject'>): void {
  const { node } = lease
  const { nodeId, epoch, reason } = frame
  task.rejects += 1
  if (!excuses.has(reason) || task.rejects > state.policy.maxRejects) {
    releaseLease(state, lease)
    task.lease = null
    const error = { code: 'rejected', message: `Node "${nodeId}" rejected the task: ${reason}` }
    endAttempt(state, task, 'rejected', error, { by: { nodeId, epoch }, afterMs: backoffMs(state, frame) })
    return
  }
  // The service rests on that node for all tasks: the next one would be rejected too. No attempt is spent.
  rest(state, node, task.spec.service, frame.retryAfterMs ?? state.policy.restMs)
  releaseLease(state, lease)
  task.lease = null
  if (!place(state, task)) enterQueue(state, task)
}

function failed(state: RegistryState, task: TaskEntry, lease: Lease, frame: CommandOf<'fail'>): void {
  const by = { nodeId: frame.nodeId, epoch: frame.epoch }
  releaseLease(state, lease)
  task.lease = null
  if (!frame.retryable) settle(state, task, 'failed', { error: frame.error, by })
  else endAttempt(state, task, 'failed', frame.error, { by, afterMs: backoffMs(state, frame) })
}

function backoffMs({ policy }: RegistryState, { attempt }: OfAttempt): number {
  return Math.min(60_000, policy.retryInMs * 2 ** Math.min(attempt - 1, 20))
}

/** The longest rest that a node may ask for. */
const longestRestMs = 3_600_000

/** Sends no task for the service to this node for a while: the node turned one away. */
export function rest(state: RegistryState, node: RegistryNode, service: string, forMs: number): void {
  const at = node.serviceIndex(service)
  if (at < 0) return
  node.restsUntil[at] = state.now + Math.min(Math.max(forMs, 1), longestRestMs)
  if (node.restTimer.position < 0 || node.restTimer.at > node.restsUntil[at]) {
    state.timers.set(node.restTimer, node.restsUntil[at])
  }
  state.reopen(node)
}

/** A rest is over. Sets the timer for the next one of that node. */
export function rested(state: RegistryState, node: RegistryNode): void {
  state.reopen(node)
  const next = Math.min(...node.restsUntil.filter((at) => at > state.now))
  if (next !== Number.POSITIVE_INFINITY) state.timers.set(node.restTimer, next)
}
