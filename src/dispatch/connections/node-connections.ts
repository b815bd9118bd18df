/**
 * Holds the connections of all nodes, and decides which nodes are dead. It distinguishes three cases:
 *
 * - A closed socket: the node is suspect at once, and dead if it does not reconnect within `closedGraceMs`.
 * - Silence on an open socket: the node is suspect after two heartbeats, and dead after three.
 * - A stall of this process: if a sweep is late, no frame could arrive meanwhile, so all clocks move forward by the
 * delay.
 *
 * If very many nodes seem to die at once, the cause is more likely this server or the network. So at most a fifth of
 * the fleet (in a small fleet five nodes) is given up within five seconds. The others stay suspect and get no new
 * work.
 *
 * A node is welcomed when its row in the cluster state names this server. A node that reconnects while this server
 * holds its row is welcomed at once. Every other node waits for the cluster state, without delaying the others.
 */

import type { ClusterSettings } from '../cluster/cluster-settings.ts'
import type { Entered } from '../cluster/node-ownership.ts'
import type { OwnNodes } from '../cluster/own-nodes.ts'
import type { Command } from '../registry/command.ts'
import {
  Connection,
  type ConnectionParts,
  type Hello,
  type NodeConnector,
  type NodeLink,
  type NodeSession,
  type ServerFrame,
} from './node-connection.ts'

/** When a silent node is suspect, and when it is gone. */
export interface NodeConnectionsPolicy {
  readonly suspectAfterMs: number
  readonly goneAfterMs: number
  readonly closedGraceMs: number
}

/** The parts of the node connections. */
export interface NodeConnectionsParts
  extends Pick<ConnectionParts, 'post' | 'monotonicMs' | 'heartbeatMs' | 'isFull'> {
  readonly now: () => number
  readonly policy: NodeConnectionsPolicy
  readonly ownNodes: Pick<
    OwnNodes,
    'has' | 'enter' | 'resume' | 'refresh' | 'welcomed' | 'gone' | 'leave' | 'abandon'
  >
  readonly settings: Pick<ClusterSettings, 'drainOf'>
  readonly log: (event: NodeConnectionsEvent) => void
}

/** Events for the log. */
export type NodeConnectionsEvent =
  | { readonly name: 'loop.stalled'; readonly stalledMs: number }
  | { readonly name: 'fleet.braked'; readonly heldBack: number; readonly nodeCount: number }

/** How often connections are checked. */
export const sweepMs = 250
/** A sweep that is later than this means that the process stalled. */
const stallMs = 250
/** How many nodes may be given up within a time. */
const deathLimit = { share: 0.2, least: 5, withinMs: 5_000 } as const

/** The connections of all nodes. */
export class NodeConnections implements NodeConnector {
  readonly #parts: NodeConnectionsParts
  /** The welcomed connection of each node. */
  readonly #current = new Map<string, Connection>()
  /** Connections that wait for the cluster state. */
  readonly #entering = new Set<Connection>()
  /** Connections that wait for the registry, by the command of their hello. */
  readonly #unwelcomed = new Map<Command, Connection>()
  /** Welcomed connections whose missing row is being written. */
  readonly #registering = new Set<Connection>()
  /** Sockets that wait until they are read again. */
  #waiters: (() => void)[] = []
  #deaths: number[] = []
  #sweptAt: number | null = null
  #isHoldingBack = false
  #wasFull = false
  #isOpen = false

  constructor(parts: NodeConnectionsParts) {
    this.#parts = parts
  }

  get heartbeatMs(): number {
    return this.#parts.heartbeatMs
  }

  get size(): number {
    return this.#current.size
  }

  open(): void {
    this.#isOpen = true
  }

  connect(hello: Hello, link: NodeLink): NodeSession {
    const { nodeId } = hello
    const { ownNodes, now } = this.#parts
    const connection = new Connection(hello, link, {
      ...this.#parts,
      whenReady: () => this.#whenReady(),
      onOfferChanged: (services, labels) => ownNodes.refresh(nodeId, services, labels),
    })
    if (!this.#isOpen) {
      this.#refuse(connection)
      return connection
    }
    const caller = { ...hello, holder: connection, epoch: now(), isThere: () => connection.isOpen }
    const epoch = this.#current.has(nodeId) ? ownNodes.resume(caller) : null
    if (epoch !== null) {
      this.#hello(hello, epoch, connection)
    } else {
      this.#entering.add(connection)
      ownNodes.enter(caller, (entered) => this.#entered(hello, entered, connection))
    }
    return connection
  }

  #entered(hello: Hello, entered: Entered | null, connection: Connection): void {
    this.#entering.delete(connection)
    if (!this.#isOpen) this.#refuse(connection)
    else if (entered === null) connection.end(1013, 'try again')
    else if (entered.kind === 'superseded') this.#supersede(connection)
    else if (entered.kind === 'elsewhere') connection.end(4404, 'say hello again')
    else this.#hello(hello, entered.doc.epoch, connection)
  }

  #hello(hello: Hello, epoch: number, connection: Connection): void {
    const { nodeId, instanceId, services, labels, running } = hello
    const command = {
      kind: 'nodeHello',
      ...{ nodeId, instanceId, epoch, services, labels, running },
      // A drained node gets no new work from the start. The deadline follows with the welcome.
      isDraining: this.#parts.settings.drainOf(nodeId, epoch) !== undefined,
    } as const
    this.#unwelcomed.set(command, connection)
    const { post, ownNodes } = this.#parts
    if (post(command)) return
    this.#unwelcomed.delete(command)
    this.#refuse(connection)
    // A node with a welcomed connection keeps that one.
    if (this.#current.has(nodeId)) ownNodes.welcomed(nodeId, epoch, connection)
    else ownNodes.abandon(nodeId, connection)
  }

  #refuse(connection: Connection): void {
    const message = 'This server accepts no nodes now. Try another server.'
    connection.send({ type: 'error', code: 'draining', message })
    connection.end(1001, 'draining')
  }

  /** The registry accepted the node's hello: this connection replaces an older one. */
  welcome(command: Command, nodeId: string, epoch: number): void {
    const connection = this.#unwelcomed.get(command)
    if (connection === undefined) return
    this.#unwelcomed.delete(command)
    this.#current.get(nodeId)?.end(4408, 'replaced by a newer connection of the same node')
    this.#current.set(nodeId, connection)
    this.#parts.ownNodes.welcomed(nodeId, epoch, connection)
    connection.welcome(epoch)
    this.#postDrain(command, nodeId, epoch)
    // Reading from its socket may have paused because of early frames.
    this.resumeReading()
    this.#ensureRegistered(connection)
  }

  /**
   * Posts the node's drain again. An earlier drain command may have overtaken the hello, when the registry did not yet
   * know the node.
   */
  #postDrain(command: Command, nodeId: string, epoch: number): void {
    const { post, settings } = this.#parts
    const drain = settings.drainOf(nodeId, epoch)
    if (drain !== undefined) post({ kind: 'drain', nodeId, on: true, epoch, ...drain })
    else if (command.kind === 'nodeHello' && command.isDraining)
      post({ kind: 'drain', nodeId, on: false, epoch, deadlineAt: null })
  }

  /** A safety net: each connected node has a row that names this server, or its connection is closed. */
  registerMissing(): void {
    for (const connection of this.#current.values()) this.#ensureRegistered(connection)
  }

  #ensureRegistered(connection: Connection): void {
    const { nodeId, epoch, hello } = connection
    const { ownNodes } = this.#parts
    const isThere = () => connection.isOpen && this.#current.get(nodeId) === connection
    if (epoch === null || ownNodes.has(nodeId) || this.#registering.has(connection) || !isThere()) return
    this.#registering.add(connection)
    const caller = { ...hello, holder: connection, epoch, isThere, isWelcomed: true }
    ownNodes.enter(caller, (entered) => {
      this.#registering.delete(connection)
      if (entered === null) return
      if (!isThere()) {
        // The registry reported in between that the node is gone.
        if (this.#current.get(nodeId) !== connection) ownNodes.abandon(nodeId, connection)
      } else if (entered.kind !== 'entered') {
        this.#end(connection, 4404, 'say hello again')
        this.#parts.post({ kind: 'nodeBye', nodeId, epoch, elsewhere: 'moved' })
      }
    })
  }

  superseded(command: Command, nodeId: string, epoch: number, isNewcomer: boolean): void {
    const connection = isNewcomer ? this.#unwelcomed.get(command) : this.#find(nodeId, epoch)
    if (isNewcomer) this.#unwelcomed.delete(command)
    if (connection === undefined) return
    if (isNewcomer) this.#parts.ownNodes.abandon(nodeId, connection)
    this.#supersede(connection)
  }

  #supersede(connection: Connection): void {
    const message = `Another instance of node "${connection.nodeId}" took over.`
    connection.send({ type: 'error', code: 'superseded', message })
    this.#end(connection, 4409, 'superseded')
  }

  send(nodeId: string, epoch: number, frame: ServerFrame): boolean {
    return this.#find(nodeId, epoch)?.send(frame) ?? false
  }

  /** Sends a frame to a node, whatever its epoch. */
  sendToNode(nodeId: string, frame: ServerFrame): boolean {
    return this.#current.get(nodeId)?.send(frame) ?? false
  }

  close(nodeId: string, epoch: number, code: number, reason: string): void {
    const connection = this.#find(nodeId, epoch)
    if (connection !== undefined) this.#end(connection, code, reason)
  }

  /** The registry forgot the node. */
  forgotten(nodeId: string, epoch: number): void {
    this.close(nodeId, epoch, 1000, 'goodbye')
    this.#parts.ownNodes.leave(nodeId, epoch)
  }

  /** Checks all connections. Call it every `sweepMs`. */
  sweep(): void {
    const at = this.#parts.monotonicMs()
    const lateMs = this.#sweptAt === null ? 0 : at - this.#sweptAt - sweepMs
    this.#sweptAt = at
    if (lateMs > stallMs) this.#moveClocks(lateMs)
    // While sockets are not read, a silent node may have sent frames.
    const isFull = this.#parts.isFull()
    if (isFull || this.#wasFull) for (const connection of this.#current.values()) connection.seenAt = at
    this.#wasFull = isFull
    this.resumeReading()
    const { share, least, withinMs } = deathLimit
    this.#deaths = this.#deaths.filter((diedAt) => at - diedAt < withinMs)
    const limit = Math.max(least, Math.ceil((this.#current.size + this.#deaths.length) * share))
    let heldBack = 0
    for (const connection of this.#current.values()) {
      const why = this.#judge(connection, at)
      if (why === null) continue
      if (this.#deaths.length >= limit) heldBack += 1
      else this.#giveUp(connection, why, at)
    }
    if (heldBack > 0 && !this.#isHoldingBack) {
      this.#parts.log({ name: 'fleet.braked', heldBack, nodeCount: this.#current.size })
    }
    this.#isHoldingBack = heldBack > 0
  }

  /** Lets waiting sockets be read again, if there is capacity. */
  resumeReading(): void {
    if (this.#waiters.length === 0 || this.#parts.isFull()) return
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** Closes all connections and refuses new ones. */
  closeAll(): void {
    this.#isOpen = false
    for (const connection of [...this.#current.values(), ...this.#unwelcomed.values(), ...this.#entering]) {
      connection.end(1001, 'the server is stopping')
    }
    this.#current.clear()
    this.#unwelcomed.clear()
    this.#entering.clear()
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** Why a node is dead; null: it lives. Also reports a node that has become suspect. */
  #judge(connection: Connection, at: number): string | null {
    const { suspectAfterMs, goneAfterMs, closedGraceMs } = this.#parts.policy
    const { closedAt, closedFor, seenAt } = connection
    if (closedAt !== null) return at - closedAt >= closedGraceMs ? `its socket closed: ${closedFor}` : null
    const silentMs = at - seenAt
    if (silentMs < suspectAfterMs) return null
    if (!connection.isSuspect) connection.suspect(`silent for ${Math.round(silentMs)} ms`)
    return silentMs >= goneAfterMs ? `silent for ${Math.round(silentMs)} ms` : null
  }

  #giveUp(connection: Connection, reason: string, at: number): void {
    this.#deaths.push(at)
    const { nodeId, epoch } = connection
    if (epoch !== null) {
      this.#parts.post({ kind: 'nodeGone', nodeId, epoch, reason })
      this.#parts.ownNodes.gone(nodeId, epoch)
    }
    this.#end(connection, 4408, 'silent for too long')
  }

  #moveClocks(lateMs: number): void {
    this.#parts.log({ name: 'loop.stalled', stalledMs: Math.round(lateMs) })
    for (const connection of this.#current.values()) {
      connection.seenAt += lateMs
      if (connection.closedAt !== null) connection.closedAt += lateMs
    }
  }

  #find(nodeId: string, epoch: number): Connection | undefined {
    const connection = this.#current.get(nodeId)
    return connection?.epoch === epoch ? connection : undefined
  }

  #end(connection: Connection, code: number, reason: string): void {
    connection.end(code, reason)
    if (this.#current.get(connection.nodeId) === connection) this.#current.delete(connection.nodeId)
  }

  #whenReady(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve))
  }
}
