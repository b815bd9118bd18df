import type { Meter } from '../../../core/meter.ts'

/**
 * Measures the turns of the write queue: each write by the name of its operation, the shared commit of a group,
 * handlers' transactions, and the times when another process had the file. Times are those of `performance.now()`.
 */
export interface WriteQueueMeter {
  turn(name: string, begunAt: number, enteredAt: number, leftAt: number): void
}

export const commitName = 'commit'
export const transactionName = 'transaction'
/** The name of a turn of another process. */
export const elsewhereName = 'elsewhere'

/**
 * Reports turns to a meter. In this thread a turn blocks the event loop, except a transaction, which runs over several
 * awaits.
 */
export function createWriteQueueMeter(meter: Meter, isHere: boolean): WriteQueueMeter {
  const kinds = new Map<string, number>()
  const kindOf = (name: string): number => {
    const sync = isHere && name !== transactionName && name !== elsewhereName
    const kind = meter.kind(`sqlite.${name}`, { lane: 'sqlite', sync })
    kinds.set(name, kind)
    return kind
  }
  return {
    turn(name, begunAt, enteredAt, leftAt) {
      meter.turn(kinds.get(name) ?? kindOf(name), begunAt, enteredAt, leftAt)
    },
  }
}

/** Turns in the form in which they cross between threads: names, and three times for each in epoch milliseconds. */
export interface ReportedTurns {
  /** Separated by commas; no name contains one. */
  readonly names: string
  /**
   * The times of the request, the begin and the end of each turn. Epoch times, because `performance.now()` differs by
   * thread.
   */
  readonly instants: Float64Array
}

/**
 * Collects turns until they are reported. One text and one array of numbers cross threads much cheaper than a list of
 * objects.
 */
export class PendingTurns implements WriteQueueMeter {
  #names: string[] = []
  #instants: number[] = []

  turn(name: string, begunAt: number, enteredAt: number, leftAt: number): void {
    this.#names.push(name)
    this.#instants.push(toEpoch(begunAt), toEpoch(enteredAt), toEpoch(leftAt))
  }

  /** The turns since the last call. */
  take(): ReportedTurns {
    const turns = { names: this.#names.join(), instants: new Float64Array(this.#instants) }
    this.#names = []
    this.#instants = []
    return turns
  }
}

export function reportTurns(meter: WriteQueueMeter, { names, instants }: ReportedTurns): void {
  if (names === '') return
  const origin = performance.timeOrigin
  for (const [index, name] of names.split(',').entries()) {
    const begunAt = instants[index * 3]!
    // The clocks of two threads differ by some microseconds, but a turn cannot begin before its request.
    const entered = Math.max(begunAt, instants[index * 3 + 1]!)
    const left = Math.max(entered, instants[index * 3 + 2]!)
    meter.turn(name, begunAt - origin, entered - origin, left - origin)
  }
}

export function toEpoch(at: number): number {
  return performance.timeOrigin + at
}
