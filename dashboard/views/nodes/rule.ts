import type { DispatchClient } from '../../../src/http/client/index.ts'
import { visible } from '../../kit/text/visible.ts'
import type { Say } from '../../words/catalogue.ts'
import type { nodesWords } from '../../words/nodes.ts'

export type Pool = Awaited<ReturnType<DispatchClient['pools']>>['items'][number]
export type Term = Pool['requires'][number]

export const conditionKinds = ['In', 'NotIn', 'From', 'To', 'There', 'Service'] as const
export type ConditionKind = (typeof conditionKinds)[number]

/** One line of the form: a term as it is written. */
export interface Condition {
  readonly kind: ConditionKind
  readonly name: string
  readonly value: string
}

export const emptyCondition: Condition = { kind: 'In', name: '', value: '' }

/** The rule of these lines; throws a message for a missing part. */
export function termsOf(conditions: readonly Condition[], say: Say<typeof nodesWords>): readonly Term[] {
  return conditions.map((condition) => termOf(condition, say))
}

function termOf({ kind, name: written, value: text }: Condition, say: Say<typeof nodesWords>): Term {
  const name = written.trim()
  const value = text.trim()
  if (name === '') throw new Error(say('needsName'))
  if (value === '' && kind !== 'There' && kind !== 'Service')
    throw new Error(say('needsValue', { name: visible(name) }))
  switch (kind) {
    case 'In':
      return { label: name, in: listOf(value) }
    case 'NotIn':
      return { not: { label: name, in: listOf(value) } }
    case 'From':
      return { label: name, gte: numberOf(value, say) }
    case 'To':
      return { label: name, lte: numberOf(value, say) }
    case 'There':
      return { label: name }
    case 'Service':
      return value === '' ? { service: name } : { service: name, where: tagsOf(value) }
  }
}

/** The same as lines; undefined where the form has no line for something in it. */
export function conditionsOf(terms: readonly Term[]): readonly Condition[] | undefined {
  const lines = terms.map(conditionOf)
  return lines.every((line) => line !== undefined) ? lines : undefined
}

function conditionOf(term: Term): Condition | undefined {
  if ('service' in term) {
    const tags = Object.entries(term.where ?? {})
    if (tags.some(([tag, value]) => /[,=]/.test(tag) || value.includes(','))) return undefined
    return {
      kind: 'Service',
      name: term.service,
      value: tags.map(([tag, value]) => `${tag}=${value}`).join(', '),
    }
  }
  if ('label' in term) {
    const { label: name, in: values, gte, lte } = term
    const parts = [values, gte, lte].filter((part) => part !== undefined)
    if (parts.length > 1 || values?.length === 0 || values?.some((value) => value.includes(',')))
      return undefined
    if (values !== undefined) return { kind: 'In', name, value: values.join(', ') }
    if (gte !== undefined) return { kind: 'From', name, value: String(gte) }
    if (lte !== undefined) return { kind: 'To', name, value: String(lte) }
    return { kind: 'There', name, value: '' }
  }
  if ('not' in term) {
    const inner = conditionOf(term.not)
    return inner?.kind === 'In' ? { ...inner, kind: 'NotIn' } : undefined
  }
  return undefined
}

function listOf(text: string): readonly string[] {
  return text
    .split(/[,，]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

function tagsOf(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    listOf(text).map((part) => {
      const at = part.indexOf('=')
      return at < 0 ? [part, ''] : [part.slice(0, at).trim(), part.slice(at + 1).trim()]
    }),
  )
}

function numberOf(text: string, say: Say<typeof nodesWords>): number {
  const value = Number(text)
  if (!Number.isFinite(value)) throw new Error(say('notANumber', { value: visible(text) }))
  return value
}

/** A term as part of a sentence. It has foreign names, so views must show it as text. */
export function describeTerm(term: Term, say: Say<typeof nodesWords>): string {
  if ('any' in term) {
    return say('termAny', { terms: term.any.map((one) => describeTerm(one, say)).join(say('termOr')) })
  }
  if ('not' in term) return say('termNot', { term: describeTerm(term.not, say) })
  if ('service' in term) {
    const tags = Object.entries(term.where ?? {}).map(([tag, value]) => `${tag} ${value}`)
    return tags.length === 0
      ? say('termService', { name: term.service })
      : say('termWith', { name: term.service, tags: tags.join(', ') })
  }
  const parts = [
    term.in === undefined ? [] : [say('termIn', { values: term.in.join(', ') })],
    term.gte === undefined ? [] : [say('termFrom', { value: term.gte })],
    term.lte === undefined ? [] : [say('termTo', { value: term.lte })],
  ].flat()
  if (parts.length === 0) return say('termThere', { name: term.label })
  return say('termLabel', { name: term.label, parts: parts.join(say('termAnd')) })
}
