import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'

/** A request's path, as it came, and what stands behind it with its question mark. */
export function splitTarget(target: string): readonly [path: string, query: string] {
  const mark = target.indexOf('?')
  return mark === -1 ? [target, ''] : [target.slice(0, mark), target.slice(mark)]
}

/** The path below where it is mounted; undefined when it is elsewhere. */
export function withoutBase(path: string, basePath: string): string | undefined {
  if (!path.startsWith(basePath)) return undefined
  const rest = path.slice(basePath.length)
  if (rest === '') return '/'
  return rest.startsWith('/') ? rest : undefined
}

export function notMounted(path: string, basePath: string): SignalboxError {
  return new SignalboxError(
    'not_found',
    `There is no route ${show(path)} here: everything is under ${basePath}.`,
  )
}
