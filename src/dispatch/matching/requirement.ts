/**
 * Whether a node meets what a task requires. Nodes with the same services, tags and labels that matter share one
 * profile, whatever their slots: they make one pool. A demand is checked once per pool, so choosing a node looks at no
 * term.
 */

import type { Labels, ServiceOffer, Term } from '../node.ts'

/** What the nodes of a pool have in common. */
export interface Profile {
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
}

/** What the pools that were defined by name ask for. */
export type PoolRules = ReadonlyMap<string, readonly Term[]>

const noRules: PoolRules = new Map()

/** The label that stands for the pools defined by name. */
const poolLabel = 'pool'

/** Whether all terms hold. */
export function allHold(terms: readonly Term[], profile: Profile, rules: PoolRules): boolean {
  return terms.every((term) => termHolds(term, profile, rules))
}

/** Whether a term holds. */
export function termHolds(term: Term, profile: Profile, rules: PoolRules): boolean {
  if ('any' in term) return term.any.some((each) => termHolds(each, profile, rules))
  if ('not' in term) return !termHolds(term.not, profile, rules)
  if ('service' in term) {
    const offer = profile.services.find(({ name }) => name === term.service)
    if (offer === undefined) return false
    if (term.where === undefined) return true
    // Own tags only: callers choose the names, and every object inherits a `toString`.
    return Object.entries(term.where).every(
      ([tag, value]) => Object.hasOwn(offer.tags, tag) && offer.tags[tag]!.includes(value),
    )
  }
  if (term.label === poolLabel) {
    // A rule that names another pool could make rules that never end: inside a rule the name means nothing.
    return (term.in ?? [...rules.keys()]).some((name) => {
      const rule = rules.get(name)
      return rule !== undefined && allHold(rule, profile, noRules)
    })
  }
  return labelHolds(term, profile.labels)
}

function labelHolds(
  { label, in: values, gte, lte }: Extract<Term, { label: string }>,
  labels: Labels,
): boolean {
  const value = Object.hasOwn(labels, label) ? labels[label] : undefined
  if (value === undefined || values?.includes(String(value)) === false) return false
  if (gte === undefined && lte === undefined) return true
  return (
    typeof value === 'number' && (gte === undefined || value >= gte) && (lte === undefined || value <= lte)
  )
}

/** The labels that terms ask for, by the names of pools too. */
export function labelsAsked(
  terms: readonly Term[],
  rules: PoolRules,
  into: Set<string> = new Set(),
): Set<string> {
  for (const term of terms) {
    if ('any' in term) labelsAsked(term.any, rules, into)
    else if ('not' in term) labelsAsked([term.not], rules, into)
    else if ('label' in term) {
      if (term.label !== poolLabel) into.add(term.label)
      else for (const rule of rules.values()) labelsAsked(rule, noRules, into)
    }
  }
  return into
}

/** Services in the order of their names, each once: of two with one name the first counts. */
export function tidyServices(services: readonly ServiceOffer[]): readonly ServiceOffer[] {
  const names = new Set<string>()
  const once = services.filter(({ name }) => !names.has(name) && names.add(name))
  return once.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The part of a pool's key that comes from services; slots are no part of it. */
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

/** The labels among `keys`: tasks ask for no others, so the others make no pools. */
export function labelsThatMatter(labels: Labels, keys: ReadonlySet<string>): Labels {
  const kept = Object.keys(labels).filter((label) => keys.has(label))
  // By entries: a label may be called `__proto__`, which no assignment would make.
  return Object.fromEntries(kept.sort().map((label) => [label, labels[label]!]))
}
