import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'
import type { Served, Space } from '../call.ts'
import type { Spaces } from '../namespace-services.ts'

/**
 * Runs dispatchers in every namespace that has tasks or nodes, also before the first request: tasks that wait there must
 * not wait for a visitor.
 */
export interface Dispatchers {
  readonly loop: Loop
  /** Starts no more of them. Those that run are the spaces' to stop. */
  stop(): Promise<void>
}

export interface DispatchersParts {
  readonly served: Pick<Served, 'dispatchedNamespaces'>
  readonly spaces: Spaces
  /** How often to look for namespaces. @default 1_000 */
  readonly lookMs?: number
  /** Learns of the loop's trouble. Must not throw. */
  readonly onTrouble?: (loop: string, trouble: keyof LoopEvents, event: object) => void
}

const defaultLookMs = 1_000
const maxNamespaces = 1_000

export function createDispatchers(parts: DispatchersParts): Dispatchers {
  const { served, spaces, lookMs = defaultLookMs, onTrouble = () => {} } = parts
  /** Each holds a reference to its space, so that the space stays while it works. */
  const working = new Map<string, Space>()

  function begin(namespace: string): void {
    const space = spaces.enter(namespace)
    try {
      space.dispatch.start()
      working.set(namespace, space)
    } catch (error) {
      spaces.leave(space)
      throw error
    }
  }

  const loop = createLoop({
    name: 'server.dispatchers',
    idleMs: lookMs,
    async step({ signal }): Promise<'idle'> {
      // In one order everywhere: all servers begin with the same.
      const dispatched = new Set((await served.dispatchedNamespaces(maxNamespaces)).toSorted())
      const wrong: unknown[] = []
      for (const namespace of dispatched) {
        if (signal.aborted) return 'idle'
        try {
          if (!working.has(namespace)) begin(namespace)
        } catch (error) {
          // One that cannot begin holds up no other.
          wrong.push(error)
        }
      }
      for (const [namespace, space] of working) {
        if (dispatched.has(namespace)) continue
        working.delete(namespace)
        spaces.leave(space)
      }
      if (wrong.length > 0) throw wrong[0]
      return 'idle'
    },
  })
  for (const trouble of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(trouble, (event) => onTrouble(loop.name, trouble, event))

  return {
    loop,
    async stop() {
      await loop.stop({ graceMs: 1_000 })
      for (const space of working.values()) spaces.leave(space)
      working.clear()
    },
  }
}
