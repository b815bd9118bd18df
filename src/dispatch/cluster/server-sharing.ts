/**
 * Several servers share one fleet. The server that holds a node's socket owns the node, and only its registry places
 * work there. So no slot is assigned twice, and no reservation is stored. The cluster state holds the owner of each
 * node and the demands of tasks. A task reaches a node when the node's owner claims it.
 *
 *   hello ─▶ ownNodes ─row─▶ cluster ◀─rows─ other servers        demands ─▶ kinds ─▶ claims
 *                              ├─▶ settings ─▶ registry         servers, otherNodes ─▶ balancing ─▶ yielded tasks
 *                              └─▶ otherNodes
 */
import type { ResolvedDispatchOptions } from '../dispatch-options.ts'
import type { Engine } from '../engine.ts'
import type { NodeView } from '../node.ts'
import type { Mailbox } from '../registry/mailbox.ts'
import type { Registry } from '../registry/registry.ts'
import { inTime } from '../time-limits.ts'
import { Balancing } from './balancing.ts'
import { ClaimKinds } from './claim-kinds.ts'
import { ClusterDemands } from './cluster-demands.ts'
import { ClusterSettings } from './cluster-settings.ts'
import { ClusterState } from './cluster-state.ts'
import type { ClusterStore } from './cluster-store.ts'
import { ClusterUpkeep } from './cluster-upkeep.ts'
import { OtherNodes } from './other-nodes.ts'
import { OwnNodes } from './own-nodes.ts'
import { ServerList } from './server-list.ts'

const tickMs = 200
const upkeepEveryMs = 5_000
/** How often to poll if there are other servers and wake-ups do not reach other processes. */
const pollMs = { cluster: 200, claims: 50, cancellations: 500 } as const
const quietPollMs = 1_000

/** The cooperation with other servers. Its parts take the members that they need. */
export class Sharing {
  readonly options: ResolvedDispatchOptions
  readonly registry: Registry
  readonly mailbox: Mailbox
  readonly now: () => number
  readonly monotonicMs: () => number
  readonly onError: (error: unknown) => void
  readonly store: ClusterStore
  readonly cluster: ClusterState
  readonly settings: ClusterSettings
  readonly ownNodes: OwnNodes
  readonly otherNodes: OtherNodes
  readonly servers: ServerList
  readonly demands: ClusterDemands
  readonly kinds: ClaimKinds
  /** This server's name. It changes if another live server has the same. */
  serverId: string
  /** This process reads the cluster state continuously. */
  isFollowing = false
  readonly #engine: Engine
  readonly #balancing: Balancing
  readonly #upkeep: ClusterUpkeep
  #intervals: NodeJS.Timeout[] = []
  #isUpkeeping = false
  #leaving: Promise<void> | null = null

  constructor(engine: Engine) {
    const { options, registry, mailbox, notifier, now, monotonicMs, onError, parts } = engine
    this.#engine = engine
    this.options = options
    this.registry = registry
    this.mailbox = mailbox
    this.now = now
    this.monotonicMs = monotonicMs
    this.onError = onError
    this.serverId = options.workerId
    this.store = parts.cluster
    this.cluster = new ClusterState({ store: parts.cluster, notifier, monotonicMs, onError })
    this.settings = new ClusterSettings(this)
    this.ownNodes = new OwnNodes(this)
    this.otherNodes = new OtherNodes(this)
    this.servers = new ServerList(this)
    this.demands = new ClusterDemands(this)
    this.kinds = new ClaimKinds(this)
    this.#balancing = new Balancing(this)
    this.#upkeep = new ClusterUpkeep(this)
  }

  /** Called when nodes or their offers changed. */
  readonly changed = (): void => this.kinds.changed()

  /** Called when there may be tasks to claim. */
  readonly wake = (): void => this.#engine.fetcher.wake()

  /** Called when other servers started or died, or lost nodes. */
  readonly serversChanged = (): void => {
    this.changed()
    this.wake()
  }

  /** The lowest epoch that the registry can give to the node. */
  readonly leastEpoch = (nodeId: string): number => {
    const node = this.registry.node(nodeId)
    return node?.status === 'gone' ? node.epoch + 1 : 0
  }

  /** Called when another server owns the node now, as the same instance or as a new one. */
  readonly lost = (nodeId: string, epoch: number, elsewhere: 'moved' | 'superseded'): void => {
    this.#engine.connections.close(nodeId, epoch, 4408, 'connected to another server')
    this.mailbox.post({ kind: 'nodeBye', nodeId, epoch, elsewhere })
  }

  /** Renames this server, because another live server has its name. */
  readonly rename = (renamedTo: string): void => {
    this.#engine.log({ name: 'server.name_taken', serverId: this.serverId, renamedTo })
    this.serverId = renamedTo
    this.ownNodes.renamed()
    this.changed()
  }

  /** Resolves when the cluster state is loaded and the registry has applied the settings of operators. */
  async start(): Promise<void> {
    const { leaseRenewer, parts } = this.#engine
    const isShared = () => this.servers.others.length > 0
    this.isFollowing = true
    this.cluster.follow(quietPollMs)
    this.servers.tick()
    this.#intervals = [
      setInterval(() => this.#tick(), tickMs),
      setInterval(() => void this.#tidy(), upkeepEveryMs),
    ]
    if (!parts.remoteWakeUps) {
      this.#intervals.push(
        setInterval(() => isShared() && this.wake(), pollMs.claims),
        setInterval(() => isShared() && this.cluster.look(), pollMs.cluster),
        setInterval(() => isShared() && leaseRenewer.checkCancellations(), pollMs.cancellations),
      )
    }
    await this.cluster.loaded
    await this.settings.applied()
  }

  /** Removes this server's row. The rows of its nodes stay: they connect to another server under the same epoch. */
  leave(): Promise<void> {
    // If this fails, the lease of the row ends.
    this.#leaving ??= this.servers.stop().catch(this.onError)
    return this.#leaving
  }

  async stop(withinMs: number): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval)
    this.isFollowing = false
    this.ownNodes.stop()
    // If the cluster state does not answer, the other servers notice when the lease ends.
    const left = inTime(withinMs, () => this.leave()).catch(this.onError)
    await Promise.all([this.cluster.stop(withinMs), left])
  }

  /** All nodes, of this server and of the others. */
  *nodes(): Generator<NodeView> {
    const { ownNodes, otherNodes } = this
    for (const node of this.registry.nodes()) {
      // A node that went to another server is shown as that server's node.
      if (ownNodes.has(node.nodeId) || !otherNodes.has(node.nodeId)) yield node
    }
    for (const node of otherNodes.views()) if (!ownNodes.has(node.nodeId)) yield node
  }

  node(nodeId: string): NodeView | undefined {
    const here = this.registry.node(nodeId)
    if (here !== undefined && this.ownNodes.has(nodeId)) return here
    return this.otherNodes.view(nodeId) ?? here
  }

  #tick(): void {
    this.servers.tick()
    if (this.servers.others.length === 0) return
    this.#balancing.check().catch(this.onError)
  }

  async #tidy(): Promise<void> {
    this.ownNodes.rewriteLost()
    this.#engine.connections.registerMissing()
    if (this.#isUpkeeping) return
    this.#isUpkeeping = true
    try {
      await this.demands.renewRows()
      await this.#upkeep.run()
    } catch (error) {
      this.onError(error)
    } finally {
      this.#isUpkeeping = false
    }
  }
}
