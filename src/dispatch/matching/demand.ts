/**
 * What tasks ask for, each distinct wish once. A shape is how many slots of which services a task takes; a demand is a
 * shape with requirements. Tasks of one demand wait in one wait queue and are matched with pools together.
 */
import type { TaskSpec, Term } from '../node.ts'
import { isSameJson } from '../same-json.ts'
import { WaitQueue } from '../waiting/wait-queue.ts'

/** Slots by service. */
export interface Shape {
  readonly key: string
  readonly names: readonly string[]
  readonly weights: readonly number[]
  readonly total: number
}

/** What a task asks for. */
export type Asked = Pick<TaskSpec, 'service' | 'uses' | 'requires'>

/** A shape with requirements, and the wait queue of those who wait with it. */
export class Demand {
  readonly key: string
  readonly kind: string
  readonly shape: Shape
  /** All that must hold, the services of the shape among it. */
  readonly requires: readonly Term[]
  readonly prefers: readonly Term[]
  /** The wish as the tasks have it. */
  readonly asked: Asked
  readonly waitQueue: WaitQueue = new WaitQueue()
  /** Tasks in the registry that point here. */
  taskCount = 0
  /** A task asked for it again, since it was made or last looked at for being of no use. */
  isRecent = false
  /** It is no longer among the demands: who asks for the same makes another. */
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

/** Recent demands; unused ones are forgotten, the oldest first. */
export class Demands {
  readonly #demands = new Map<string, Demand>()
  readonly #shapes = new Map<string, { readonly shape: Shape; count: number }>()
  /** The newest of each kind: nearly always the one that the kind's tasks ask for, and comparing is cheaper than making a key. */
  readonly #byKind = new Map<string, Demand>()
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
    const alike = this.#byKind.get(kind)
    if (alike !== undefined && isFor(alike, spec)) {
      alike.isRecent = true
      return alike
    }
    const shapeKey = keyOfUses(uses)
    const plain = requires.length === 0 && prefers.length === 0
    // Tasks of two kinds are given up apart, so they wait apart, though they may ask for the same.
    const key = `${shapeKey}${plain ? '' : JSON.stringify([requires, prefers])}\n${kind}`
    const known = this.#demands.get(key)
    if (known !== undefined) {
      // A mark, and not a move to the young end: a map from which something is taken with every task is soon all holes, and
      // is put together anew while somebody waits.
      known.isRecent = true
      return known
    }
    const demand = new Demand(key, this.#shape(shapeKey, uses), spec)
    this.#trim()
    this.#made(demand)
    this.#demands.set(key, demand)
    this.#byKind.set(kind, demand)
    return demand
  }

  #shape(key: string, uses: Readonly<Record<string, number>>): Shape {
    const known = this.#shapes.get(key)
    if (known !== undefined) {
      known.count += 1
      return known.shape
    }
    const shape = shapeOf(uses, key)
    this.#shapes.set(key, { shape, count: 1 })
    return shape
  }

  #trim(): void {
    if (this.#demands.size < this.#limit) return
    // Those in use stay however many they are: their number is bounded by that of the tasks. They and those asked for of late
    // go to the young end, so that the few looks of the next time find others.
    // Nobody is looked at twice: who was moved just now has lost its mark, and would be forgotten while it is the spare one.
    let looks = Math.min(8, this.#demands.size)
    let spare: Demand | null = null
    for (const demand of this.#demands.values()) {
      if (demand.taskCount === 0 && !demand.isRecent) {
        this.#drop(demand)
        if (this.#demands.size < this.#limit) return
      } else {
        if (demand.taskCount === 0) spare ??= demand
        demand.isRecent = false
        this.#demands.delete(demand.key)
        this.#demands.set(demand.key, demand)
      }
      looks -= 1
      if (looks === 0) break
    }
    // All were asked for of late: one has to go all the same, or whoever asks for ever more of them is never forgotten.
    if (spare !== null) this.#drop(spare)
  }

  #drop(demand: Demand): void {
    this.#demands.delete(demand.key)
    if (this.#byKind.get(demand.kind) === demand) this.#byKind.delete(demand.kind)
    const held = this.#shapes.get(demand.shape.key)!
    held.count -= 1
    if (held.count === 0) this.#shapes.delete(demand.shape.key)
    demand.isDropped = true
    this.#dropped(demand)
  }
}

function isFor({ asked, prefers }: Demand, spec: TaskSpec): boolean {
  return (
    isSameJson(asked.uses, spec.uses) &&
    isSameJson(asked.requires, spec.requires) &&
    isSameJson(prefers, spec.prefers)
  )
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
