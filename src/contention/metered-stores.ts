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
  const calls = new Map<string, Call>()

  function meter(kind: number, real: Method): Method {
    return (...args) => {
      const command = commands.current
      const from = now()
      const answer: unknown = real.apply(store, args)
      if (answer instanceof Promise) {
        const over = () => commands.called(kind, command, from)
        answer.then(over, over)
      }
      return answer
    }
  }

  function kindOf(property: string): number {
    return ofCallers.has(property) ? notMetered : kinds.of(`store.${name}.${property}`)
  }

  return new Proxy(store, {
    get(target, property) {
      const real: unknown = Reflect.get(target, property, target)
      if (typeof real !== 'function' || typeof property !== 'string') return real
      const known = calls.get(property)
      // Some stores make their functions anew whenever they are asked for them.
      if (known?.real === real) return known.metered
      const kind = known?.kind ?? kindOf(property)
      const method = real as Method
      const metered = kind === notMetered ? method.bind(target) : meter(kind, method)
      if (known === undefined) calls.set(property, { kind, real: method, metered })
      else {
        known.real = method
        known.metered = metered
      }
      return metered
    },
  })
}

interface Call {
  readonly kind: number
  real: Method
  metered: Method
}

type Method = (...args: unknown[]) => unknown

const notMetered = -1
