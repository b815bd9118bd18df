import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'

/**
 * Leases, due times and windows go by the store's clock, so a store whose clock is set while it works ends leases early
 * or late. Nothing unsafe comes of it, tokens see to that; but somebody should know. Each look is compared with the last
 * by this process's own monotonic clock, which nobody sets.
 */
export interface ClockWatch {
  readonly loop: Loop
  /** The last jump, for an hour. */
  jump(): ClockJump | undefined
}

export interface ClockJump {
  /** By this machine's clock. */
  readonly at: number
  /** Forward when above zero. */
  readonly byMs: number
}

export interface ClockWatchParts {
  /** The store's time. */
  now(): Promise<number>
  readonly onJump: (jump: ClockJump) => void
  /** Learns of the loop's own trouble. Must not throw. */
  readonly onTrouble?: ((loop: string, trouble: keyof LoopEvents, event: object) => void) | undefined
  /** @default 10_000 */
  readonly lookMs?: number | undefined
}

/** Less is what a slow answer or a clock that is being slewed comes to. */
const leastMs = 2_000
const keepMs = 3_600_000

export function createClockWatch({ now, onJump, onTrouble, lookMs = 10_000 }: ClockWatchParts): ClockWatch {
  let last: { readonly store: number; readonly own: number; readonly sureToMs: number } | undefined
  let found: { readonly jump: ClockJump; readonly own: number } | undefined

  const loop = createLoop({
    name: 'server.clock',
    idleMs: lookMs,
    async step(): Promise<'idle'> {
      const askedAt = performance.now()
      const store = await now()
      const answeredAt = performance.now()
      // The store read its clock somewhere between the two.
      const look = { store, own: (askedAt + answeredAt) / 2, sureToMs: (answeredAt - askedAt) / 2 }
      if (last !== undefined) {
        const byMs = Math.round(look.store - last.store - (look.own - last.own))
        if (Math.abs(byMs) > leastMs + look.sureToMs + last.sureToMs) {
          found = { jump: { at: Date.now(), byMs }, own: look.own }
          onJump(found.jump)
        }
      }
      last = look
      return 'idle'
    },
  })
  for (const trouble of ['failed', 'stalled', 'recovered'] as const)
    loop.events.on(trouble, (event) => onTrouble?.(loop.name, trouble, event))
  return {
    loop,
    jump: () => (found !== undefined && performance.now() - found.own < keepMs ? found.jump : undefined),
  }
}
