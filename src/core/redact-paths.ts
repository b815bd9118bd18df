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
    if (typeof path !== 'string' || !isPath(path)) {
      throw refused(name, 'names joined by dots, such as "password" or "payload.card.*"', path)
    }
    if (isOtherNotation(path)) {
      throw refused(
        name,
        'names joined by dots, without $, brackets, slashes or "pass*": lists are passed through',
        path,
      )
    }
  }
  return value as readonly string[]
}

function isPath(path: string): boolean {
  const names = path.split('.')
  if (names.length > maxNames) return false
  return names.every((part) => part !== '' && part.length <= maxChars && part.trim() === part)
}

/** As JSONPath, JSON Pointer and globs have it. Taken for names it would hide nothing, and nobody would notice. */
function isOtherNotation(path: string): boolean {
  const names = path.split('.')
  return names[0] === '$' || path.startsWith('/') || names.some((part) => /[[\]]|\*.|.\*/.test(part))
}

function refused(option: string, allowed: string, value: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', `${option} must be ${allowed}, not ${show(value)}.`, {
    details: { option },
  })
}
