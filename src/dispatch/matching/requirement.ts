/**
 * Decides whether a node meets the requirements of a task. Nodes with the same services, tags and relevant labels share
 * one profile, whatever their slots, and form one pool. A demand is checked once per pool, so the choice of a node
 * evaluates no terms.
 */

import type { Labels, ServiceOffer, Term } from '../node.ts'

/** The properties that all nodes of a pool share. */
export interface Profile {
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
}

/** The rules of the pools that are defined by name. */
export type PoolRules = ReadonlyMap<string, readonly Term[]>

const noRules: PoolRules = new Map()

/** The reserved label that names pools. */
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
    // Only own properties are tags: every object inherits a `toString`, and callers choose the names of tags.
    return Object.entries(term.where).every(
      ([tag, value]) => Object.hasOwn(offer.tags, tag) && offer.tags[tag]!.includes(value),
    )
  }
  if (term.label === poolLabel) {
    // Rules cannot refer to pools, because that could form an endless circle.
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

/** The labels that terms name, directly or in the rules of pools. */
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

/** Sorts services by name. Of two services with one name, the first counts. */
export function tidyServices(services: readonly ServiceOffer[]): readonly ServiceOffer[] {
  const names = new Set<string>()
  const once = services.filter(({ name }) => !names.has(name) && names.add(name))
  return once.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The services' part of a pool's key. It does not include slots. */
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

/** Keeps the labels among `keys`: no task names another, so other labels split no pools. */
export function labelsThatMatter(labels: Labels, keys: ReadonlySet<string>): Labels {
  const kept = Object.keys(labels).filter((label) => keys.has(label))
  // `fromEntries`, because an assignment would not create a label with the name `__proto__`.
  return Object.fromEntries(kept.sort().map((label) => [label, labels[label]!]))
}
