import { type Clock, patientClock } from '../../../core/clock.ts'

/**
 * Whether this process has more to do than it can: its timers come late, one after the other. Whoever comes then would
 * wait for seconds and make all others wait longer, so new work is refused until the loop keeps time again. One stall
 * alone, as after a pause of the whole process, is no reason: those who waited through it are served.
 */
export interface LoopLag {
  readonly isOverloaded: boolean
  stop(): void
}

export interface LoopLagOptions {
  readonly clock?: Clock
  /** Told when it begins and when it is over. */
  readonly onChange?: (isOverloaded: boolean, lateMs: number) => void
}

const lookMs = 250
/** Leases are renewed at a third of 30 s: a loop that is a second late is nowhere near losing one. */
const boundMs = 1_000

export function createLoopLag({ clock = patientClock, onChange }: LoopLagOptions = {}): LoopLag {
  let isOverloaded = false
  let wasLate = false
  let dueAt = 0
  let timer: unknown

  function look(): void {
    const lateMs = clock.now() - dueAt
    const isLate = lateMs > boundMs
    const was = isOverloaded
    isOverloaded = isLate && wasLate
    wasLate = isLate
    lookLater()
    if (was !== isOverloaded) onChange?.(isOverloaded, Math.round(lateMs))
  }

  function lookLater(): void {
    dueAt = clock.now() + lookMs
    timer = clock.setTimeout(look, lookMs)
  }

  lookLater()
  return {
    get isOverloaded() {
      return isOverloaded
    },
    stop: () => clock.clearTimeout(timer),
  }
}
