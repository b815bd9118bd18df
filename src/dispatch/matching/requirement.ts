/**
 * From terms to checks. A requirement is compiled once for a generation of pools and asked once per pool, so choosing
 * a node never looks at a term again.
 */

import type { Labels, ServiceOffer, Term } from '../node.ts'
import type { Dictionary, Profile } from './capability.ts'

/** Whether the nodes of a pool meet a requirement. */
export type Check = (profile: Profile) => boolean

/** What the pools that were defined by name ask for. */
export type PoolRules = ReadonlyMap<string, readonly Term[]>

const noRules: PoolRules = new Map()

/** The label that stands for the pools defined by name. */
export const poolLabel = 'pool'

/** One check for a list of terms that must all hold. */
export function compileAll(terms: readonly Term[], dictionary: Dictionary, rules: PoolRules): Check {
  const checks = terms.map((term) => compileTerm(term, dictionary, rules))
  return (profile) => checks.every((check) => check(profile))
}

function compileTerm(term: Term, dictionary: Dictionary, rules: PoolRules): Check {
  if ('any' in term) {
    const checks = term.any.map((each) => compileTerm(each, dictionary, rules))
    return (profile) => checks.some((check) => check(profile))
  }
  if ('not' in term) {
    const check = compileTerm(term.not, dictionary, rules)
    return (profile) => !check(profile)
  }
  if ('service' in term) {
    const { service, where = {} } = term
    const tags = Object.keys(where).map((tag) => dictionary.tag(service, tag, where[tag]!))
    const numbers = [dictionary.service(service), ...tags]
    return (profile) => numbers.every((number) => profile.has(number))
  }
  if (term.label === poolLabel) {
    // A rule that names another pool would make rules that never end: inside a rule the name means nothing.
    const checks = (term.in ?? [...rules.keys()])
      .filter((name) => rules.has(name))
      .map((name) => compileAll(rules.get(name)!, dictionary, noRules))
    return (profile) => checks.some((check) => check(profile))
  }
  return compileLabel(term, dictionary)
}

function compileLabel(term: Extract<Term, { label: string }>, dictionary: Dictionary): Check {
  const { label, gte, lte } = term
  const there = dictionary.label(label)
  const values = term.in?.map((value) => dictionary.labelValue(label, value))
  const measured = gte !== undefined || lte !== undefined
  return (profile) => {
    if (!profile.has(there)) return false
    if (values !== undefined && !values.some((number) => profile.has(number))) return false
    return !measured || within(profile.measure(label), gte, lte)
  }
}

function within(value: unknown, gte: number | undefined, lte: number | undefined): boolean {
  return (
    typeof value === 'number' && (gte === undefined || value >= gte) && (lte === undefined || value <= lte)
  )
}

/** Whether a term holds for one node, without any index: for those who only read. */
export function termHolds(
  term: Term,
  services: readonly ServiceOffer[],
  labels: Labels,
  rules: PoolRules,
): boolean {
  if ('any' in term) return term.any.some((each) => termHolds(each, services, labels, rules))
  if ('not' in term) return !termHolds(term.not, services, labels, rules)
  if ('service' in term) {
    const offer = services.find(({ name }) => name === term.service)
    if (offer === undefined) return false
    // Own tags only: the names are other people's words, and every object has inherited a `toString`.
    return Object.entries(term.where ?? {}).every(
      ([tag, value]) => Object.hasOwn(offer.tags, tag) && offer.tags[tag]!.includes(value),
    )
  }
  if (term.label === poolLabel) {
    return (term.in ?? [...rules.keys()]).some(
      (name) => rules.get(name)?.every((each) => termHolds(each, services, labels, noRules)) === true,
    )
  }
  const value = Object.hasOwn(labels, term.label) ? labels[term.label] : undefined
  if (value === undefined || term.in?.includes(String(value)) === false) return false
  return (term.gte === undefined && term.lte === undefined) || within(value, term.gte, term.lte)
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
