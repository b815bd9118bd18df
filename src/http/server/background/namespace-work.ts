import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'

/**
 * Work in every namespace that has some, also before the first request: what waits there must not wait for a visitor. It
 * goes on for as long as the namespace has work; servers that share a store share the work. A namespace in which it cannot
 * begin or end holds up no other, and is tried again.
 */
export interface NamespaceWork extends AsyncDisposable {
  /** Finds the namespaces. */
  readonly loop: Loop
  /** There is work in this namespace: it begins now, not when it is found. */
  want(namespace: string): void
  /** Begins no more, and ends all that goes on. @default 10_000 */
  stop(graceMs?: number): Promise<void>
}

/** What goes on in one namespace; a loop is one. */
export interface Work {
  /** Called once, before anything else. @default it works already */
  start?(): Promise<unknown>
  /** Called once, also when it could not start. */
  stop(options: { readonly graceMs: number }): Promise<unknown>
}

/** Learns of a loop's trouble. Must not throw. */
export type OnTrouble = (loop: string, trouble: keyof LoopEvents, event: object) => void

export interface NamespaceWorkParts {
  /** What the loop that finds the namespaces is called. */
  readonly name: string
  /** Up to `limit` namespaces that have work. */
  readonly find: (limit: number) => Promise<readonly string[]>
  readonly begin: (namespace: string) => Work
  /** How often to look for namespaces. @default 1_000 */
  readonly lookMs?: number | undefined
  /** Where more namespaces have work, only those that `find` returns are worked on. @default 1_000 */
  readonly max?: number
  /**
   * How long work goes on without anything to do, so that a namespace that comes and goes does not start it anew.
   * @default 60_000
   */
  readonly restMs?: number
  readonly onTrouble?: OnTrouble | undefined
}

interface Running {
  readonly work: Work
  wantedAt: number
  ended?: Promise<void>
}

const defaultGraceMs = 10_000

export function createNamespaceWork(parts: NamespaceWorkParts): NamespaceWork {
  const { name, find, begin, lookMs = 1_000, max = 1_000, restMs = 60_000, onTrouble } = parts
  const running = new Map<string, Running>()
  let stopped: Promise<void> | undefined

  async function beginIn(namespace: string): Promise<void> {
    const known = running.get(namespace)
    if (known !== undefined) known.wantedAt = performance.now()
    if (known !== undefined || stopped !== undefined) return
    const work = begin(namespace)
    running.set(namespace, { work, wantedAt: performance.now() })
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
    idleMs: lookMs,
    async step({ signal, progress }): Promise<'idle'> {
      const wrong: unknown[] = []
      const attempt = async (act: Promise<void>) => {
        await act.catch((error: unknown) => wrong.push(error))
        progress()
      }
      const lookedAt = performance.now()
      for (const namespace of await find(max)) {
        if (signal.aborted) return 'idle'
        await attempt(beginIn(namespace))
      }
      // There is no rest where others need the room.
      const keepMs = running.size > max ? 0 : restMs
      const over = [...running].filter(([, { wantedAt }]) => lookedAt - wantedAt > keepMs)
      await Promise.all(over.map(([namespace]) => attempt(end(namespace))))
      if (wrong.length > 0) throw wrong[0]
      return 'idle'
    },
  })

  async function stopAll(graceMs: number): Promise<void> {
    // One grace for both: a look that hangs does not take that of the work under way.
    await Promise.all([loop.stop({ graceMs }), ...[...running.keys()].map((one) => end(one, graceMs))])
    // What the last look began.
    await Promise.all([...running.keys()].map((one) => end(one, 0)))
  }

  function stop(graceMs = defaultGraceMs): Promise<void> {
    stopped ??= stopAll(graceMs)
    return stopped
  }

  return {
    loop: tellTrouble(loop, onTrouble),
    // If it fails, the next look finds it again.
    want: (namespace) => void beginIn(namespace).catch(() => undefined),
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
}

/** The same loop, whose trouble is reported. `about` is added to each event. */
export function tellTrouble(loop: Loop, onTrouble: OnTrouble | undefined, about: object = {}): Loop {
  for (const trouble of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(trouble, (event) => onTrouble?.(loop.name, trouble, { ...about, ...event }))
  return loop
}
