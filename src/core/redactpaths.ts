import { SignalboxError } from './errors.ts'
import { show } from './options.ts'

const maxPaths = 200
const maxNames = 20
const maxChars = 100

/** Checks paths into what jobs carry: names joined by dots, `*` for any one. Throws `invalid_argument`. */
export function resolveRedactPaths(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length > maxPaths) {
    throw refused(name, `a list of up to ${maxPaths} paths`, value)
  }
  for (const path of value as readonly unknown[]) {
    const names = typeof path === 'string' ? path.split('.') : []
    const isPath = names.length > 0 && names.length <= maxNames
    if (isPath && names.every((part) => part.length <= maxChars && part.trim() === part && part !== ''))
      continue
    throw refused(name, 'names joined by dots, such as "password" or "payload.card.*"', path)
  }
  return value as readonly string[]
}

function refused(option: string, allowed: string, value: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', `${option} must be ${allowed}, not ${show(value)}.`, {
    details: { option },
  })
}
