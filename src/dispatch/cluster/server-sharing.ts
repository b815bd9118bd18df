/**
 * Several servers, one fleet. The server that holds a node's socket owns the node, and its registry alone places work
 * there; so no slot is ever given out twice, and no reservation is written anywhere. The board says who owns which node
 * and what tasks ask for; tasks find the owner by being claimed by it.
 *
 *   hello ─▶ holdings ─row─▶ board ◀─rows─ other servers        demands ─▶ kinds ─▶ what intake claims
 *                              ├─▶ settings ─▶ registry         roster, fleet ─▶ balancing ─▶ what goes back
 *                              └─▶ fleet: the others' nodes
 */
import type { JobsBell } from '../../jobs/index.ts'
import type { ResolvedDispatchOptions } from '../dispatch-options.ts'
import type { DispatchEvent } from '../effect-runner.ts'
import type { Snapshot } from '../fleet-snapshot.ts'
import { inTime } from '../in-time.ts'
import { Suitability } from '../matching/suitability.ts'
import type { NodeView } from '../node.ts'
import type { Command } from '../registry/command.ts'
import type { Mailbox } from '../registry/mailbox.ts'
import type { Registry } from '../registry/registry.ts'
import { Balancing } from './balancing.ts'
import { ClaimKinds } from './claim-kinds.ts'
import { Board } from './cluster-state.ts'
import { BoardUpkeep } from './cluster-upkeep.ts'
import { DemandBoard } from './demand-state.ts'
import type { FleetStore } from './fleet-store.ts'
import { Holdings } from './own-nodes.ts'
import { Roster } from './server-list.ts'
import { SettingsBoard } from './settings-state.ts'
import { SharedFleet } from './shared-fleet.ts'

/** What sharing needs. */
export interface SharingParts {
  readonly store: FleetStore
  readonly bell: JobsBell
  /** Rings reach other processes. */
  readonly remoteBell: boolean
  readonly options: ResolvedDispatchOptions
  readonly registry: Registry
  readonly mailbox: Mailbox
  readonly snapshot: Snapshot
  readonly now: () => number
  readonly monotonicMs: () => number
  /** A node belongs to another server now: its connection here is closed. */
  readonly dismiss: (nodeId: string, epoch: number) => void
  /** Nodes that are connected here and held by nobody are put on the board again. */
  readonly mendNodes: () => void
  /** There may be something to claim. */
  readonly ring: () => void
  /** Wishes to cancel may have come that nobody rang for. */
  readonly hearWishes: () => void
  readonly log: (event: DispatchEvent) => void
  readonly onTrouble: (error: unknown) => void
}

const tickMs = 200
const upkeepEveryMs = 5_000
/** Where rings do not reach other processes, and there are others. */
const pollMs = { board: 200, claims: 50, wishes: 500 } as const
const quietPollMs = 1_000

/** All that servers have to do with each other. */
export class Sharing {
  readonly board: Board
  readonly settings: SettingsBoard
  readonly holdings: Holdings
  readonly roster: Roster
  readonly demands: DemandBoard
  readonly fleet: SharedFleet
  readonly kinds: ClaimKinds
  readonly #parts: SharingParts
  readonly #balancing: Balancing
  readonly #upkeep: BoardUpkeep
  #intervals: NodeJS.Timeout[] = []
  #isUpkeeping = false
  #isFollowing = false
  #leaving: Promise<void> | null = null

  constructor(parts: SharingParts) {
    const { store, bell, registry, mailbox, snapshot, now, monotonicMs, onTrouble } = parts
    const { workerId, serverLeaseMs } = parts.options
    // Read whenever it is needed: it changes when another server that lives has the same.
    const own = { serverId: workerId }
    this.#parts = parts
    const board = new Board({ store, bell, monotonicMs, onTrouble })
    const changed = () => this.kinds.changed()
    const post = (command: Command) => mailbox.post(command)
    this.board = board
    this.settings = new SettingsBoard({
      ...{ board, mailbox, now, monotonicMs },
      isHere: (nodeId) => this.holdings.has(nodeId),
    })
    this.holdings = new Holdings({
      ...{ board, monotonicMs, changed, onTrouble },
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
    this.roster = new Roster({
      ...{ board, leaseMs: serverLeaseMs, snapshot, now, monotonicMs, onTrouble },
      get serverId() {
        return own.serverId
      },
      rename: (renamedTo) => {
        parts.log({ name: 'server.name_taken', serverId: own.serverId, renamedTo })
        own.serverId = renamedTo
        this.holdings.renamed()
        this.fleet.renamed()
        changed()
      },
      waiting: () => registry.counts().waiting,
      ownCount: () => this.holdings.size,
      changed: () => {
        changed()
        parts.ring()
      },
    })
    this.demands = new DemandBoard({
      ...{ board, monotonicMs, onTrouble },
      isFollowing: () => this.#isFollowing,
      held: () => registry.heldKinds(),
    })
    const { settings, holdings, roster, demands } = this
    const suitability = new Suitability(() => settings.rules)
    this.fleet = new SharedFleet({
      ...{ board, roster, settings, suitability, changed },
      get serverId() {
        return own.serverId
      },
    })
    const { fleet } = this
    this.kinds = new ClaimKinds({
      ...{ board, demands, holdings, fleet, roster, settings, suitability, monotonicMs, onTrouble },
      ring: parts.ring,
    })
    this.#balancing = new Balancing({
      ...{ board, fleet, demands, holdings, settings, suitability, kinds: this.kinds },
      ...{ post, now, monotonicMs, onTrouble },
      waiting: () => registry.waitingKinds(),
      ownNodes: () => snapshot.nodes(),
    })
    this.#upkeep = new BoardUpkeep({
      ...{ board, store, roster, holdings, monotonicMs },
      get serverId() {
        return own.serverId
      },
    })
  }

  /** Resolves when the board was read, and the registry knows what operators decided. */
  async start(): Promise<void> {
    const { remoteBell, ring, hearWishes } = this.#parts
    const isShared = () => this.roster.others.length > 0
    this.#isFollowing = true
    this.board.follow(quietPollMs)
    this.roster.tick()
    this.#intervals = [
      setInterval(() => this.#tick(), tickMs),
      setInterval(() => void this.#tidy(), upkeepEveryMs),
    ]
    if (!remoteBell) {
      this.#intervals.push(
        setInterval(() => isShared() && ring(), pollMs.claims),
        setInterval(() => isShared() && this.board.look(), pollMs.board),
        setInterval(() => isShared() && hearWishes(), pollMs.wishes),
      )
    }
    await this.board.loaded
    await this.settings.applied()
  }

  /** Tells the others not to count on this server. Its nodes' rows stay: they come back elsewhere as who they are. */
  leave(): Promise<void> {
    // Its lease runs out where this does not work.
    this.#leaving ??= this.roster.stop().catch(this.#parts.onTrouble)
    return this.#leaving
  }

  async stop(withinMs: number): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval)
    this.#isFollowing = false
    this.holdings.stop()
    // A board that does not answer learns of it by the lease.
    const left = inTime(withinMs, () => this.leave()).catch(this.#parts.onTrouble)
    await Promise.all([this.board.stop(withinMs), left])
  }

  /** All nodes, of this server and of the others. */
  *nodes(): Generator<NodeView> {
    const { holdings, fleet } = this
    for (const node of this.#parts.snapshot.nodes()) {
      // One that went to another server is shown as that one's.
      if (holdings.has(node.nodeId) || !fleet.has(node.nodeId)) yield node
    }
    for (const node of fleet.views()) if (!holdings.has(node.nodeId)) yield node
  }

  node(nodeId: string): NodeView | undefined {
    const here = this.#parts.registry.node(nodeId)
    if (here !== undefined && this.holdings.has(nodeId)) return here
    return this.fleet.view(nodeId) ?? here
  }

  #tick(): void {
    this.roster.tick()
    if (this.roster.others.length === 0) return
    this.#balancing.look().catch(this.#parts.onTrouble)
  }

  async #tidy(): Promise<void> {
    this.holdings.mend()
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
