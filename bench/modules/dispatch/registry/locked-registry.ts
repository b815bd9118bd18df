/**
 * The usual design, to compare with: one asynchronous read-write lock around a registry. Who places a task clones the
 * nodes under the read lock, filters and sorts the clones, and reserves under the write lock; heartbeats write; pools
 * are built anew from clones. The shared store is asked outside the lock, or by heartbeats under it.
 */
import { type asks, type Member, slotsPerService } from './population.ts'
import { RwLock } from './read-write-lock.ts'

interface LockedNode {
  readonly nodeId: string
  readonly language: string
  readonly slots: Readonly<Record<string, number>>
  readonly used: Record<string, number>
  cpu: number
}

/** Asks the shared store about a node; takes as long as that takes. */
export type AskStore = () => Promise<void>

export interface LockedRegistryOptions {
  readonly ask?: AskStore
  /** Whether heartbeats ask while they hold the lock. */
  readonly underLock?: boolean
  /** Of each service. */
  readonly slots?: number
}

const noStore: AskStore = async () => undefined

export class LockedRegistry {
  readonly lock: RwLock = new RwLock()
  readonly #nodes = new Map<string, LockedNode>()
  #pools = new Map<string, readonly string[]>()
  readonly #ask: AskStore
  readonly #asksUnderLock: boolean

  constructor(
    members: readonly Member[],
    { ask = noStore, underLock = false, slots = slotsPerService }: LockedRegistryOptions = {},
  ) {
    this.#ask = ask
    this.#asksUnderLock = underLock
    for (const { nodeId, language, services } of members) {
      const each = Object.fromEntries(services.map(({ name }) => [name, slots]))
      const used = Object.fromEntries(services.map(({ name }) => [name, 0]))
      this.#nodes.set(nodeId, { nodeId, language, slots: each, used, cpu: 0 })
    }
  }

  /** The node that has a slot for it now. */
  async dispatch({
    service,
    language,
  }: Pick<(typeof asks)[number], 'service' | 'language'>): Promise<string> {
    const clones = await this.#clone()
    if (this.#ask !== noStore) await this.#ask()
    const fitting = clones
      .filter((node) => node.language === language && node.used[service]! < node.slots[service]!)
      .sort((a, b) => loadOf(a, service) - loadOf(b, service))
    return this.lock.write(() => {
      for (const { nodeId } of fitting) {
        const node = this.#nodes.get(nodeId)!
        if (node.used[service]! >= node.slots[service]!) continue
        node.used[service]!++
        return nodeId
      }
      throw new Error(`no node has room for ${service}`)
    })
  }

  release(nodeId: string, service: string): Promise<void> {
    return this.lock.write(() => {
      this.#nodes.get(nodeId)!.used[service]!--
    })
  }

  async heartbeat(nodeId: string, cpu: number): Promise<void> {
    await this.lock.write(async () => {
      this.#nodes.get(nodeId)!.cpu = cpu
      // Which pools it belongs to is decided by what the store says.
      if (this.#asksUnderLock) await this.#ask()
    })
    if (!this.#asksUnderLock) await this.#ask()
  }

  async rebuild(): Promise<void> {
    const pools = new Map<string, string[]>()
    for (const { nodeId, language } of await this.#clone()) {
      const members = pools.get(language)
      if (members) members.push(nodeId)
      else pools.set(language, [nodeId])
    }
    await this.lock.write(() => {
      this.#pools = pools
    })
  }

  get poolCount(): number {
    return this.#pools.size
  }

  #clone(): Promise<LockedNode[]> {
    return this.lock.read(() =>
      Array.from(this.#nodes.values(), (node) => ({
        ...node,
        slots: { ...node.slots },
        used: { ...node.used },
      })),
    )
  }
}

function loadOf({ used, slots, cpu }: LockedNode, service: string): number {
  return used[service]! / slots[service]! + cpu
}
