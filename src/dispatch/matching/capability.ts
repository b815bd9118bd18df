/**
 * What nodes can do, in small numbers. Every capability that someone could ask for (a service, a tag of it, a label's
 * value) gets a number from the dictionary, and a profile is the sorted list of its numbers. Nodes with the same
 * services, tags and labels that matter share one signature, whatever their slots: that is an automatic pool.
 */
import type { Labels, ServiceOffer } from '../node.ts'
import { WideMap } from './wide-map.ts'

/** A word and the words that stand below it: a service, its tags, their values. */
interface Word {
  readonly number: number
  /** Made when first needed: most words are values, and nothing is below those. */
  below: WideMap<Word> | null
}

/**
 * The numbers of capabilities. A generation of pools has its own, so that words out of use are forgotten with it.
 */
export class Dictionary {
  readonly #services = new WideMap<Word>()
  readonly #labels = new WideMap<Word>()
  #size = 0

  /** The number of a service; numbers are given on first sight. */
  service(name: string): number {
    return this.#word(this.#services, name).number
  }

  /** The number of a value in a service's tag list. */
  tag(name: string, tag: string, value: string): number {
    const service = this.#word(this.#services, name)
    return this.#word(below(this.#word(below(service), tag)), value).number
  }

  /** The number of having a label. */
  label(label: string): number {
    return this.#word(this.#labels, label).number
  }

  /** The number of a label's value. */
  labelValue(label: string, value: string): number {
    return this.#word(below(this.#word(this.#labels, label)), value).number
  }

  #word(words: WideMap<Word>, text: string): Word {
    let word = words.get(text)
    if (word === undefined) {
      word = { number: this.#size, below: null }
      this.#size += 1
      words.set(text, word)
    }
    return word
  }
}

function below(word: Word): WideMap<Word> {
  word.below ??= new WideMap()
  return word.below
}

/** What a requirement looks at: the capabilities of all nodes of one pool. */
export class Profile {
  readonly services: readonly string[]
  /** Sorted: a bit set would grow with what all other nodes can do, and fleets in which every node differs are real. */
  readonly #numbers: Uint32Array
  readonly #measures: ReadonlyMap<string, number>

  constructor(dictionary: Dictionary, services: readonly ServiceOffer[], labels: Labels) {
    const numbers: number[] = []
    const measures = new Map<string, number>()
    for (const { name, tags } of services) {
      numbers.push(dictionary.service(name))
      for (const tag of Object.keys(tags)) {
        for (const value of tags[tag]!) numbers.push(dictionary.tag(name, tag, value))
      }
    }
    for (const label of Object.keys(labels)) {
      const value = labels[label]!
      numbers.push(dictionary.label(label), dictionary.labelValue(label, String(value)))
      if (typeof value === 'number') measures.set(label, value)
    }
    this.services = services.map(({ name }) => name)
    this.#numbers = Uint32Array.from(numbers).sort()
    this.#measures = measures
  }

  /** How many capabilities there are. */
  get size(): number {
    return this.#numbers.length
  }

  has(number: number): boolean {
    const numbers = this.#numbers
    let low = 0
    let high = numbers.length - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      const found = numbers[middle]!
      if (found === number) return true
      if (found < number) low = middle + 1
      else high = middle - 1
    }
    return false
  }

  /** A label's value where it is a number. */
  measure(label: string): number | undefined {
    return this.#measures.get(label)
  }
}

/** Services in the order of their names, each once: of two with one name the first counts. */
export function tidyServices(services: readonly ServiceOffer[]): readonly ServiceOffer[] {
  const names = new Set<string>()
  const once = services.filter(({ name }) => !names.has(name) && names.add(name))
  return once.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The part of a signature that comes from services; slots are no part of it. */
export function servicesKey(services: readonly ServiceOffer[]): string {
  return JSON.stringify(
    services.map(({ name, tags }) => [
      name,
      Object.keys(tags)
        .sort()
        .map((tag) => [tag, [...tags[tag]!].sort()]),
    ]),
  )
}

/** Those labels that someone asks for: the others make no pools. */
export function labelsThatMatter(labels: Labels, keys: ReadonlySet<string>): Labels {
  const kept = Object.keys(labels).filter((label) => keys.has(label))
  // By entries: a label may be called `__proto__`, which no assignment would make.
  return Object.fromEntries(kept.sort().map((label) => [label, labels[label]!]))
}
