/** Checks and limits terms and slots from outside. */
import { invalidArgument, type SignalboxError } from '../../core/errors.ts'
import { refuse, show, text, whole } from '../../core/options.ts'
import type { Term } from '../node.ts'

/** The limits of the requirements of a task or a pool. */
export const termLimits = { terms: 64, depth: 4, values: 64, tags: 16, services: 16, slots: 10_000 } as const

/** Checks a list of terms and copies it. */
export function checkTerms(name: string, value: unknown): readonly Term[] {
  const budget = { left: termLimits.terms }
  return checkList(name, value, budget, 1)
}

function checkList(name: string, value: unknown, budget: { left: number }, depth: number): readonly Term[] {
  if (!Array.isArray(value)) refuse(name, 'a list of terms', value)
  // Not `map`, which skips holes of the list.
  return Array.from(value, (term, index) => checkTerm(`${name}[${index}]`, term, budget, depth))
}

function checkTerm(name: string, value: unknown, budget: { left: number }, depth: number): Term {
  budget.left -= 1
  if (budget.left < 0) throw tooMuch(name, `more than ${termLimits.terms} terms`)
  if (depth > termLimits.depth) throw wrong(name, `is nested more than ${termLimits.depth} levels deep.`)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse(name, 'an object with service, label, any or not', value)
  const [kind, other] = termKinds.filter((each) => Object.hasOwn(value, each))
  if (other !== undefined)
    throw wrong(name, `has both ${kind} and ${other}. Write two terms; all terms of a list must hold.`)
  switch (kind) {
    case 'any':
      return checkAnyTerm(name, value, budget, depth)
    case 'not':
      onlyFields(name, value, ['not'])
      return { not: checkTerm(`${name}.not`, (value as { not: unknown }).not, budget, depth + 1) }
    case 'service':
      return checkServiceTerm(name, value as { service: unknown })
    case 'label':
      return checkLabelTerm(name, value as { label: unknown })
    default:
      throw wrong(name, `must have one of service, label, any or not; it has ${listed(Object.keys(value))}.`)
  }
}

/** The fields of which each term has exactly one. */
const termKinds = ['service', 'label', 'any', 'not'] as const

function checkAnyTerm(name: string, value: object, budget: { left: number }, depth: number): Term {
  onlyFields(name, value, ['any'])
  const { any } = value as { any: unknown }
  if (Array.isArray(any) && any.length === 0)
    throw wrong(`${name}.any`, 'is an empty list, so no node can match. Name at least one term.')
  return { any: checkList(`${name}.any`, any, budget, depth + 1) }
}

function checkServiceTerm(name: string, value: { service: unknown; where?: unknown }): Term {
  onlyFields(name, value, ['service', 'where'])
  const service = text(`${name}.service`, value.service)
  if (value.where === undefined) return { service }
  if (typeof value.where !== 'object' || value.where === null || Array.isArray(value.where))
    refuse(`${name}.where`, "an object of tags, such as { pair: 'zh>en' }", value.where)
  const entries = Object.entries(value.where)
  if (entries.length > termLimits.tags) throw tooMuch(`${name}.where`, `more than ${termLimits.tags} tags`)
  const where = entries.map(([tag, word]) => [
    text(`a tag in ${name}.where`, tag),
    text(`${name}.where.${tag}`, word),
  ])
  return { service, where: Object.fromEntries(where) as Record<string, string> }
}

function checkLabelTerm(
  name: string,
  value: { label: unknown; in?: unknown; gte?: unknown; lte?: unknown },
): Term {
  onlyFields(name, value, ['label', 'in', 'gte', 'lte'])
  const label = text(`${name}.label`, value.label)
  const [gte, lte] = [checkBound(`${name}.gte`, value.gte), checkBound(`${name}.lte`, value.lte)]
  if (gte !== undefined && lte !== undefined && gte > lte)
    throw wrong(name, `has gte ${gte} above lte ${lte}, so no node can match.`)
  return {
    label,
    ...(value.in === undefined ? {} : { in: checkValues(`${name}.in`, value.in) }),
    ...(gte === undefined ? {} : { gte }),
    ...(lte === undefined ? {} : { lte }),
  }
}

function checkBound(name: string, value: unknown): number | undefined {
  if (value === undefined || Number.isFinite(value)) return value as number | undefined
  refuse(name, 'a number, because labels that are numbers are compared with it', value)
}

function checkValues(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) refuse(name, 'a list of words', value)
  if (value.length === 0)
    throw wrong(name, 'is an empty list, so no node can match. Name at least one word, or leave it out.')
  if (value.length > termLimits.values) throw tooMuch(name, `more than ${termLimits.values} words`)
  return Array.from(value, (word, index) => text(`${name}[${index}]`, word))
}

/** Checks slots by service. */
export function checkUses(name: string, value: unknown, service: string): Readonly<Record<string, number>> {
  if (value === undefined) return { [service]: 1 }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse(name, 'slots by service', value)
  const entries = Object.entries(value).filter(([, slots]) => slots !== undefined)
  if (entries.length > termLimits.services) throw tooMuch(name, `more than ${termLimits.services} services`)
  if (!entries.some(([each]) => each === service)) {
    throw invalidArgument(`${name} must have slots of ${show(service)}, the task's service.`)
  }
  const uses = entries.map(([each, slots]) => [
    text(`a service in ${name}`, each),
    whole(`${name}.${each}`, slots, { min: 1, max: termLimits.slots }),
  ])
  return Object.fromEntries(uses) as Record<string, number>
}

function tooMuch(name: string, what: string): SignalboxError {
  return wrong(name, `has ${what}.`)
}

function wrong(name: string, what: string): SignalboxError {
  return invalidArgument(`${name} ${what}`, name)
}

function onlyFields(name: string, term: object, fields: readonly string[]): void {
  const unknown = Object.keys(term).find((field) => !fields.includes(field))
  if (unknown === undefined) return
  throw wrong(name, `has the unknown field ${show(unknown)}. Allowed fields: ${fields.join(', ')}.`)
}

function listed(words: readonly string[]): string {
  if (words.length === 0) return 'no field'
  return words
    .map((word) => (/^\w{1,40}$/.test(word) ? word : show(word)))
    .slice(0, 8)
    .join(', ')
}
