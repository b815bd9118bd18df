import { createLoop, type Loop, type LoopEvents } from '../core/loop.ts'
import { createFiring } from '../jobs/index.ts'
import type { Served } from './call.ts'

/**
 * Runs the schedules of every namespace that has some, also where nobody has asked anything since the server started. Each
 * such namespace has a loop for as long as that is so; servers that share a store share the work.
 */
export interface Scheduling extends AsyncDisposable {
  readonly loop: Loop
  stop(): Promise<void>
}

export interface SchedulingParts {
  readonly served: Pick<Served, 'scheduledNamespaces' | 'within'>
  /** Learns of a loop's trouble. Must not throw. */
  readonly onTrouble?: (loop: string, trouble: keyof LoopEvents, event: object) => void
}

const lookMs = 1_000
const maxNamespaces = 1_000
/** How long a namespace without a schedule to run keeps its loop, so that one that comes and goes does not start it anew. */
const restMs = 60_000

export function createScheduling({ served, onTrouble = () => {} }: SchedulingParts): Scheduling {
  const firing = new Map<string, { readonly loop: Loop; wantedAt: number }>()
  let stopped: Promise<void> | undefined

  function begin(namespace: string): void {
    const { schedules, bell } = served.within(namespace)
    const loop = createFiring({ schedules, bell })
    tellTrouble(loop, { namespace })
    firing.set(namespace, { loop, wantedAt: performance.now() })
  }

  function tellTrouble(loop: Loop, about: object): void {
    for (const trouble of ['failed', 'stalled', 'recovered'] as const)
      loop.events.on(trouble, (event) => onTrouble(loop.name, trouble, { ...about, ...event }))
  }

  const loop = createLoop({
    name: 'server.schedules',
    idleMs: lookMs,
    async step({ signal }): Promise<'idle'> {
      const scheduled = new Set(await served.scheduledNamespaces(maxNamespaces))
      if (signal.aborted) return 'idle'
      const now = performance.now()
      for (const namespace of scheduled) {
        const known = firing.get(namespace)
        if (known === undefined) begin(namespace)
        else known.wantedAt = now
      }
      const over = [...firing].filter(([, { wantedAt }]) => now - wantedAt > restMs)
      for (const [namespace] of over) firing.delete(namespace)
      await Promise.all(over.map(([, { loop }]) => loop.stop()))
      return 'idle'
    },
  })
  tellTrouble(loop, {})

  async function stopAll(): Promise<void> {
    await loop.stop()
    await Promise.all([...firing.values()].map((one) => one.loop.stop()))
  }

  function stop(): Promise<void> {
    stopped ??= stopAll()
    return stopped
  }

  return { loop, stop, [Symbol.asyncDispose]: stop }
}
