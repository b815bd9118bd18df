/**
 * The servers that share the fleet. This server renews its row before it expires, and writes it soon after the use of
 * its nodes changed. It knows which other servers live. A server that cannot write its row continues with its own
 * nodes; the others only ignore it.
 */

import { createId } from '../../core/ids.ts'
import type { NodeLoad, NodeStatus, NodeView } from '../node.ts'
import type { WaitingKind } from '../registry/serve-waiting.ts'
import { TimeSlice } from '../time-limits.ts'
import type { ClusterRecord } from './cluster-store.ts'
import type { Sharing } from './server-sharing.ts'

/** The least time between two reports of use; it is longer for a server with many nodes. */
const minReportMs = 250
const nodesPerMs = 10

/** This server and the others. */
export class ServerList {
  readonly #sharing: Sharing
  /** Distinguishes this server's row from the row of another server with the same name. */
  readonly #instanceId = createId()
  #startedAt = 0
  #seen = 0
  #wroteAt = Number.NEGATIVE_INFINITY
  #wroteVersion = -1
  #writing: Promise<void> | null = null
  #isStopped = false
  #others: readonly string[] = []
  /** The other servers and their lost nodes at the last check, as text. */
  #lastOthers = '[]'

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    sharing.cluster.onRead(() => this.#updateOthers())
    sharing.cluster.onChange(({ kind, key, row }) => {
      // The row was removed or lost: write it at the next tick, so that the others do not ignore this server.
      if (kind === 'server' && key === sharing.serverId && row === undefined) {
        this.#wroteAt = Number.NEGATIVE_INFINITY
      }
    })
  }

  /** The names of the other live servers, sorted. */
  get others(): readonly string[] {
    return this.#others
  }

  /** Whether this server does the work that one server must do for all: its name is the first. */
  get isFirst(): boolean {
    return this.#others.every((other) => this.#sharing.serverId < other)
  }

  isLive(serverId: string): boolean {
    return serverId === this.#sharing.serverId || this.#others.includes(serverId)
  }

  /**
   * How many other servers live, and how many tasks wait there. It uses the store's clock, so it is also correct while
   * this process does not follow the cluster state.
   */
  get elsewhere(): { readonly serverCount: number; readonly waiting: number } {
    const docs = Array.from(this.#live(), ([, doc]) => doc)
    return { serverCount: docs.length, waiting: docs.reduce((sum, { waiting }) => sum + waiting, 0) }
  }

  /** The tasks that wait for a service at the other live servers, as they last reported. */
  waitingElsewhere(service: string): { readonly waiting: number; readonly oldestWaitMs: number } {
    const { storeNow } = this.#sharing.cluster
    let waiting = 0
    let oldestWaitMs = 0
    for (const [serverId, { services = {} }] of this.#live()) {
      const [count, waitMs] = Object.hasOwn(services, service) ? services[service]! : [0, 0]
      if (count === 0) continue
      waiting += count
      oldestWaitMs = Math.max(oldestWaitMs, waitMs + Math.max(0, storeNow - this.heardAt(serverId)))
    }
    return { waiting, oldestWaitMs: Math.round(oldestWaitMs) }
  }

  /** The other servers that live by the store's clock. */
  *#live(): Generator<readonly [serverId: string, doc: ServerDoc]> {
    const { cluster, serverId } = this.#sharing
    for (const [key, { doc, expiresAt }] of cluster.rows('server')) {
      const isOver = (expiresAt ?? Number.POSITIVE_INFINITY) <= cluster.storeNow
      if (key !== serverId && !isOver) yield [key, doc as ServerDoc]
    }
  }

  usage(serverId: string, nodeId: string): Usage | undefined {
    const usage = this.#doc(serverId)?.usage
    // Only own properties: a node may have the name `constructor`.
    return usage !== undefined && Object.hasOwn(usage, nodeId) ? usage[nodeId] : undefined
  }

  /** When a server last wrote its row. */
  heardAt(serverId: string): number {
    const row = this.#sharing.cluster.rows('server').get(serverId)
    return row === undefined ? 0 : (row.expiresAt ?? 0) - (row.doc as ServerDoc).leaseMs
  }

  /** Writes the row if it is due. Call it about every `minReportMs`. */
  tick(): void {
    const { options, monotonicMs, registry, ownNodes } = this.#sharing
    if (this.#writing !== null || this.#isStopped) return
    const sinceMs = monotonicMs() - this.#wroteAt
    const hasChanged = this.#others.length > 0 && registry.version !== this.#wroteVersion
    const reportMs = Math.max(minReportMs, ownNodes.size / nodesPerMs)
    if (sinceMs < options.serverLeaseMs / 3 && !(hasChanged && sinceMs >= reportMs)) return
    this.#writing = this.#write()
      .catch(this.#sharing.onError)
      .finally(() => {
        this.#writing = null
      })
  }

  /** Removes the row, so that the others need not wait for its lease to end. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#writing
    if (this.#seen === 0) return
    const { cluster, serverId: key } = this.#sharing
    await cluster.write({ kind: 'server', key, seen: this.#seen, doc: null, forMs: null })
  }

  async #write(): Promise<void> {
    const { cluster, options, registry, monotonicMs } = this.#sharing
    const at = monotonicMs()
    const { version: registryVersion } = registry
    const doc = await this.#encode()
    if (this.#isStopped) return
    const write = { kind: 'server', doc, forMs: options.serverLeaseMs } as const
    let version = await cluster.write({ ...write, key: this.#sharing.serverId, seen: this.#seen })
    if (version === null) {
      // An earlier process left the row, another server took this one for dead, or two servers have one name.
      const found = await this.#ownRow()
      version = await cluster.write({ ...write, key: this.#sharing.serverId, seen: found?.version ?? 0 })
    }
    if (version === null) return
    this.#seen = version
    this.#wroteAt = at
    this.#wroteVersion = registryVersion
  }

  /**
   * Finds the row of this server's name. If another live server has the name, renames this server and returns no row.
   */
  async #ownRow(): Promise<ClusterRecord | undefined> {
    const { cluster, serverId, rename } = this.#sharing
    const found = await cluster.find('server', serverId)
    if (found === undefined || found.doc === null) return found
    // `readNow` must be recent.
    await cluster.catchUp()
    const { instanceId } = JSON.parse(found.doc) as { readonly instanceId?: string }
    const isDead = (found.expiresAt ?? Number.POSITIVE_INFINITY) <= cluster.readNow
    if (isDead || instanceId === this.#instanceId) return found
    rename(`${serverId}-${createId().slice(-8)}`)
    this.#updateOthers()
    return undefined
  }

  /** Encodes the row in time slices, because the use of a large fleet is long. */
  async #encode(): Promise<string> {
    const { registry, options, now } = this.#sharing
    this.#startedAt ||= now()
    const slice = new TimeSlice()
    const parts: string[] = []
    let gone = 0
    for (const node of registry.nodes()) {
      if (node.status === 'gone') gone += 1
      parts.push(`${JSON.stringify(node.nodeId)}:${JSON.stringify(encodeUsage(node, now()))}`)
      if (slice.isOver) await slice.pause()
    }
    const head = JSON.stringify({
      ...{ startedAt: this.#startedAt, instanceId: this.#instanceId },
      ...{ leaseMs: options.serverLeaseMs, gone, waiting: registry.waitingCount },
      services: waitingByService(registry.waitingKinds(), now()),
    })
    return `${head.slice(0, -1)},"usage":{${parts.join()}}}`
  }

  #doc(serverId: string): ServerDoc | undefined {
    return this.#sharing.cluster.rows('server').get(serverId)?.doc as ServerDoc | undefined
  }

  #updateOthers(): void {
    const { cluster, serverId, serversChanged } = this.#sharing
    const others: string[] = []
    for (const [key, { expiresAt }] of cluster.rows('server')) {
      if (key !== serverId && (expiresAt ?? Number.POSITIVE_INFINITY) > cluster.readNow) others.push(key)
    }
    this.#others = others.sort()
    // The number of lost nodes matters too: it changes which kinds the others could run.
    const summary = JSON.stringify(others.map((other) => [other, this.#doc(other)?.gone]))
    if (summary === this.#lastOthers) return
    this.#lastOthers = summary
    serversChanged()
  }
}

/**
 * The use of one node, as its server writes it for the others: `[epoch, flags, cpu, gpu, memory, used…]`, with the
 * services in the order of the node's row. A service that accepts no work now has a negative number. The format is
 * short, because the row of a server holds one such list per node.
 */
export type Usage = readonly (number | null)[]

/** A server in the cluster state. */
export interface ServerDoc {
  readonly startedAt: number
  readonly leaseMs: number
  /** How many nodes the server has given up. */
  readonly gone: number
  /** How many tasks wait there. */
  readonly waiting: number
  /** By service, for the services with the most waiting tasks. Older servers do not write it. */
  readonly services?: Readonly<Record<string, readonly [waiting: number, oldestWaitMs: number]>>
  readonly usage: Readonly<Record<string, Usage>>
}

/** Submits choose the names of services, so their number in a row is limited. */
const maxServices = 1_000

export function waitingByService(
  kinds: Iterable<Pick<WaitingKind, 'waiting' | 'oldestAt' | 'asked'>>,
  now: number,
): NonNullable<ServerDoc['services']> {
  const services = new Map<string, readonly [waiting: number, oldestWaitMs: number]>()
  for (const { waiting, oldestAt, asked } of kinds) {
    if (waiting === 0) continue
    const [count, waitMs] = services.get(asked.service) ?? [0, 0]
    services.set(asked.service, [count + waiting, Math.max(waitMs, now - oldestAt)])
  }
  const most = [...services].sort(([, [a]], [, [b]]) => b - a).slice(0, maxServices)
  return Object.fromEntries(most)
}

const flags = { suspect: 1, gone: 2, draining: 4, cordoned: 8, overloaded: 16, held: 32 } as const

/** Encodes the use of a node. */
export function encodeUsage(node: NodeView, now: number): Usage {
  const { status, draining, cordoned, overloaded, heldFor, load, services } = node
  const flag =
    (status === 'ready' ? 0 : flags[status]) |
    (draining ? flags.draining : 0) |
    (cordoned ? flags.cordoned : 0) |
    (overloaded ? flags.overloaded : 0) |
    (heldFor === null ? 0 : flags.held)
  const used = services.map((service) => {
    const isOpen = !service.cordoned && (service.restsUntil ?? 0) <= now
    return isOpen ? service.used : -1 - service.used
  })
  return [node.epoch, flag, short(load.cpu), short(load.gpu), short(load.memory), ...used]
}

/** The decoded use of a node. */
export interface ReadUsage {
  readonly epoch: number
  readonly status: NodeStatus
  readonly overloaded: boolean
  readonly load: NodeLoad
  /** The node accepts new work. */
  readonly isOpen: boolean
  readonly services: readonly { readonly used: number; readonly isOpen: boolean }[]
}

export function decodeUsage([epoch, flag, cpu, gpu, memory, ...used]: Usage): ReadUsage {
  const bits = flag ?? 0
  return {
    epoch: epoch ?? 0,
    status: bits & flags.gone ? 'gone' : bits & flags.suspect ? 'suspect' : 'ready',
    overloaded: (bits & flags.overloaded) !== 0,
    load: { cpu: cpu ?? null, gpu: gpu ?? null, memory: memory ?? null },
    isOpen: bits === 0,
    services: used.map((each) => {
      const count = each ?? 0
      return { used: count < 0 ? -1 - count : count, isOpen: count >= 0 }
    }),
  }
}

function short(fraction: number | null): number | null {
  return fraction === null ? null : Math.round(fraction * 1_000) / 1_000
}
