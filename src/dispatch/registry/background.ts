/** What is done piece by piece, and what is done when its time has come. */

import { continueRebuild, startRebuild } from '../matching/rebuild.ts'
import { serveRoomy, wake } from '../waiting/serve-waiting.ts'
import { continueYields } from '../waiting/yield-waiting.ts'
import { drainDue } from './administration.ts'
import { endAttempt } from './ending.ts'
import { forceRelease } from './leases.ts'
import { forgetNode } from './membership.ts'
import { unsureDue } from './orphan-tasks.ts'
import type { Books, BooksTimer } from './registry-state.ts'
import { rested } from './resting.ts'
import { taskDue } from './submitting.ts'

/** Whether work is left that nobody waits for just now. */
export function workLeft(books: Books): boolean {
  const { lost, roomy, toWake, yields, rebuild, generation } = books
  const isServing = roomy.size > 0 || toWake.size > 0 || yields.size > 0
  return isServing || lost.length > 0 || rebuild !== null || generation.hasWork
}

/** One slice: attempts of lost nodes first, then those who wait, then matching, then the rebuild. */
export function slice(books: Books): void {
  const { policy, generation } = books
  let steps = endLost(books, policy.sliceSteps)
  if (steps > 0) steps = serveRoomy(books, steps)
  if (steps > 0) steps = wake(books, steps)
  if (steps > 0) steps = continueYields(books, steps)
  if (steps > 0 && generation.hasWork) steps = books.match(steps)
  if (generation.worn && books.rebuild === null) startRebuild(books)
  if (steps > 0 && books.rebuild !== null) continueRebuild(books, books.rebuild, steps)
}

/** Ends the attempts of leases that went with their node, so many of them. */
export function endLost(books: Books, steps: number): number {
  if (books.lost.length === 0) return steps
  const pieces = books.lost.splice(0, Math.ceil(steps))
  books.work.done += pieces.length
  for (const { lease, code, message } of pieces) {
    const { task, epoch, node } = lease
    if (lease.grace !== null) books.timers.clear(lease.grace)
    lease.task = null
    if (task === null || task.lease !== lease) continue
    task.lease = null
    endAttempt(books, task, code, { code, message }, { by: { nodeId: node.nodeId, epoch } })
  }
  return Math.max(0, steps - pieces.length)
}

/** What is due by now, so much of it that the turn stays short. */
export function tick(books: Books): void {
  books.armedAt = Number.POSITIVE_INFINITY
  for (let left = books.policy.sliceSteps; left > 0; left -= 1) {
    const timer = books.timers.takeDue(books.now)
    if (timer === undefined) return
    books.work.done += 1
    fire(books, timer)
  }
}

function fire(books: Books, timer: BooksTimer): void {
  switch (timer.kind) {
    case 'task':
      taskDue(books, timer.subject)
      return
    case 'grace':
      forceRelease(books, timer.subject)
      return
    case 'rest':
      rested(books, timer.subject)
      return
    case 'drain':
      drainDue(books, timer.subject)
      return
    case 'unsure':
      unsureDue(books, timer.subject)
      return
    case 'forget':
      forgetNode(books, timer.subject)
      return
    case 'publish':
      books.tenants.sweep(books.policy.sliceSteps)
      books.publish()
  }
}
