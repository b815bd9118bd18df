/**
 * What a task asks for, as one word that every server finds the same for the same wish: the kind of its job, by which a
 * server claims only what its own nodes could do. The common case is the service's name, so that it can be read.
 */
import { hash } from 'node:crypto'
import type { TaskSpec } from '../node.ts'

/** The kind of tasks that any server may claim: for more wishes than are told apart. */
export const anyKind = '~'

/** Job stores keep kinds of up to 191 characters; the mark and the hash take 23 of them. */
const maxNameLength = 168

/** The word for what a task asks for; the order of its requirements makes no difference. */
export function demandKind({
  service,
  uses,
  requires,
}: Pick<TaskSpec, 'service' | 'uses' | 'requires'>): string {
  const isPlain = requires.length === 0 && uses[service] === 1 && Object.keys(uses).length === 1
  // A name that looks like one of the other words must not be taken for it.
  if (isPlain && !service.includes('#') && service !== anyKind) return service
  const wishes = [...new Set(requires.map(canonical))].sort()
  const digest = hash('sha256', `${canonical(service)}${canonical(uses)}[${wishes.join()}]`, 'base64url')
  const name = service.length <= maxNameLength ? service : [...service].slice(0, maxNameLength).join('')
  return `${name}#${digest.slice(0, 22)}`
}

/** JSON with the keys of every object in order. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  const pairs = entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`)
  return `{${pairs.sort().join()}}`
}
