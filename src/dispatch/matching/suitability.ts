/**
 * Whether a node could ever do what a task asks for: its services, tags, labels and the size of its services, not whether
 * there is capacity just now. Found once for each wish and each kind of node.
 */
import { hash } from 'node:crypto'
import type { Labels, ServiceOffer, Term } from '../node.ts'
import { servicesKey } from './capability.ts'
import { type PoolRules, termHolds } from './requirement.ts'

/** What tasks of one kind ask for. */
export interface Wish {
  readonly kind: string
  readonly uses: Readonly<Record<string, number>>
  readonly requires: readonly Term[]
}

/** What a node offers. Those that offer the same have the same signature. */
export interface Offering {
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  readonly signature: string
}

/** Wishes whose answers are kept, and kinds of nodes for each: a label with another value makes another kind. */
const maxWishes = 64
const maxSignatures = 4_096

/** Services must be in order: see `tidyServices`. */
export function offeringOf(services: readonly ServiceOffer[], labels: Labels): Offering {
  const sizes = services.map(({ slots }) => slots)
  const words = Object.keys(labels)
    .sort()
    .map((label) => [label, labels[label]])
  const signature = hash('sha256', servicesKey(services) + JSON.stringify([sizes, words]), 'base64url')
  return { services, labels, signature }
}

/** Answers, with what it has answered before. */
export class Suitability {
  readonly #answers = new Map<string, Map<string, boolean>>()
  readonly #rules: () => PoolRules

  constructor(rules: () => PoolRules) {
    this.#rules = rules
  }

  /** The pools' rules are others than before. */
  forget(): void {
    this.#answers.clear()
  }

  /** How many answers are kept. */
  get size(): number {
    let size = 0
    for (const answers of this.#answers.values()) size += answers.size
    return size
  }

  couldDo(wish: Wish, { services, labels, signature }: Offering): boolean {
    if (slotsFor(wish.uses, services) === 0) return false
    if (wish.requires.length === 0) return true
    let answers = this.#answers.get(wish.kind)
    if (answers === undefined) {
      answers = new Map()
      if (this.#answers.size >= maxWishes) this.#answers.delete(this.#answers.keys().next().value!)
    } else {
      this.#answers.delete(wish.kind)
    }
    this.#answers.set(wish.kind, answers)
    let answer = answers.get(signature)
    if (answer === undefined) {
      answer = wish.requires.every((term) => termHolds(term, services, labels, this.#rules()))
      if (answers.size >= maxSignatures) answers.clear()
      answers.set(signature, answer)
    }
    return answer
  }
}

/** How many tasks fit into so many slots of each service. */
export function slotsFor(
  uses: Wish['uses'],
  services: readonly { readonly name: string; readonly slots: number }[],
): number {
  let least = Number.POSITIVE_INFINITY
  for (const name of Object.keys(uses)) {
    const slots = services.find((service) => service.name === name)?.slots ?? 0
    least = Math.min(least, Math.floor(slots / uses[name]!))
  }
  return least === Number.POSITIVE_INFINITY ? 0 : least
}
