/** Terms and slots that come from outside: checked and bounded before anything is kept of them. */
import { SignalboxError } from '../core/errors.ts'
import { onlyKeys, real, show, text, whole } from '../core/options.ts'
import type { Term } from './node.ts'

/** How much a task or a pool may ask for. */
export const termLimits = { terms: 64, depth: 4, values: 64, tags: 16, services: 16, slots: 10_000 } as const

/** A list of terms, whole and frozen by copy. */
export function checkTerms(name: string, value: unknown): readonly Term[] {
  const budget = { left: termLimits.terms }
  return checkList(name, value, budget, 1)
}

/** Most ask for nothing more than a service. */
const noTerms: readonly Term[] = []

function checkList(name: string, value: unknown, budget: { left: number }, depth: number): readonly Term[] {
  if (!Array.isArray(value)) throw refused(name, 'a list of terms', value)
  if (depth > termLimits.depth) throw tooMuch(name, `nested more than ${termLimits.depth} levels deep`)
  if (value.length === 0) return noTerms
  // Not `map`, which leaves holes as they are.
  return Array.from(value, (term, index) => checkTerm(`${name}[${index}]`, term, budget, depth))
}

function checkTerm(name: string, value: unknown, budget: { left: number }, depth: number): Term {
  budget.left -= 1
  if (budget.left < 0) throw tooMuch(name, `more than ${termLimits.terms} terms`)
  if (typeof value !== 'object' || value === null) throw refused(name, 'a term', value)
  if ('any' in value) {
    onlyKeys(name, value, ['any'])
    return { any: checkList(`${name}.any`, value.any, budget, depth + 1) }
  }
  if ('not' in value) {
    onlyKeys(name, value, ['not'])
    if (depth >= termLimits.depth) throw tooMuch(name, `nested more than ${termLimits.depth} levels deep`)
    return { not: checkTerm(`${name}.not`, value.not, budget, depth + 1) }
  }
  if ('service' in value) return checkServiceTerm(name, value)
  if ('label' in value) return checkLabelTerm(name, value)
  throw refused(name, 'a term with service, label, any or not', value)
}

function checkServiceTerm(name: string, value: { service: unknown; where?: unknown }): Term {
  onlyKeys(name, value, ['service', 'where'])
  const service = text(`${name}.service`, value.service)
  if (value.where === undefined) return { service }
  if (typeof value.where !== 'object' || value.where === null)
    throw refused(`${name}.where`, 'an object', value.where)
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
  onlyKeys(name, value, ['label', 'in', 'gte', 'lte'])
  const { gte, lte } = value
  const bounds = { min: -Number.MAX_VALUE }
  return {
    label: text(`${name}.label`, value.label),
    ...(value.in === undefined ? {} : { in: checkValues(`${name}.in`, value.in) }),
    ...(gte === undefined ? {} : { gte: real(`${name}.gte`, gte, bounds) }),
    ...(lte === undefined ? {} : { lte: real(`${name}.lte`, lte, bounds) }),
  }
}

function checkValues(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw refused(name, 'a list of words', value)
  if (value.length > termLimits.values) throw tooMuch(name, `more than ${termLimits.values} words`)
  return Array.from(value, (word, index) => text(`${name}[${index}]`, word))
}

/** Slots by service. */
export function checkUses(name: string, value: unknown, service: string): Readonly<Record<string, number>> {
  if (value === undefined) return { [service]: 1 }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refused(name, 'slots by service', value)
  const entries = Object.entries(value).filter(([, slots]) => slots !== undefined)
  if (entries.length > termLimits.services) throw tooMuch(name, `more than ${termLimits.services} services`)
  if (!entries.some(([each]) => each === service)) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must have slots of ${show(service)}, the task's service.`,
    )
  }
  const uses = entries.map(([each, slots]) => [
    text(`a service in ${name}`, each),
    whole(`${name}.${each}`, slots, { min: 1, max: termLimits.slots }),
  ])
  return Object.fromEntries(uses) as Record<string, number>
}

function refused(name: string, allowed: string, value: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', `${name} must be ${allowed}, not ${show(value)}.`, {
    details: { option: name },
  })
}

function tooMuch(name: string, what: string): SignalboxError {
  return new SignalboxError('invalid_argument', `${name} has ${what}.`, { details: { option: name } })
}
