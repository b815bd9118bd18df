import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'

/**
 * Work in every namespace that has some, also before the first request of the namespace. It continues while the
 * namespace has work; servers that share a store share the work. A namespace in which the work cannot begin or end
 * delays no other, and the next look tries it again.
 */
export interface NamespaceWork extends AsyncDisposable {
  /** Finds the namespaces. */
  readonly loop: Loop
  /** Begins the work of this namespace now, without waiting for the next look. */
  beginNow(namespace: string): void
  /** Begins no more work, and ends all that runs. @default 10_000 */
  stop(graceMs?: number): Promise<void>
}

/** The work in one namespace; a loop is one. */
export interface Work {
  /** Called once, before every other method. @default the work runs already */
  start?(): Promise<unknown>
  /** Called once, even if the start failed. */
  stop(options: { readonly graceMs: number }): Promise<unknown>
}

/** Called when a loop fails, stalls or recovers. Must not throw. */
export type OnLoopEvent = (loop: string, what: keyof LoopEvents, event: object) => void

interface NamespaceWorkParts {
  /** The name of the loop that finds the namespaces. */
  readonly name: string
  /** Returns up to `limit` namespaces that have work. */
  readonly find: (limit: number) => Promise<readonly string[]>
  readonly begin: (namespace: string) => Work
  /** How often to look for namespaces. @default 1_000 */
  readonly pollMs?: number | undefined
  /** If more namespaces have work, only those that `find` returns are worked on. @default 1_000 */
  readonly max?: number
  /** How long idle work continues, so that a namespace that comes and goes does not start it anew. @default 60_000 */
  readonly keepMs?: number
  readonly onLoopEvent?: OnLoopEvent | undefined
}

interface Running {
  readonly work: Work
  /** When `find` last returned the namespace. */
  foundAt: number
  ended?: Promise<void>
}

const defaultGraceMs = 10_000

export function createNamespaceWork(parts: NamespaceWorkParts): NamespaceWork {
  const { name, find, begin, pollMs = 1_000, max = 1_000, keepMs = 60_000, onLoopEvent } = parts
  const running = new Map<string, Running>()
  let stopped: Promise<void> | undefined

  async function beginIn(namespace: string): Promise<void> {
    const known = running.get(namespace)
    if (known !== undefined) known.foundAt = performance.now()
    if (known !== undefined || stopped !== undefined) return
    const work = begin(namespace)
    running.set(namespace, { work, foundAt: performance.now() })
    try {
      await work.start?.()
    } catch (error) {
      await end(namespace)
      throw error
    }
  }

  async function end(namespace: string, graceMs = defaultGraceMs): Promise<void> {
    const known = running.get(namespace)
    if (known === undefined) return
    known.ended ??= known.work
      .stop({ graceMs })
      .then(() => undefined)
      .finally(() => running.delete(namespace))
    await known.ended
  }

  const loop = createLoop({
    name,
    idleMs: pollMs,
    async step({ signal, progress }): Promise<'idle'> {
      const errors: unknown[] = []
      const attempt = async (act: Promise<void>) => {
        await act.catch((error: unknown) => errors.push(error))
        progress()
      }
      const lookedAt = performance.now()
      for (const namespace of await find(max)) {
        if (signal.aborted) return 'idle'
        await attempt(beginIn(namespace))
      }
      // Above the limit, idle work ends at once, so that other namespaces get their turn.
      const maxIdleMs = running.size > max ? 0 : keepMs
      const idle = [...running].filter(([, { foundAt }]) => lookedAt - foundAt > maxIdleMs)
      await Promise.all(idle.map(([namespace]) => attempt(end(namespace))))
      if (errors.length > 0) throw errors[0]
      return 'idle'
    },
  })

  async function stopAll(graceMs: number): Promise<void> {
    // At the same time, so that a look that hangs does not use up the grace time of the work.
    await Promise.all([loop.stop({ graceMs }), ...[...running.keys()].map((one) => end(one, graceMs))])
    // Ends the work that the last look began.
    await Promise.all([...running.keys()].map((one) => end(one, 0)))
  }

  function stop(graceMs = defaultGraceMs): Promise<void> {
    stopped ??= stopAll(graceMs)
    return stopped
  }

  reportLoopEvents(loop, onLoopEvent)
  return {
    loop,
    // If the start fails, the next look tries it again.
    beginNow: (namespace) => void beginIn(namespace).catch(() => undefined),
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
}

export function reportLoopEvents(loop: Loop, onLoopEvent: OnLoopEvent | undefined): void {
  for (const what of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(what, (event) => onLoopEvent?.(loop.name, what, event))
}
