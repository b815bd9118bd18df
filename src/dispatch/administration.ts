/** What operators and the shared store say about nodes. */
import type { Books } from './books.ts'
import type { Command } from './command.ts'
import { endAttempt } from './ending.ts'
import type { FleetNode } from './fleetnode.ts'
import { releaseLease } from './leases.ts'
import { createTimer } from './timers.ts'
import { letGo } from './waiting.ts'

type Of<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>

/** No new work for a node; what it runs may end, until the deadline if there is one. */
export function drain(books: Books, { nodeId, on, deadlineAt }: Of<'drain'>): void {
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.status === 'gone') return
  const { epoch } = node
  if (node.drainTimer !== null) books.timers.clear(node.drainTimer)
  node.draining = on
  if (!on) {
    books.reopen(node)
    return
  }
  if (node.heldFor !== null) letGo(books, node.heldFor)
  books.refresh(node)
  books.emit({ kind: 'drainFrame', nodeId, epoch })
  if (node.leases.size === 0) books.emit({ kind: 'drained', nodeId, epoch })
  else if (deadlineAt !== null) {
    node.drainTimer ??= createTimer('drain', node)
    books.timers.set(node.drainTimer, deadlineAt)
  }
}

/** The drain's deadline passed: what still runs goes on elsewhere, if it has an attempt left for that. */
export function drainDue(books: Books, node: FleetNode): void {
  const message = `Node "${node.nodeId}" was drained before the task ended.`
  for (const { task } of [...node.leases.values()]) {
    if (task === null || !task.spec.retryable || task.spec.attempt >= task.spec.maxAttempts) continue
    if (task.status !== 'reserving') endAttempt(books, task, 'drained', { code: 'drained', message })
  }
}

/** Closes or opens a node, or one service of it, for new work; kept while the node is away. */
export function cordon(books: Books, { nodeId, service, on }: Of<'cordon'>): void {
  books.fleet.cordon(nodeId, service ?? '', on)
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.status === 'gone') return
  books.reopen(node)
  const held = node.heldFor
  if (held !== null && (node.cordoned || !node.couldFit(held.demand.shape))) letGo(books, held)
}

/** What other servers hold on a node. */
export function nodeUsage(books: Books, { nodeId, epoch, used }: Of<'nodeUsage'>): void {
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  node.foreign = node.services.map(({ name }) => used[name] ?? 0)
  books.refresh(node)
  books.roomy.push(node)
}

/** Reservations that are no more: whatever still ran on them is over. */
export function releaseSlots(books: Books, { nodeId, reservationIds }: Of<'releaseSlots'>): void {
  const ended = new Set(reservationIds)
  const leases = [...(books.fleet.find(nodeId)?.leases.values() ?? [])]
  for (const lease of leases) {
    const { task, taskId, attempt, reservationId } = lease
    if (!ended.has(reservationId) || books.reserving.has(reservationId)) continue
    releaseLease(books, lease)
    if (task === null) continue
    task.lease = null
    books.emit({ kind: 'cancelFrame', nodeId, epoch: lease.epoch, taskId, attempt })
    const message = `The reservation on node "${nodeId}" is no more.`
    endAttempt(
      books,
      task,
      'lease_lost',
      { code: 'lease_lost', message },
      { by: { nodeId, epoch: lease.epoch } },
    )
  }
}
