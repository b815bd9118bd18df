/**
 * How busy a server's nodes are, as it tells the others: one short list a node, `[epoch, flags, cpu, gpu, memory, used…]`,
 * with the services in the order of the node's row. A service that takes no work just now has its number below zero.
 */
import type { NodeLoad, NodeStatus, NodeView } from '../node.ts'

/** One node's use. */
export type Usage = readonly (number | null)[]

/** A server in the cluster state. */
export interface ServerDoc {
  readonly startedAt: number
  readonly leaseMs: number
  /** Nodes that it has given up. */
  readonly gone: number
  /** Tasks that wait there. */
  readonly waiting: number
  readonly usage: Readonly<Record<string, Usage>>
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
