/** Nodes come, come back, are taken over, speak of themselves, fall silent and go. */

import { type FleetNode, noLoad } from '../matching/fleet-node.ts'
import type { Labels, ServiceOffer } from '../node.ts'
import { letGo } from '../waiting/waiting.ts'
import { hear } from './attempts.ts'
import type { Command, Heartbeat, NodeHello } from './command.ts'
import { linger, voidLeases } from './leases.ts'
import { compareRunning } from './orphan-tasks.ts'
import type { Books } from './registry-state.ts'
import { createTimer } from './timers.ts'

/** Instances remembered as taken over, per node. */
const maxPast = 8

type Of<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>

/** A node connected. */
export function hello(books: Books, said: NodeHello): void {
  const { nodeId, instanceId } = said
  const node = books.fleet.find(nodeId)
  if (node === undefined) {
    begin(books, books.fleet.add(nodeId, instanceId, said.epoch), said)
  } else if (node.past.includes(instanceId)) {
    books.emit({ kind: 'superseded', nodeId, epoch: node.epoch, instanceId })
  } else if (node.instanceId === instanceId && node.status !== 'gone') {
    resume(books, node, said)
  } else {
    takeOver(books, node, said)
  }
}

function begin(books: Books, node: FleetNode, said: NodeHello): void {
  const { nodeId, epoch } = node
  node.status = 'ready'
  node.joinedAt = books.now
  node.seenAt = books.now
  node.seq = 0
  node.countedSeq = 0
  node.draining = said.isDraining === true
  node.vetoed = false
  node.load = noLoad
  node.reported = 0
  node.restsUntil = []
  node.services = []
  node.offer(said.services)
  node.labels = said.labels
  if (node.forgetTimer !== null) books.timers.clear(node.forgetTimer)
  if (node.drainTimer !== null) books.timers.clear(node.drainTimer)
  books.emit({ kind: 'welcome', nodeId, epoch, resumed: false })
  books.tell({ name: 'node.ready', nodeId, epoch, resumed: false })
  books.join(node)
  if (said.running !== null) compareRunning(books, node, said.running, 0)
}

function takeOver(books: Books, node: FleetNode, said: NodeHello): void {
  const { nodeId, epoch, instanceId } = node
  if (instanceId !== said.instanceId) {
    node.past.push(instanceId)
    if (node.past.length > maxPast) node.past.shift()
  }
  if (node.status !== 'gone') {
    books.emit({ kind: 'superseded', nodeId, epoch, instanceId: null })
    books.tell({ name: 'node.superseded', nodeId, epoch })
    depart(books, node, 'superseded', `Another instance of node "${nodeId}" took over.`)
  }
  node.instanceId = said.instanceId
  node.epoch = Math.max(epoch + 1, said.epoch)
  begin(books, node, said)
}

function resume(books: Books, node: FleetNode, said: NodeHello): void {
  const { nodeId, epoch } = node
  node.status = 'ready'
  node.seenAt = books.now
  // A new connection counts its assigns from one. What went out before is judged by what the node still knows of.
  node.seq = 0
  node.countedSeq = 0
  for (const lease of node.leases.values()) lease.seq = 0
  node.recount()
  books.emit({ kind: 'welcome', nodeId, epoch, resumed: true })
  books.tell({ name: 'node.ready', nodeId, epoch, resumed: true })
  if (node.draining) books.emit({ kind: 'drainFrame', nodeId, epoch })
  change(books, node, said.services, said.labels)
  for (const lease of [...node.leases.values()]) {
    if (lease.task !== null || lease.grace === null) continue
    books.timers.clear(lease.grace)
    linger(books, lease)
  }
  if (said.running === null) return
  // It may have been elsewhere meanwhile, and been given there again what it had ended here.
  node.strangers.over.clear()
  compareRunning(books, node, said.running, 0)
}

/** What it offers changed, without a reconnect. */
export function update(books: Books, { nodeId, epoch, services, labels }: Of<'nodeUpdate'>): void {
  const node = hear(books, nodeId, epoch)
  if (node !== null) change(books, node, services ?? node.services, labels ?? node.labels)
}

function change(books: Books, node: FleetNode, services: readonly ServiceOffer[], labels: Labels): void {
  if (node.heldFor !== null) letGo(books, node.heldFor)
  books.leave(node)
  node.offer(services)
  node.labels = labels
  books.join(node)
}

/** A node's word about itself. */
export function heartbeat(books: Books, said: Heartbeat): void {
  const node = hear(books, said.nodeId, said.epoch)
  if (node === null) return
  const wasVetoed = node.vetoed
  if (said.load !== null) node.report(said.load, books.policy)
  if (said.countedSeq !== null) node.counted(said.countedSeq)
  if (said.running !== null && said.countedSeq !== null) {
    compareRunning(books, node, said.running, node.countedSeq)
  }
  books.refresh(node)
  if (wasVetoed && !node.vetoed) books.roomy.add(node)
}

/** Its socket closed, or it fell silent: no new work until it speaks again. */
export function suspect(books: Books, { nodeId, epoch, reason }: Of<'nodeSuspect'>): void {
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status !== 'ready') return
  node.status = 'suspect'
  if (node.heldFor !== null) letGo(books, node.heldFor)
  books.refresh(node)
  books.tell({ name: 'node.suspect', nodeId, epoch, reason })
}

/** It is dead: its tasks go on elsewhere. It is remembered for a while, so that its late words are known as such. */
export function gone(books: Books, { nodeId, epoch, reason }: Of<'nodeGone'>): void {
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  depart(books, node, 'node_lost', `Node "${nodeId}" was lost: ${reason}`)
  books.tell({ name: 'node.gone', nodeId, epoch, reason })
  node.forgetTimer ??= createTimer('forget', node)
  books.timers.set(node.forgetTimer, books.now + books.policy.keepMs)
}

const byes = {
  node_lost: ['bye', 'said goodbye'],
  moved: ['connected to another server', 'connected to another server'],
  superseded: ['taken over at another server', 'was taken over by another instance at another server'],
} as const

/** It says goodbye, here or by going elsewhere. */
export function bye(books: Books, { nodeId, epoch, elsewhere }: Of<'nodeBye'>): void {
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  const [reason, message] = byes[elsewhere ?? 'node_lost']
  depart(books, node, elsewhere ?? 'node_lost', `Node "${nodeId}" ${message}.`)
  books.tell({ name: 'node.gone', nodeId, epoch, reason })
  forgetNode(books, node)
}

/** Takes a node out of the books. */
export function forgetNode(books: Books, node: FleetNode): void {
  for (const timer of [node.restTimer, node.drainTimer, node.unsureTimer, node.forgetTimer])
    if (timer) books.timers.clear(timer)
  books.fleet.remove(node)
  books.emit({ kind: 'nodeForgotten', nodeId: node.nodeId, epoch: node.epoch })
}

function depart(
  books: Books,
  node: FleetNode,
  code: 'node_lost' | 'superseded' | 'moved',
  message: string,
): void {
  node.status = 'gone'
  if (node.heldFor !== null) letGo(books, node.heldFor)
  for (const timer of [node.restTimer, node.drainTimer, node.unsureTimer])
    if (timer) books.timers.clear(timer)
  node.strangers.clear()
  node.open = false
  books.leave(node)
  voidLeases(books, node, code, message)
}
