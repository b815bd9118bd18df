import { refuse } from './options.ts'

const maxPaths = 200
const maxNames = 20
const maxChars = 100

/** Checks paths into payloads, results and errors: names joined by dots, `*` for any name. Throws `invalid_argument`. */
export function resolveRedactPaths(name: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length > maxPaths) {
    refuse(name, `a list of up to ${maxPaths} paths`, value)
  }
  for (const path of value as readonly unknown[]) {
    if (typeof path !== 'string' || !isPath(path)) {
      refuse(name, 'names joined by dots, such as "password" or "payload.card.*"', path)
    }
    if (isOtherNotation(path)) {
      refuse(
        name,
        'names joined by dots, without $, brackets, slashes or "pass*"; a path goes through lists by itself',
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

/** JSONPath, JSON Pointer or a glob. Read as names they would hide nothing, without an error. */
function isOtherNotation(path: string): boolean {
  const names = path.split('.')
  return names[0] === '$' || path.startsWith('/') || names.some((part) => /[[\]]|\*.|.\*/.test(part))
}
