/**
 * What tasks ask for, each distinct demand once. A shape is how many slots of which services a task takes; a demand is a
 * shape with requirements. Tasks of one demand wait in one wait queue and are matched with pools together.
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

/** What a task asks for. */
export type Asked = Pick<TaskSpec, 'service' | 'uses' | 'requires'>

/** What all tasks of one kind ask for. */
export type TaskKind = Pick<TaskSpec, 'kind' | 'uses' | 'requires'>

/** A shape with requirements, and the queue of the tasks that wait with it. */
export class Demand {
  readonly key: string
  readonly kind: string
  readonly shape: Shape
  /** All that must hold, the services of the shape among it. */
  readonly requires: readonly Term[]
  readonly prefers: readonly Term[]
  /** The demand in the words of its tasks. */
  readonly asked: Asked
  readonly waitQueue: WaitQueue = new WaitQueue()
  /** Tasks in the registry that point here. */
  taskCount = 0
  /** It is no longer among the demands: the next task that asks for the same makes another. */
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

/** Unused demands that one new demand looks at, to forget them. */
const looksPerTrim = 8

/** Recent demands. Beyond the limit, the ones used longest ago and by no task now are forgotten. */
export class Demands {
  /** In the order of their last use. */
  readonly #demands = new Map<string, Demand>()
  readonly #limit: number
  readonly #made: (demand: Demand) => void
  readonly #dropped: (demand: Demand) => void

  constructor(limit: number, made: (demand: Demand) => void, dropped: (demand: Demand) => void) {
    this.#limit = limit
    this.#made = made
    this.#dropped = dropped
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
    // Tasks of two kinds are yielded apart, so they wait apart, though they may ask for the same.
    const key = `${shapeKey}${isPlain ? '' : JSON.stringify([requires, prefers])}\n${kind}`
    const known = this.#demands.get(key)
    if (known !== undefined) {
      this.#touch(known)
      return known
    }
    const demand = new Demand(key, shapeOf(uses, shapeKey), spec)
    this.#trim()
    this.#made(demand)
    this.#demands.set(key, demand)
    return demand
  }

  #touch(demand: Demand): void {
    this.#demands.delete(demand.key)
    this.#demands.set(demand.key, demand)
  }

  /** Demands in use stay, however many they are: there are at most as many as tasks. */
  #trim(): void {
    let looks = Math.min(looksPerTrim, this.#demands.size)
    for (const demand of this.#demands.values()) {
      if (this.#demands.size < this.#limit || looks === 0) return
      if (demand.taskCount === 0) this.#drop(demand)
      else this.#touch(demand)
      looks -= 1
    }
  }

  #drop(demand: Demand): void {
    this.#demands.delete(demand.key)
    demand.isDropped = true
    this.#dropped(demand)
  }
}

/** Slots by service, made ready for counting. */
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
