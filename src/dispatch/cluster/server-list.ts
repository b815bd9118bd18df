/**
 * The servers that share the fleet: this one's row, written anew before it runs out and soon after its nodes' use
 * changed, and which of the others live. A server that cannot write its row goes on with its own nodes; others only
 * stop counting on it.
 */

import { createId } from '../../core/ids.ts'
import type { NodeLoad, NodeStatus, NodeView } from '../node.ts'
import type { WaitingKind } from '../registry/serve-waiting.ts'
import { Stretch } from '../time-limits.ts'
import type { ClusterRecord } from './cluster-store.ts'
import type { Sharing } from './server-sharing.ts'

/** News of use go out this often at most, and more slowly from a server with many nodes. */
const leastMs = 250
const nodesPerMs = 10

/** This server and the others. */
export class ServerList {
  readonly #sharing: Sharing
  /** Distinguishes this server's row from that of another one of the same name. */
  readonly #instanceId = createId()
  #startedAt = 0
  #seen = 0
  #wroteAt = Number.NEGATIVE_INFINITY
  #wroteVersion = -1
  #writing: Promise<void> | null = null
  #isStopped = false
  #others: readonly string[] = []
  #picture = '[]'

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    sharing.cluster.onRead(() => this.#look())
    sharing.cluster.onChange(({ kind, key, row }) => {
      // Taken away, or lost: the others must not do without this server until its next turn.
      if (kind === 'server' && key === sharing.serverId && row === undefined) {
        this.#wroteAt = Number.NEGATIVE_INFINITY
      }
    })
  }

  /** The other servers that live, by name. */
  get others(): readonly string[] {
    return this.#others
  }

  /** The one of all that does what any one may do. */
  get isFirst(): boolean {
    return this.#others.every((other) => this.#sharing.serverId < other)
  }

  isLive(serverId: string): boolean {
    return serverId === this.#sharing.serverId || this.#others.includes(serverId)
  }

  /**
   * How many others live by the store's clock, also when this process does not follow it, and how many tasks wait
   * there.
   */
  get elsewhere(): { readonly serverCount: number; readonly waiting: number } {
    const docs = Array.from(this.#live(), ([, doc]) => doc)
    return { serverCount: docs.length, waiting: docs.reduce((sum, { waiting }) => sum + waiting, 0) }
  }

  /** What waits for a service at the other servers that live, as they last wrote. */
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

  /** The others that live by the store's clock. */
  *#live(): Generator<readonly [serverId: string, doc: ServerDoc]> {
    const { cluster, serverId } = this.#sharing
    for (const [key, { doc, expiresAt }] of cluster.rows('server')) {
      const isOver = (expiresAt ?? Number.POSITIVE_INFINITY) <= cluster.storeNow
      if (key !== serverId && !isOver) yield [key, doc as ServerDoc]
    }
  }

  usage(serverId: string, nodeId: string): Usage | undefined {
    const usage = this.#doc(serverId)?.usage
    // Own ones only: a node may be called `constructor`.
    return usage !== undefined && Object.hasOwn(usage, nodeId) ? usage[nodeId] : undefined
  }

  /** When a server was last heard of, by its own row. */
  heardAt(serverId: string): number {
    const row = this.#sharing.cluster.rows('server').get(serverId)
    return row === undefined ? 0 : (row.expiresAt ?? 0) - (row.doc as ServerDoc).leaseMs
  }

  /** Writes the row if it is time to; to be called every `leastMs` or so. */
  tick(): void {
    const { options, monotonicMs, registry, ownNodes } = this.#sharing
    if (this.#writing !== null || this.#isStopped) return
    const sinceMs = monotonicMs() - this.#wroteAt
    const isNews = this.#others.length > 0 && registry.version !== this.#wroteVersion
    const newsMs = Math.max(leastMs, ownNodes.size / nodesPerMs)
    if (sinceMs < options.serverLeaseMs / 3 && !(isNews && sinceMs >= newsMs)) return
    this.#writing = this.#write()
      .catch(this.#sharing.onTrouble)
      .finally(() => {
        this.#writing = null
      })
  }

  /** Takes the row away: the others need not wait for its lease to end. */
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
    const { version } = registry
    const doc = await this.#encode()
    if (this.#isStopped) return
    const write = { kind: 'server', doc, forMs: options.serverLeaseMs } as const
    let took = await cluster.write({ ...write, key: this.#sharing.serverId, seen: this.#seen })
    if (took === null) {
      // An earlier process left the row, another server took this one for dead, or two servers have one name.
      const found = await this.#ownRow()
      took = await cluster.write({ ...write, key: this.#sharing.serverId, seen: found?.version ?? 0 })
    }
    if (took === null) return
    this.#seen = took
    this.#wroteAt = at
    this.#wroteVersion = version
  }

  /** The row of this server's name, which is a new name when another live server has the old one. */
  async #ownRow(): Promise<ClusterRecord | undefined> {
    const { cluster, serverId, rename } = this.#sharing
    const found = await cluster.find('server', serverId)
    if (found === undefined || found.doc === null) return found
    // For the store's clock.
    await cluster.catchUp()
    const { instanceId } = JSON.parse(found.doc) as { readonly instanceId?: string }
    const isDead = (found.expiresAt ?? Number.POSITIVE_INFINITY) <= cluster.readNow
    if (isDead || instanceId === this.#instanceId) return found
    rename(`${serverId}-${createId().slice(-8)}`)
    this.#look()
    return undefined
  }

  /** In pieces: a large fleet's use is long. */
  async #encode(): Promise<string> {
    const { registry, options, now } = this.#sharing
    this.#startedAt ||= now()
    const stretch = new Stretch()
    const parts: string[] = []
    let gone = 0
    for (const node of registry.nodes()) {
      if (node.status === 'gone') gone += 1
      parts.push(`${JSON.stringify(node.nodeId)}:${JSON.stringify(encodeUsage(node, now()))}`)
      if (stretch.isOver) await stretch.pause()
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

  #look(): void {
    const { cluster, serverId, serversChanged } = this.#sharing
    const others: string[] = []
    for (const [key, { expiresAt }] of cluster.rows('server')) {
      if (key !== serverId && (expiresAt ?? Number.POSITIVE_INFINITY) > cluster.readNow) others.push(key)
    }
    this.#others = others.sort()
    // Nodes that were given up, or came back, make a difference too.
    const picture = JSON.stringify(others.map((other) => [other, this.#doc(other)?.gone]))
    if (picture === this.#picture) return
    this.#picture = picture
    serversChanged()
  }
}

/**
 * How busy one node is, as its server writes it for the others: `[epoch, flags, cpu, gpu, memory, used…]`, with the
 * services in the order of the node's row. A service that takes no work now has a number below zero. The row of a
 * server holds one such list a node, so it is short.
 */
export type Usage = readonly (number | null)[]

/** A server in the cluster state. */
export interface ServerDoc {
  readonly startedAt: number
  readonly leaseMs: number
  /** Nodes that it has given up. */
  readonly gone: number
  /** Tasks that wait there. */
  readonly waiting: number
  /** The same by service, those with the most: how many, and how long the oldest waits. Older servers write none. */
  readonly services?: Readonly<Record<string, readonly [waiting: number, oldestWaitMs: number]>>
  readonly usage: Readonly<Record<string, Usage>>
}

/** Tasks name services, so a row has a bounded number of them. */
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

/** A node's use in numbers. */
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

/** What is to be read from it. */
export interface ReadUsage {
  readonly epoch: number
  readonly status: NodeStatus
  readonly overloaded: boolean
  readonly load: NodeLoad
  /** It takes new work. */
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
