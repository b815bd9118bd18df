/** What nodes say about attempts. Only the node instance that holds an attempt is listened to; others hear `stale`. */

import type { FleetNode } from '../matching/fleet-node.ts'
import { enterQueue } from '../waiting/waiting.ts'
import type { Command, OfAttempt } from './command.ts'
import { endAttempt, settle } from './ending.ts'
import { releaseLease } from './leases.ts'
import { releaseOrphan } from './orphan-tasks.ts'
import { place } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import { rest } from './resting.ts'
import { attemptKey, type Lease, type TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

type Of<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>
type Word = Of<'accept' | 'reject' | 'progress' | 'result' | 'fail'>

/** Why a node turns work away without being at fault: it is full, it leaves, it lacks something just now. */
const excuses: ReadonlySet<string> = new Set(['busy', 'draining', 'missing'])

/** The node of that connection, if it may speak; a suspect one is well again by speaking. */
export function hear(state: RegistryState, nodeId: string, epoch: number): FleetNode | null {
  const node = state.fleet.find(nodeId)
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
    state.tell({ name: 'node.ready', nodeId, epoch, resumed: true })
  }
  return node
}

/** A node's word about an attempt. */
export function heardAttempt(state: RegistryState, word: Word): void {
  const { nodeId, epoch, taskId, attempt } = word
  const node = hear(state, nodeId, epoch)
  const lease = node?.leases.get(attemptKey(taskId, attempt))
  const stopped = word.kind === 'result' || word.kind === 'fail' || word.kind === 'reject'
  if (node !== null && stopped) releaseOrphan(state, node, taskId, lease)
  const task = lease?.task ?? null
  if (lease === undefined || task === null) {
    if (lease !== undefined && stopped) releaseLease(state, lease)
    answerStale(state, word, lease)
    return
  }
  switch (word.kind) {
    case 'accept':
      began(state, task, lease)
      return
    case 'progress':
      began(state, task, lease)
      state.emit({ kind: 'progress', taskId, attempt, percent: word.percent, note: word.note })
      return
    case 'reject':
      rejected(state, task, lease, word)
      return
    case 'result':
      releaseLease(state, lease)
      task.lease = null
      settle(state, task, 'completed', { output: word.output, by: { nodeId, epoch } })
      return
    case 'fail':
      failed(state, task, lease, word)
  }
}

/** The word is about an attempt that is not the speaker's, or no longer. */
function answerStale(state: RegistryState, word: Word, lease: Lease | undefined): void {
  const { nodeId, epoch, taskId, attempt } = word
  if (lease !== undefined || state.tasks.has(taskId)) {
    state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt })
  } else {
    state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt, said: word.kind })
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

function rejected(state: RegistryState, task: TaskEntry, lease: Lease, word: Of<'reject'>): void {
  const { node } = lease
  const { nodeId, epoch, reason } = word
  task.rejects += 1
  if (!excuses.has(reason) || task.rejects > state.policy.maxRejects) {
    releaseLease(state, lease)
    task.lease = null
    const error = { code: 'rejected', message: `Node "${nodeId}" rejected the task: ${reason}` }
    endAttempt(state, task, 'rejected', error, { by: { nodeId, epoch }, afterMs: backoffMs(state, word) })
    return
  }
  // The service rests on that node for all tasks: the next one would be rejected too. No attempt is spent.
  rest(state, node, task.spec.service, word.retryAfterMs ?? state.policy.restMs)
  releaseLease(state, lease)
  task.lease = null
  if (!place(state, task)) enterQueue(state, task)
}

function failed(state: RegistryState, task: TaskEntry, lease: Lease, word: Of<'fail'>): void {
  const by = { nodeId: word.nodeId, epoch: word.epoch }
  releaseLease(state, lease)
  task.lease = null
  if (!word.retryable) settle(state, task, 'failed', { error: word.error, by })
  else endAttempt(state, task, 'failed', word.error, { by, afterMs: backoffMs(state, word) })
}

function backoffMs({ policy }: RegistryState, { attempt }: OfAttempt): number {
  return Math.min(60_000, policy.retryInMs * 2 ** Math.min(attempt - 1, 20))
}
