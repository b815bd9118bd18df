/** What is done piece by piece, and what is done when its time has come. */
import { drainDue } from './administration.ts'
import type { Books, BooksTimer } from './books.ts'
import { endAttempt } from './ending.ts'
import { forceRelease } from './leases.ts'
import { forgetNode } from './membership.ts'
import { place } from './placing.ts'
import { continueRebuild, startRebuild } from './rebuild.ts'
import { rested } from './resting.ts'
import { serve, wake } from './serving.ts'
import { taskDue } from './submitting.ts'
import { enterLine } from './waiting.ts'

/** Whether work is left that nobody waits for just now. */
export function workLeft(books: Books): boolean {
  const { lost, toWake, rebuild, generation } = books
  return lost.length > 0 || toWake.length > 0 || rebuild !== null || generation.unfinished
}

/** One slice: attempts of lost nodes first, then those who wait, then matching, then the rebuild. */
export function slice(books: Books): void {
  const { policy, generation } = books
  let steps = endLost(books, policy.sliceSteps)
  if (steps > 0) steps = wake(books, steps)
  if (steps > 0 && generation.unfinished) steps = books.match(steps)
  if (generation.worn && books.rebuild === null) startRebuild(books)
  if (steps > 0 && books.rebuild !== null) continueRebuild(books, books.rebuild, steps)
}

/** Ends the attempts of leases that went with their node, so many of them. */
export function endLost(books: Books, steps: number): number {
  if (books.lost.length === 0) return steps
  const pieces = books.lost.splice(0, steps)
  for (const { lease, code, message } of pieces) {
    const { task, reservationId, epoch, node } = lease
    if (lease.grace !== null) books.timers.clear(lease.grace)
    const pending = books.reserving.has(reservationId)
    if (books.shared && !pending) books.emit({ kind: 'release', reservationId, nodeId: node.nodeId, epoch })
    lease.task = null
    if (task === null || task.lease !== lease) continue
    task.lease = null
    // It never went out: no attempt is spent.
    if (task.status === 'reserving') {
      if (!place(books, task)) enterLine(books, task)
    } else {
      endAttempt(books, task, code, { code, message }, { by: { nodeId: node.nodeId, epoch } })
    }
  }
  return steps - pieces.length
}

/** Serves whoever waits for the nodes that got room in this command. */
export function serveRoomy(books: Books): void {
  for (let node = books.roomy.pop(); node !== undefined; node = books.roomy.pop()) serve(books, node)
}

/** What is due by now, so much of it that the turn stays short. */
export function tick(books: Books): void {
  books.armedAt = Number.POSITIVE_INFINITY
  for (let left = books.policy.sliceSteps; left > 0; left -= 1) {
    const timer = books.timers.takeDue(books.now)
    if (timer === undefined) return
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
    case 'forget':
      forgetNode(books, timer.subject)
      return
    case 'publish':
      books.version += 1
      books.tenants.sweep(books.policy.sliceSteps)
      books.emit({ kind: 'publish', pages: books.fleet.takeDirty(), version: books.version })
      return
    case 'stalled':
      books.toWake.push(...books.waitingDemands)
  }
}
