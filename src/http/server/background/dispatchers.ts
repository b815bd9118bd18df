import type { Served } from '../call.ts'
import type { Spaces } from '../namespace-services.ts'
import { createNamespaceWork, type NamespaceWork, type OnTrouble } from './namespace-work.ts'

export interface DispatchersParts {
  readonly served: Pick<Served, 'dispatchedNamespaces'>
  readonly spaces: Spaces
  /** How often to look for namespaces. @default 1_000 */
  readonly lookMs?: number
  readonly onTrouble?: OnTrouble
}

/** Runs dispatchers in every namespace that has tasks or nodes. Those that run are the spaces' to stop. */
export function createDispatchers({ served, spaces, lookMs, onTrouble }: DispatchersParts): NamespaceWork {
  return createNamespaceWork({
    ...{ name: 'server.dispatchers', lookMs, restMs: 0, onTrouble },
    // In one order everywhere: all servers begin with the same.
    find: async (limit) => (await served.dispatchedNamespaces(limit)).toSorted(),
    begin(namespace) {
      // The space stays while it works.
      const space = spaces.enter(namespace)
      return {
        start: async () => space.dispatch.start(),
        stop: async () => spaces.leave(space),
      }
    },
  })
}
