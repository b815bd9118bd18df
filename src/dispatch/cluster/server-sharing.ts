/**
 * Several servers, one fleet. The server that holds a node's socket owns the node, and its registry alone places work
 * there; so no slot is ever given out twice, and no reservation is written anywhere. The cluster state says which server owns which node
 * and what tasks ask for; tasks find the owner by being claimed by it.
 *
 *   hello ─▶ ownNodes ─row─▶ cluster ◀─rows─ other servers        demands ─▶ kinds ─▶ claims
 *                              ├─▶ settings ─▶ registry         servers, otherNodes ─▶ balancing ─▶ what goes back
 *                              └─▶ otherNodes
 */
import type { JobsNotifier } from '../../jobs/index.ts'
import type { ResolvedDispatchOptions } from '../dispatch-options.ts'
import type { DispatchEvent } from '../effect-runner.ts'
import type { NodeView } from '../node.ts'
import type { Snapshot } from '../node-snapshot.ts'
import type { Command } from '../registry/command.ts'
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

/** What sharing needs. */
export interface SharingParts {
  readonly store: ClusterStore
  readonly notifier: JobsNotifier
  /** Wake-ups reach other processes. */
  readonly remoteWakeUps: boolean
  readonly options: ResolvedDispatchOptions
  readonly registry: Registry
  readonly mailbox: Mailbox
  readonly snapshot: Snapshot
  readonly now: () => number
  readonly monotonicMs: () => number
  /** A node belongs to another server now: its connection here is closed. */
  readonly dismiss: (nodeId: string, epoch: number) => void
  /** Writes connected nodes that the cluster state lacks. */
  readonly mendNodes: () => void
  /** There may be something to claim. */
  readonly wake: () => void
  /** Cancellation requests may have come that no wake-up announced. */
  readonly checkCancellations: () => void
  readonly log: (event: DispatchEvent) => void
  readonly onTrouble: (error: unknown) => void
}

const tickMs = 200
const upkeepEveryMs = 5_000
/** Where wake-ups do not reach other processes, and there are others. */
const pollMs = { cluster: 200, claims: 50, cancellations: 500 } as const
const quietPollMs = 1_000

/** All that servers have to do with each other. */
export class Sharing {
  readonly cluster: ClusterState
  readonly settings: ClusterSettings
  readonly ownNodes: OwnNodes
  readonly servers: ServerList
  readonly demands: ClusterDemands
  readonly otherNodes: OtherNodes
  readonly kinds: ClaimKinds
  readonly #parts: SharingParts
  readonly #balancing: Balancing
  readonly #upkeep: ClusterUpkeep
  #intervals: NodeJS.Timeout[] = []
  #isUpkeeping = false
  #isFollowing = false
  #leaving: Promise<void> | null = null

  constructor(parts: SharingParts) {
    const { store, notifier, registry, mailbox, snapshot, now, monotonicMs, onTrouble } = parts
    const { workerId, serverLeaseMs } = parts.options
    // Read whenever it is needed: it changes when another server that lives has the same.
    const own = { serverId: workerId }
    this.#parts = parts
    const cluster = new ClusterState({ store, notifier, monotonicMs, onTrouble })
    const changed = () => this.kinds.changed()
    const post = (command: Command) => mailbox.post(command)
    this.cluster = cluster
    this.settings = new ClusterSettings({
      ...{ cluster, mailbox, now, monotonicMs },
      isHere: (nodeId) => this.ownNodes.has(nodeId),
    })
    this.ownNodes = new OwnNodes({
      ...{ cluster, monotonicMs, changed, onTrouble },
      get serverId() {
        return own.serverId
      },
      leastEpoch: (nodeId) => {
        const node = registry.node(nodeId)
        return node?.status === 'gone' ? node.epoch + 1 : 0
      },
      lost: (nodeId, epoch, elsewhere) => {
        parts.dismiss(nodeId, epoch)
        post({ kind: 'nodeBye', nodeId, epoch, elsewhere })
      },
    })
    this.servers = new ServerList({
      ...{ cluster, leaseMs: serverLeaseMs, snapshot, now, monotonicMs, onTrouble },
      get serverId() {
        return own.serverId
      },
      rename: (renamedTo) => {
        parts.log({ name: 'server.name_taken', serverId: own.serverId, renamedTo })
        own.serverId = renamedTo
        this.ownNodes.renamed()
        this.otherNodes.renamed()
        changed()
      },
      waiting: () => registry.counts().waiting,
      ownCount: () => this.ownNodes.size,
      changed: () => {
        changed()
        parts.wake()
      },
    })
    this.demands = new ClusterDemands({
      ...{ cluster, monotonicMs, onTrouble },
      isFollowing: () => this.#isFollowing,
      held: () => registry.heldKinds(),
    })
    const { settings, ownNodes, servers, demands } = this
    this.otherNodes = new OtherNodes({
      ...{ cluster, servers, settings, changed },
      get serverId() {
        return own.serverId
      },
    })
    const { otherNodes } = this
    this.kinds = new ClaimKinds({
      ...{ cluster, demands, ownNodes, otherNodes, servers, settings, monotonicMs, onTrouble },
      wake: parts.wake,
    })
    this.#balancing = new Balancing({
      ...{ otherNodes, demands, ownNodes, settings, kinds: this.kinds },
      ...{ post, now, monotonicMs, onTrouble },
      waiting: () => registry.waitingKinds(),
      nodeViews: () => snapshot.nodes(),
    })
    this.#upkeep = new ClusterUpkeep({
      ...{ cluster, store, servers, ownNodes, monotonicMs },
      get serverId() {
        return own.serverId
      },
    })
  }

  /** Resolves when the cluster state was read, and the registry knows what operators decided. */
  async start(): Promise<void> {
    const { remoteWakeUps, wake, checkCancellations } = this.#parts
    const isShared = () => this.servers.others.length > 0
    this.#isFollowing = true
    this.cluster.follow(quietPollMs)
    this.servers.tick()
    this.#intervals = [
      setInterval(() => this.#tick(), tickMs),
      setInterval(() => void this.#tidy(), upkeepEveryMs),
    ]
    if (!remoteWakeUps) {
      this.#intervals.push(
        setInterval(() => isShared() && wake(), pollMs.claims),
        setInterval(() => isShared() && this.cluster.look(), pollMs.cluster),
        setInterval(() => isShared() && checkCancellations(), pollMs.cancellations),
      )
    }
    await this.cluster.loaded
    await this.settings.applied()
  }

  /** Removes this server's row. The rows of its nodes stay: they connect to another server under the same epoch. */
  leave(): Promise<void> {
    // Its lease runs out where this does not work.
    this.#leaving ??= this.servers.stop().catch(this.#parts.onTrouble)
    return this.#leaving
  }

  async stop(withinMs: number): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval)
    this.#isFollowing = false
    this.ownNodes.stop()
    // A cluster state that does not answer learns of it by the lease.
    const left = inTime(withinMs, () => this.leave()).catch(this.#parts.onTrouble)
    await Promise.all([this.cluster.stop(withinMs), left])
  }

  /** All nodes, of this server and of the others. */
  *nodes(): Generator<NodeView> {
    const { ownNodes, otherNodes } = this
    for (const node of this.#parts.snapshot.nodes()) {
      // One that went to another server is shown as that one's.
      if (ownNodes.has(node.nodeId) || !otherNodes.has(node.nodeId)) yield node
    }
    for (const node of otherNodes.views()) if (!ownNodes.has(node.nodeId)) yield node
  }

  node(nodeId: string): NodeView | undefined {
    const here = this.#parts.registry.node(nodeId)
    if (here !== undefined && this.ownNodes.has(nodeId)) return here
    return this.otherNodes.view(nodeId) ?? here
  }

  #tick(): void {
    this.servers.tick()
    if (this.servers.others.length === 0) return
    this.#balancing.look().catch(this.#parts.onTrouble)
  }

  async #tidy(): Promise<void> {
    this.ownNodes.mend()
    this.#parts.mendNodes()
    if (this.#isUpkeeping) return
    this.#isUpkeeping = true
    try {
      await this.demands.lookOver()
      await this.#upkeep.look()
    } catch (error) {
      this.#parts.onTrouble(error)
    } finally {
      this.#isUpkeeping = false
    }
  }
}
