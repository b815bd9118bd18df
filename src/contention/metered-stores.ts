import { wrapMethods } from '../core/wrap-methods.ts'
import type { Commands } from './commands.ts'
import type { Kinds } from './kinds.ts'

/** Whose work is not the store's: it is measured where the gate or the pool is. */
const ofCallers: ReadonlySet<PropertyKey> = new Set(['transact', 'transactAll', 'settleIn'])

/**
 * The same store, with every call that answers later measured: `store.jobs.claim`. All else of it is handed through as it
 * is; what it throws and answers is not touched.
 */
export function meterStore<Store extends object>(
  store: Store,
  name: string,
  kinds: Kinds,
  commands: Commands,
  now: () => number,
): Store {
  return wrapMethods(store, (method, property) => {
    if (ofCallers.has(property)) return method
    let kind: number | undefined
    return (...args) => {
      kind ??= kinds.of(`store.${name}.${property}`)
      const measured = kind
      const command = commands.current
      const from = now()
      const answer = method(...args)
      if (answer instanceof Promise) {
        const over = () => commands.called(measured, command, from)
        answer.then(over, over)
      }
      return answer
    }
  })
}
