/**
 * Takes the nodes of sockets, and decides which nodes are dead. Three things look alike and are distinguished:
 *
 * - A closed socket: suspect at once, dead when it has not come back within `closedGraceMs`.
 * - Silence on an open one: suspect after two heartbeats, dead after three.
 * - This process's stall: when the sweep comes late, no node could be heard meanwhile, so all clocks move on by that
 * time.
 *
 * When very many nodes seem to die at once, the cause is more likely this server or the network. So at most a fifth of
 * the fleet (five nodes in a small one) is given up within five seconds; the others stay suspect, without new work.
 *
 * A node is welcomed when its row in the cluster state names this server. One that comes back while its row is still
 * here is welcomed at once; every other node waits for the cluster state, and holds up no one else.
 */

import type { ClusterSettings } from '../cluster/cluster-settings.ts'
import type { Entered } from '../cluster/node-ownership.ts'
import type { OwnNodes } from '../cluster/own-nodes.ts'
import type { Command } from '../registry/command.ts'
import type { NodeConnector, NodeFrame, NodeLink, NodeSession, ServerFrame } from './node-connection.ts'
import { Connection, type ConnectionParts } from './node-connection.ts'

type Hello = Extract<NodeFrame, { readonly type: 'hello' }>

/** When a silent node is suspect, and when it is gone. */
export interface NodeConnectionsPolicy {
  readonly suspectAfterMs: number
  readonly goneAfterMs: number
  readonly closedGraceMs: number
}

/** What the node connections need. */
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

/** Events worth a line in the log. */
export type NodeConnectionsEvent =
  | { readonly name: 'loop.stalled'; readonly stalledMs: number }
  | { readonly name: 'fleet.braked'; readonly heldBack: number; readonly nodeCount: number }

/** How often connections are looked at. */
export const sweepMs = 250
/** A sweep this much later than it should be means that this process stood still. */
const stallMs = 250
const brake = { share: 0.2, least: 5, withinMs: 5_000 } as const

/** The connections of all nodes. */
export class NodeConnections implements NodeConnector {
  readonly #parts: NodeConnectionsParts
  /** The one connection of each node that is listened to. */
  readonly #current = new Map<string, Connection>()
  /** Those that wait at the door. */
  readonly #entering = new Set<Connection>()
  /** Those not welcomed yet, by the command that their hello became. */
  readonly #helloed = new Map<Command, Connection>()
  /** Those here that the cluster state did not have. */
  readonly #keeping = new Set<Connection>()
  #waiters: (() => void)[] = []
  #deaths: number[] = []
  #sweptAt: number | null = null
  #isBraking = false
  #wasDeaf = false
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
      offers: (offered, labelled) => ownNodes.refresh(nodeId, offered, labelled),
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
      // It is closed for new work from the first moment; the deadline follows with the welcome.
      isDraining: this.#parts.settings.drainOf(nodeId, epoch) !== undefined,
    } as const
    this.#helloed.set(command, connection)
    const { post, ownNodes } = this.#parts
    if (post(command)) return
    this.#helloed.delete(command)
    this.#refuse(connection)
    // One that is here goes on as before.
    if (this.#current.has(nodeId)) ownNodes.welcomed(nodeId, epoch, connection)
    else ownNodes.abandon(nodeId, connection)
  }

  #refuse(connection: Connection): void {
    const message = 'This server takes no nodes now; try another.'
    connection.send({ type: 'error', code: 'draining', message })
    connection.end(1001, 'draining')
  }

  /** The registry knows the node by this connection now. */
  welcome(command: Command, nodeId: string, epoch: number): void {
    const connection = this.#helloed.get(command)
    if (connection === undefined) return
    this.#helloed.delete(command)
    this.#current.get(nodeId)?.end(4408, 'replaced by a newer connection of the same node')
    this.#current.set(nodeId, connection)
    this.#parts.ownNodes.welcomed(nodeId, epoch, connection)
    connection.welcome(epoch)
    this.#tellDrain(command, nodeId, epoch)
    // It may have waited for this with what it has to say.
    this.relieve()
    this.#keep(connection)
  }

  /**
   * Operators' words overtake a hello that waits behind results, and a node that is not there yet does not hear them.
   */
  #tellDrain(command: Command, nodeId: string, epoch: number): void {
    const { post, settings } = this.#parts
    const drain = settings.drainOf(nodeId, epoch)
    if (drain !== undefined) post({ kind: 'drain', nodeId, on: true, epoch, ...drain })
    else if (command.kind === 'nodeHello' && command.isDraining)
      post({ kind: 'drain', nodeId, on: false, epoch, deadlineAt: null })
  }

  /** A net under everything else: a node that is here is in the cluster state as this server's, or is sent away. */
  mend(): void {
    for (const connection of this.#current.values()) this.#keep(connection)
  }

  #keep(connection: Connection): void {
    const { nodeId, epoch, hello } = connection
    const { ownNodes } = this.#parts
    const isThere = () => connection.isOpen && this.#current.get(nodeId) === connection
    if (epoch === null || ownNodes.has(nodeId) || this.#keeping.has(connection) || !isThere()) return
    this.#keeping.add(connection)
    const caller = { ...hello, holder: connection, epoch, isThere, isWelcomed: true }
    ownNodes.enter(caller, (entered) => {
      this.#keeping.delete(connection)
      if (entered === null) return
      if (!isThere()) {
        // The registry reported before that it is gone.
        if (this.#current.get(nodeId) !== connection) ownNodes.abandon(nodeId, connection)
      } else if (entered.kind !== 'entered') {
        this.#end(connection, 4404, 'say hello again')
        this.#parts.post({ kind: 'nodeBye', nodeId, epoch, elsewhere: 'moved' })
      }
    })
  }

  superseded(command: Command, nodeId: string, epoch: number, isNewcomer: boolean): void {
    const connection = isNewcomer ? this.#helloed.get(command) : this.#find(nodeId, epoch)
    if (isNewcomer) this.#helloed.delete(command)
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

  /** Whatever its epoch is now. */
  tell(nodeId: string, frame: ServerFrame): boolean {
    return this.#current.get(nodeId)?.send(frame) ?? false
  }

  close(nodeId: string, epoch: number, code: number, reason: string): void {
    const connection = this.#find(nodeId, epoch)
    if (connection !== undefined) this.#end(connection, code, reason)
  }

  /** The registry has forgotten the node. */
  forgotten(nodeId: string, epoch: number): void {
    this.close(nodeId, epoch, 1000, 'goodbye')
    this.#parts.ownNodes.leave(nodeId, epoch)
  }

  /** Looks at all connections once; to be called every `sweepMs`. */
  sweep(): void {
    const at = this.#parts.monotonicMs()
    const lateMs = this.#sweptAt === null ? 0 : at - this.#sweptAt - sweepMs
    this.#sweptAt = at
    if (lateMs > stallMs) this.#excuse(lateMs)
    // While sockets are not read, a silent node may have sent frames.
    const isDeaf = this.#parts.isFull()
    if (isDeaf || this.#wasDeaf) for (const connection of this.#current.values()) connection.seenAt = at
    this.#wasDeaf = isDeaf
    this.relieve()
    this.#deaths = this.#deaths.filter((diedAt) => at - diedAt < brake.withinMs)
    const limit = Math.max(brake.least, Math.ceil((this.#current.size + this.#deaths.length) * brake.share))
    let heldBack = 0
    for (const connection of this.#current.values()) {
      const why = this.#judge(connection, at)
      if (why === null) continue
      if (this.#deaths.length >= limit) heldBack += 1
      else this.#bury(connection, why, at)
    }
    if (heldBack > 0 && !this.#isBraking) {
      this.#parts.log({ name: 'fleet.braked', heldBack, nodeCount: this.#current.size })
    }
    this.#isBraking = heldBack > 0
  }

  /** Lets sockets be read again that had to wait. */
  relieve(): void {
    if (this.#waiters.length === 0 || this.#parts.isFull()) return
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** No more nodes; those that are here are sent away. */
  shut(): void {
    this.#isOpen = false
    for (const connection of [...this.#current.values(), ...this.#helloed.values(), ...this.#entering]) {
      connection.end(1001, 'the server is stopping')
    }
    this.#current.clear()
    this.#helloed.clear()
    this.#entering.clear()
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** Why it is dead; null: it lives. Reports a suspect node on the way. */
  #judge(connection: Connection, at: number): string | null {
    const { suspectAfterMs, goneAfterMs, closedGraceMs } = this.#parts.policy
    const { closedAt, closedFor, seenAt } = connection
    if (closedAt !== null) return at - closedAt >= closedGraceMs ? `its socket closed: ${closedFor}` : null
    const silentMs = at - seenAt
    if (silentMs < suspectAfterMs) return null
    if (!connection.isSuspect) connection.suspect(`silent for ${Math.round(silentMs)} ms`)
    return silentMs >= goneAfterMs ? `silent for ${Math.round(silentMs)} ms` : null
  }

  #bury(connection: Connection, reason: string, at: number): void {
    this.#deaths.push(at)
    const { nodeId, epoch } = connection
    if (epoch !== null) {
      this.#parts.post({ kind: 'nodeGone', nodeId, epoch, reason })
      this.#parts.ownNodes.gone(nodeId, epoch)
    }
    this.#end(connection, 4408, 'silent for too long')
  }

  #excuse(lateMs: number): void {
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
