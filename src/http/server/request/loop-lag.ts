import { type Clock, patientClock } from '../../../core/clock.ts'

/**
 * Detects an overloaded process: two timers in a row are late. A new request would wait for seconds and slow down all
 * others, so the server refuses it until the event loop is on time again. A single stall, as after a pause of the
 * process, does not count: the server serves the requests that waited meanwhile.
 */
interface LoopLag {
  readonly isOverloaded: boolean
  stop(): void
}

interface LoopLagOptions {
  readonly clock?: Clock
  /** Called when the overload begins and when it ends. */
  readonly onChange?: (isOverloaded: boolean, lateMs: number) => void
}

const checkMs = 250
/** Workers renew leases every 10 s, a third of their time. So a loop that is a second late is far from losing one. */
const maxLateMs = 1_000

export function createLoopLag({ clock = patientClock, onChange }: LoopLagOptions = {}): LoopLag {
  let isOverloaded = false
  let wasLate = false
  let dueAt = 0
  let timer: unknown

  function checkLag(): void {
    const lateMs = clock.now() - dueAt
    const isLate = lateMs > maxLateMs
    const was = isOverloaded
    isOverloaded = isLate && wasLate
    wasLate = isLate
    checkLater()
    if (was !== isOverloaded) onChange?.(isOverloaded, Math.round(lateMs))
  }

  function checkLater(): void {
    dueAt = clock.now() + checkMs
    timer = clock.setTimeout(checkLag, checkMs)
  }

  checkLater()
  return {
    get isOverloaded() {
      return isOverloaded
    },
    stop: () => clock.clearTimeout(timer),
  }
}
