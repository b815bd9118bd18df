import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'

/**
 * A loop in every namespace that has work, also before the first request. The loop lives as long as the work does;
 * servers that share a store share the work.
 */
export interface NamespaceLoops extends AsyncDisposable {
  /** Finds the namespaces. */
  readonly loop: Loop
  stop(): Promise<void>
}

export interface NamespaceLoopsParts {
  /** What the loop that finds the namespaces is called. */
  readonly name: string
  /** Up to `limit` namespaces that have work. */
  readonly find: (limit: number) => Promise<readonly string[]>
  readonly begin: (namespace: string) => Loop
  /** Where more namespaces have something to do, those that `find` tells of have a loop, and no others. @default 1_000 */
  readonly maxLoops?: number
  /** Learns of a loop's trouble. Must not throw. */
  readonly onTrouble?: ((loop: string, trouble: keyof LoopEvents, event: object) => void) | undefined
}

const lookMs = 1_000
const defaultMaxLoops = 1_000
/** How long a namespace with nothing to do keeps its loop, so that one that comes and goes does not start it anew. */
const restMs = 60_000

export function createNamespaceLoops(parts: NamespaceLoopsParts): NamespaceLoops {
  const { name, find, begin, maxLoops = defaultMaxLoops, onTrouble } = parts
  const running = new Map<string, { readonly loop: Loop; wantedAt: number }>()
  let stopped: Promise<void> | undefined

  function tellTrouble(loop: Loop, about: object): Loop {
    for (const trouble of ['failed', 'stalled', 'recovered'] as const)
      loop.events.on(trouble, (event) => onTrouble?.(loop.name, trouble, { ...about, ...event }))
    return loop
  }

  const loop = createLoop({
    name,
    idleMs: lookMs,
    async step({ signal }): Promise<'idle'> {
      const wanted = await find(maxLoops)
      if (signal.aborted) return 'idle'
      const now = performance.now()
      for (const namespace of wanted) {
        const known = running.get(namespace)
        if (known !== undefined) known.wantedAt = now
        else running.set(namespace, { loop: tellTrouble(begin(namespace), { namespace }), wantedAt: now })
      }
      // There is no rest where others need the room.
      const keepMs = running.size > maxLoops ? 0 : restMs
      const over = [...running].filter(([, { wantedAt }]) => now - wantedAt > keepMs)
      for (const [namespace] of over) running.delete(namespace)
      await Promise.all(over.map(([, { loop }]) => loop.stop()))
      return 'idle'
    },
  })
  tellTrouble(loop, {})

  async function stopAll(): Promise<void> {
    await loop.stop()
    await Promise.all([...running.values()].map((one) => one.loop.stop()))
  }

  function stop(): Promise<void> {
    stopped ??= stopAll()
    return stopped
  }

  return { loop, stop, [Symbol.asyncDispose]: stop }
}
