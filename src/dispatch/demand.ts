/**
 * What tasks ask for, each distinct wish once. A shape is how many slots of which services a task takes; a demand is a
 * shape with requirements. Tasks of one demand wait in one line and are matched with pools together.
 */
import type { TaskSpec, Term } from './node.ts'
import { WaitLine } from './waitline.ts'

/** Slots by service. */
export interface Shape {
  readonly key: string
  readonly names: readonly string[]
  readonly weights: readonly number[]
  readonly total: number
  readonly uses: Readonly<Record<string, number>>
}

/** A shape with requirements, and the line of those who wait with it. */
export class Demand {
  readonly key: string
  readonly shape: Shape
  /** All that must hold, the services of the shape among it. */
  readonly requires: readonly Term[]
  readonly prefers: readonly Term[]
  readonly line: WaitLine = new WaitLine()
  /** Tasks in the books that point here. */
  taskCount = 0

  constructor(key: string, shape: Shape, requires: readonly Term[], prefers: readonly Term[]) {
    this.key = key
    this.shape = shape
    this.requires = [...shape.names.map((service) => ({ service })), ...requires]
    this.prefers = prefers
  }
}

/** All demands of late; those that nobody uses are forgotten, the longest unused first. */
export class Demands {
  readonly #demands = new Map<string, Demand>()
  readonly #shapes = new Map<string, { readonly shape: Shape; count: number }>()
  readonly #limit: number
  readonly #dropped: (demand: Demand) => void

  constructor(limit: number, dropped: (demand: Demand) => void) {
    this.#limit = limit
    this.#dropped = dropped
  }

  get size(): number {
    return this.#demands.size
  }

  values(): IterableIterator<Demand> {
    return this.#demands.values()
  }

  /** The demand of a task. */
  of({ uses, requires, prefers }: TaskSpec): Demand {
    const shapeKey = keyOfUses(uses)
    const plain = requires.length === 0 && prefers.length === 0
    const key = plain ? shapeKey : `${shapeKey}${JSON.stringify([requires, prefers])}`
    let demand = this.#demands.get(key)
    if (demand === undefined) {
      demand = new Demand(key, this.#shape(shapeKey, uses), requires, prefers)
      this.#trim()
    } else {
      this.#demands.delete(key)
    }
    this.#demands.set(key, demand)
    return demand
  }

  #shape(key: string, uses: Readonly<Record<string, number>>): Shape {
    const known = this.#shapes.get(key)
    if (known !== undefined) {
      known.count += 1
      return known.shape
    }
    const names = Object.keys(uses).sort()
    const weights = names.map((name) => uses[name]!)
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const shape = { key, names, weights, total, uses }
    this.#shapes.set(key, { shape, count: 1 })
    return shape
  }

  #trim(): void {
    if (this.#demands.size < this.#limit) return
    // Those in use stay however many they are: their number is bounded by that of the tasks. They go to the young end,
    // so that the few looks of the next time find others.
    let looks = 8
    for (const [key, demand] of this.#demands) {
      if (demand.taskCount === 0) {
        this.#demands.delete(key)
        const held = this.#shapes.get(demand.shape.key)!
        held.count -= 1
        if (held.count === 0) this.#shapes.delete(demand.shape.key)
        this.#dropped(demand)
        if (this.#demands.size < this.#limit) return
      } else {
        this.#demands.delete(key)
        this.#demands.set(key, demand)
      }
      looks -= 1
      if (looks === 0) return
    }
  }
}

function keyOfUses(uses: Readonly<Record<string, number>>): string {
  const names = Object.keys(uses)
  if (names.length === 1) return JSON.stringify([names[0], uses[names[0]!]])
  return JSON.stringify(names.sort().flatMap((name) => [name, uses[name]]))
}
