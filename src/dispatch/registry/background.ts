/** What is done piece by piece, and what is done when its time has come. */

import { continueRebuild, startRebuild } from '../matching/rebuild.ts'
import { serveFreedNodes, wake } from '../waiting/serve-waiting.ts'
import { continueYields } from '../waiting/yield-waiting.ts'
import { drainDue } from './administration.ts'
import { endAttempt } from './ending.ts'
import { forceRelease } from './leases.ts'
import { forgetNode } from './membership.ts'
import { unsureDue } from './orphan-tasks.ts'
import type { RegistryState, RegistryTimer } from './registry-state.ts'
import { rested } from './resting.ts'
import { taskDue } from './submitting.ts'

/** Whether background work is left. */
export function workLeft(state: RegistryState): boolean {
  const { lost, freedNodes, toWake, yields, rebuild, generation } = state
  const isServing = freedNodes.size > 0 || toWake.size > 0 || yields.size > 0
  return isServing || lost.length > 0 || rebuild !== null || generation.hasWork
}

/** One slice: attempts of lost nodes first, then those who wait, then matching, then the rebuild. */
export function slice(state: RegistryState): void {
  const { policy, generation } = state
  let steps = endLost(state, policy.sliceSteps)
  if (steps > 0) steps = serveFreedNodes(state, steps)
  if (steps > 0) steps = wake(state, steps)
  if (steps > 0) steps = continueYields(state, steps)
  if (steps > 0 && generation.hasWork) steps = state.match(steps)
  if (generation.worn && state.rebuild === null) startRebuild(state)
  if (steps > 0 && state.rebuild !== null) continueRebuild(state, state.rebuild, steps)
}

/** Ends the attempts of leases that went with their node, so many of them. */
export function endLost(state: RegistryState, steps: number): number {
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

/** What is due by now, so much of it that the turn stays short. */
export function tick(state: RegistryState): void {
  state.armedAt = Number.POSITIVE_INFINITY
  for (let left = state.policy.sliceSteps; left > 0; left -= 1) {
    const timer = state.timers.takeDue(state.now)
    if (timer === undefined) return
    state.work.done += 1
    fire(state, timer)
  }
}

function fire(state: RegistryState, timer: RegistryTimer): void {
  switch (timer.kind) {
    case 'task':
      taskDue(state, timer.subject)
      return
    case 'grace':
      forceRelease(state, timer.subject)
      return
    case 'rest':
      rested(state, timer.subject)
      return
    case 'drain':
      drainDue(state, timer.subject)
      return
    case 'unsure':
      unsureDue(state, timer.subject)
      return
    case 'forget':
      forgetNode(state, timer.subject)
      return
    case 'publish':
      state.tenants.sweep(state.policy.sliceSteps)
      state.publish()
  }
}
