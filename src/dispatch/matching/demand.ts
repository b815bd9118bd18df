/**
 * The demands of tasks, each distinct demand once. A shape tells how many slots of which services a task takes; a
 * demand is a shape with requirements. Tasks of one demand share one wait queue and are matched with pools together.
 */

import type { TaskSpec, Term } from '../node.ts'
import { WaitQueue } from '../registry/wait-queue.ts'

/** Slots by service. */
export interface Shape {
  readonly key: string
  readonly names: readonly string[]
  readonly weights: readonly number[]
  readonly total: number
}

/** The requirements of a task. */
export type Asked = Pick<TaskSpec, 'service' | 'uses' | 'requires'>

/** The requirements of all tasks of one kind. */
export type TaskKind = Pick<TaskSpec, 'kind' | 'uses' | 'requires'>

/** A shape with requirements, and the wait queue of its tasks. */
export class Demand {
  readonly key: string
  readonly kind: string
  readonly shape: Shape
  /** All terms that must hold, including one for each service of the shape. */
  readonly requires: readonly Term[]
  readonly prefers: readonly Term[]
  /** The requirements as its tasks state them. */
  readonly asked: Asked
  readonly waitQueue: WaitQueue = new WaitQueue()
  /** How many tasks in the registry have this demand. */
  taskCount = 0
  /** `Demands` forgot this demand: the next task with the same requirements gets a new one. */
  isDropped = false

  constructor(key: string, shape: Shape, { kind, service, uses, requires, prefers }: TaskSpec) {
    this.key = key
    this.kind = kind
    this.shape = shape
    this.requires = [...shape.names.map((service) => ({ service })), ...requires]
    this.prefers = prefers
    this.asked = { service, uses, requires }
  }
}

/** How many demands are checked for removal when a new one is added. */
const checksPerTrim = 8

/** Recent demands. Beyond the limit, the least recently used ones without tasks are forgotten. */
export class Demands {
  /** In the order of their last use. */
  readonly #demands = new Map<string, Demand>()
  readonly #limit: number
  readonly #onAdd: (demand: Demand) => void
  readonly #onDrop: (demand: Demand) => void

  constructor(limit: number, onAdd: (demand: Demand) => void, onDrop: (demand: Demand) => void) {
    this.#limit = limit
    this.#onAdd = onAdd
    this.#onDrop = onDrop
  }

  get size(): number {
    return this.#demands.size
  }

  values(): IterableIterator<Demand> {
    return this.#demands.values()
  }

  /** The demand of a task. */
  of(spec: TaskSpec): Demand {
    const { kind, uses, requires, prefers } = spec
    const shapeKey = keyOfUses(uses)
    const isPlain = requires.length === 0 && prefers.length === 0
    // Tasks are handed back by kind, so each kind has its own wait queue, even if two kinds have the same requirements.
    const key = `${shapeKey}${isPlain ? '' : JSON.stringify([requires, prefers])}\n${kind}`
    const known = this.#demands.get(key)
    if (known !== undefined) {
      this.#touch(known)
      return known
    }
    const demand = new Demand(key, shapeOf(uses, shapeKey), spec)
    this.#trim()
    this.#onAdd(demand)
    this.#demands.set(key, demand)
    return demand
  }

  #touch(demand: Demand): void {
    this.#demands.delete(demand.key)
    this.#demands.set(demand.key, demand)
  }

  /** Removes unused demands beyond the limit. Demands with tasks stay, even beyond it. */
  #trim(): void {
    let left = Math.min(checksPerTrim, this.#demands.size)
    for (const demand of this.#demands.values()) {
      if (this.#demands.size < this.#limit || left === 0) return
      if (demand.taskCount === 0) this.#drop(demand)
      else this.#touch(demand)
      left -= 1
    }
  }

  #drop(demand: Demand): void {
    this.#demands.delete(demand.key)
    demand.isDropped = true
    this.#onDrop(demand)
  }
}

/** The shape of a task's slots by service. */
export function shapeOf(uses: Readonly<Record<string, number>>, key: string = keyOfUses(uses)): Shape {
  const names = Object.keys(uses).sort()
  const weights = names.map((name) => uses[name]!)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return { key, names, weights, total }
}

function keyOfUses(uses: Readonly<Record<string, number>>): string {
  const names = Object.keys(uses)
  if (names.length === 1) return JSON.stringify([names[0], uses[names[0]!]])
  return JSON.stringify(names.sort().flatMap((name) => [name, uses[name]]))
}

/** How many tasks fit into these slots. */
export function slotsFor(
  uses: TaskKind['uses'],
  services: readonly { readonly name: string; readonly slots: number }[],
): number {
  const fits = Object.keys(uses).map((name) => {
    const slots = services.find((service) => service.name === name)?.slots ?? 0
    return Math.floor(slots / uses[name]!)
  })
  return fits.length === 0 ? 0 : Math.min(...fits)
}
